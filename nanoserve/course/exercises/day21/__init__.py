"""Day 21: the kernel in the loop."""

from nanoserve.cache import PagedKVCache
from nanoserve.course.exercises.day21 import attending, combining, shares
from nanoserve.course.kernels.reference import KernelReference
from nanoserve.course.tasks import Task, load_slips

SLIPS = load_slips(__package__)

TASKS = (
    Task(
        id="21.1",
        title="A program's share of a sequence",
        minutes=10,
        difficulty=2,
        reference=KernelReference("nanoserve.kernels.paged_decode", "my_tokens"),
        stages=(
            shares.one_program_has_it_all,
            shares.the_compiler_takes_it,
            shares.two_programs_share_it,
            shares.shares_are_whole_tiles,
            shares.it_ends_with_the_sequence,
            shares.programs_past_the_end_have_nothing,
            shares.any_length_any_tile,
        ),
        slips=SLIPS,
        seconds=60.0,
    ),
    Task(
        id="21.2",
        title="Putting the shares together",
        minutes=15,
        difficulty=4,
        reference=KernelReference("nanoserve.kernels.combine", "combine_kernel"),
        stages=(
            combining.one_share_comes_through,
            combining.the_compiler_takes_it,
            combining.two_shares_by_their_weight,
            combining.each_head_of_each_sequence,
            combining.each_head_by_weights_of_its_own,
            combining.an_empty_share_weighs_nothing,
            combining.three_shares_in_four_lanes,
            combining.a_width_that_is_no_power_of_two,
            combining.large_and_small_sums,
            combining.a_sequence_without_a_token,
            combining.an_output_with_strides_of_its_own,
            combining.agrees_with_one_softmax,
        ),
        slips=SLIPS,
        seconds=60.0,
    ),
    Task(
        id="21.3",
        title="The kernel behind attend",
        minutes=12,
        difficulty=3,
        reference=PagedKVCache,
        extends="16.3",
        given=("kernel",),
        writes=("attend",),
        stages=(
            attending.a_prompt_takes_the_gather,
            attending.a_token_takes_the_kernel,
            attending.token_by_token,
            attending.only_where_it_is_asked_for,
            attending.a_gpu_asks_for_it,
            attending.a_chunk_of_a_prompt,
            attending.nothing_waits_for_the_device,
            attending.two_sequences_in_one_pool,
            attending.any_heads_any_block_size,
        ),
        slips=SLIPS,
        seconds=20.0,
    ),
)
