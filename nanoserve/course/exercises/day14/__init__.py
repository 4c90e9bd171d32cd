"""Day 14: the block allocator."""

from nanoserve.allocator import BlockAllocator
from nanoserve.course.exercises.day14 import guard, one_block, whole_sequences
from nanoserve.course.tasks import Task, load_slips

SLIPS = load_slips(__package__)

TASKS = (
    Task(
        id="14.1",
        title="Allocate and free",
        minutes=12,
        difficulty=2,
        reference=BlockAllocator,
        given=("__init__", "num_free", "num_used"),
        later=("_require_allocated",),
        writes=("allocate", "free"),
        stages=(
            one_block.hands_out_each_block_once,
            one_block.counts_what_is_out,
            one_block.an_empty_pool_says_so,
            one_block.a_freed_block_comes_back,
            one_block.last_in_first_out,
            one_block.the_peak_is_a_high_water_mark,
            one_block.two_pools_are_apart,
            one_block.agrees_with_a_plain_model,
        ),
        slips=SLIPS,
    ),
    Task(
        id="14.2",
        title="The double free",
        minutes=8,
        difficulty=2,
        reference=BlockAllocator,
        extends="14.1",
        writes=("_require_allocated",),
        stages=(
            guard.what_is_out_goes_back,
            guard.the_second_free_is_refused,
            guard.an_unknown_block_is_refused,
            guard.the_error_names_the_block,
            guard.a_list_is_looked_at_whole,
            guard.a_caught_error_harms_nothing,
        ),
        slips=SLIPS,
    ),
    Task(
        id="14.3",
        title="All the blocks or none",
        minutes=8,
        difficulty=2,
        reference=BlockAllocator,
        extends="14.2",
        writes=("allocate_for",),
        stages=(
            whole_sequences.takes_the_ceiling,
            whole_sequences.no_tokens_take_no_block,
            whole_sequences.the_last_blocks_can_be_taken,
            whole_sequences.two_sequences_are_apart,
            whole_sequences.the_peak_stays,
            whole_sequences.all_or_none,
        ),
        slips=SLIPS,
    ),
    Task(
        id="14.4",
        title="A whole sequence goes back",
        minutes=8,
        difficulty=3,
        reference=BlockAllocator,
        extends="14.3",
        writes=("free_all",),
        stages=(
            whole_sequences.a_sequence_goes_back,
            whole_sequences.the_trace_of_the_day,
            whole_sequences.nothing_moves_before_all_is_checked,
            whole_sequences.the_callers_list_is_theirs,
            whole_sequences.the_whole_agrees_with_a_plain_model,
        ),
        slips=SLIPS,
    ),
)
