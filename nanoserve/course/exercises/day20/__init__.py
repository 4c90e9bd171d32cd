"""Day 20: the paged-attention kernel."""

from nanoserve.course.exercises.day20 import addresses, folding, one_program, scoring, whole_grid
from nanoserve.course.kernels.reference import KernelReference
from nanoserve.course.tasks import Task, load_slips

SLIPS = load_slips(__package__)
_MODULE = "nanoserve.kernels.paged_decode"

TASKS = (
    Task(
        id="20.1",
        title="Where the tokens lie",
        minutes=8,
        difficulty=2,
        reference=KernelReference(_MODULE, "token_offsets"),
        stages=(
            addresses.one_block,
            addresses.the_compiler_takes_it,
            addresses.blocks_that_lie_scattered,
            addresses.the_last_tile_is_not_full,
            addresses.a_block_of_any_size,
            addresses.blocks_of_all_layers_together,
            addresses.a_pool_beyond_int32,
            addresses.any_sizes,
        ),
        slips=SLIPS,
        seconds=20.0,
    ),
    Task(
        id="20.2",
        title="The scores of a tile",
        minutes=10,
        difficulty=3,
        reference=KernelReference(_MODULE, "scores"),
        stages=(
            scoring.products_of_queries_and_keys,
            scoring.the_compiler_takes_it,
            scoring.the_scale,
            scoring.tokens_that_are_not_held,
            scoring.halves_are_multiplied_in_fp32,
            scoring.with_dot_the_same_numbers,
            scoring.with_dot_on_tensor_cores,
            scoring.any_sizes,
        ),
        slips=SLIPS,
        seconds=20.0,
    ),
    Task(
        id="20.3",
        title="The online softmax, in a kernel",
        minutes=12,
        difficulty=4,
        reference=KernelReference(_MODULE, "fold"),
        stages=(
            folding.the_first_tile,
            folding.the_compiler_takes_it,
            folding.a_higher_score_comes_later,
            folding.a_lower_score_comes_later,
            folding.a_tile_that_is_masked_as_a_whole,
            folding.halves_are_summed_in_fp32,
            folding.with_dot_the_same_numbers,
            folding.with_dot_on_tensor_cores,
            folding.any_tiles,
        ),
        slips=SLIPS,
        seconds=20.0,
    ),
    Task(
        id="20.4",
        title="The kernel",
        minutes=25,
        difficulty=5,
        reference=KernelReference(_MODULE, "paged_decode_kernel"),
        stages=(
            one_program.one_head_one_tile,
            one_program.the_compiler_takes_it,
            one_program.heads_in_groups,
            one_program.a_group_of_three,
            one_program.several_tiles,
            one_program.the_last_tile_is_not_full,
            one_program.a_width_that_is_no_power_of_two,
            whole_grid.several_sequences,
            whole_grid.a_sequence_of_no_tokens,
            whole_grid.a_query_out_of_a_fused_projection,
            whole_grid.a_layer_of_a_pool,
            whole_grid.an_output_with_strides,
            whole_grid.scores_far_below_zero,
            whole_grid.tiles_and_blocks_of_any_size,
            whole_grid.the_form_with_dot,
            whole_grid.a_pool_beyond_int32,
            whole_grid.the_log_sum_exp,
            whole_grid.any_shapes,
        ),
        slips=SLIPS,
        seconds=30.0,
    ),
)
