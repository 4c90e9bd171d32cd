"""Day 19: the first Triton kernels."""

from nanoserve.course.exercises.day19 import copying, gathering, summing
from nanoserve.course.kernels.reference import KernelReference
from nanoserve.course.tasks import Task, load_slips

SLIPS = load_slips(__package__)
_MODULE = f"{__package__}.reference"

TASKS = (
    Task(
        id="19.1",
        title="A copy with a mask",
        minutes=12,
        difficulty=2,
        reference=KernelReference(_MODULE, "copy_kernel"),
        stages=(
            copying.one_program_copies_its_block,
            copying.the_compiler_takes_it,
            copying.each_program_has_a_part_of_its_own,
            copying.fewer_elements_than_a_block_has,
            copying.the_last_block_is_cut_where_the_elements_end,
            copying.programs_past_the_end_do_nothing,
            copying.a_block_of_any_size,
            copying.other_numbers_than_fp32,
        ),
        slips=SLIPS,
        seconds=60.0,
    ),
    Task(
        id="19.2",
        title="The sum of each row",
        minutes=12,
        difficulty=3,
        reference=KernelReference(_MODULE, "row_sum_kernel"),
        stages=(
            summing.a_row_that_fits,
            summing.the_compiler_takes_it,
            summing.each_row_has_a_program,
            summing.a_row_shorter_than_a_block,
            summing.rows_that_lie_apart,
            summing.a_row_longer_than_a_block,
            summing.halves_are_summed_in_fp32,
            summing.any_number_of_rows_and_columns,
        ),
        slips=SLIPS,
        seconds=60.0,
    ),
    Task(
        id="19.3",
        title="The gather through a block table",
        minutes=15,
        difficulty=4,
        reference=KernelReference(_MODULE, "gather_kernel"),
        stages=(
            gathering.one_block,
            gathering.the_compiler_takes_it,
            gathering.blocks_that_lie_scattered,
            gathering.the_last_tile_ends_with_the_sequence,
            gathering.a_width_that_is_no_power_of_two,
            gathering.a_block_of_any_size,
            gathering.a_pool_beyond_int32,
            gathering.agrees_with_torch_indexing,
        ),
        slips=SLIPS,
        seconds=60.0,
    ),
)
