"""Day 18: attention without the gather."""

from nanoserve.attention import blockwise_attention, fold
from nanoserve.course.exercises.day18 import one_block, walk
from nanoserve.course.tasks import Task, load_slips

SLIPS = load_slips(__package__)

TASKS = (
    Task(
        id="18.1",
        title="One block into the softmax",
        minutes=14,
        difficulty=3,
        reference=fold,
        stages=(
            one_block.the_first_block,
            one_block.a_higher_score_comes_later,
            one_block.a_lower_score_comes_later,
            one_block.each_head_for_itself,
            one_block.large_scores,
            one_block.a_masked_token,
            one_block.a_block_that_is_masked_as_a_whole,
            one_block.masks_that_differ_between_heads,
            one_block.the_block_stays_as_it_is,
            one_block.any_blocks,
        ),
        slips=SLIPS,
    ),
    Task(
        id="18.2",
        title="The walk over the table",
        minutes=16,
        difficulty=4,
        reference=blockwise_attention,
        stages=(
            walk.one_full_block,
            walk.query_heads_in_groups,
            walk.three_blocks_in_the_tables_order,
            walk.the_rest_of_the_last_block,
            walk.several_sequences,
            walk.a_sequence_of_no_tokens,
            walk.a_scale_of_the_callers,
            walk.scores_far_below_zero,
            walk.the_pool_stays_as_it_is,
            walk.nothing_is_copied_together,
            walk.any_shapes,
        ),
        slips=SLIPS,
    ),
)
