"""Day 15: the block table."""

from nanoserve.block_table import BlockTable
from nanoserve.course.exercises.day15 import growth, lookup, whole_growth
from nanoserve.course.tasks import Task, load_slips

SLIPS = load_slips(__package__)

TASKS = (
    Task(
        id="15.1",
        title="Grow by need",
        minutes=15,
        difficulty=3,
        reference=BlockTable,
        given=("__init__", "free"),
        writes=("append",),
        stages=(
            growth.the_first_token_takes_a_block,
            growth.a_new_table_is_empty,
            growth.a_block_holds_many_tokens,
            growth.the_room_in_the_last_block_comes_first,
            growth.a_block_is_due_when_a_position_has_none,
            growth.room_in_the_table_needs_none_in_the_pool,
            growth.the_last_free_block_can_be_taken,
            growth.many_tokens_at_once,
            growth.a_chunk_across_a_boundary,
            growth.any_block_size,
            whole_growth.all_or_nothing,
            whole_growth.none_and_fewer,
            whole_growth.a_freed_table_begins_anew,
            whole_growth.an_allocator_of_another_make,
            whole_growth.agrees_with_a_plain_model,
        ),
        slips=SLIPS,
    ),
    Task(
        id="15.2",
        title="Where a position lies",
        minutes=8,
        difficulty=2,
        reference=BlockTable,
        extends="15.1",
        writes=("position",),
        stages=(
            lookup.position_0_lies_in_the_first_block,
            lookup.the_offset_counts_within_the_block,
            lookup.the_next_block_begins_at_offset_0,
            lookup.the_last_position_is_inside,
            lookup.a_table_that_grew_again,
            lookup.a_position_outside_is_an_index_error,
            lookup.every_position_agrees_with_a_plain_model,
        ),
        slips=SLIPS,
    ),
    Task(
        id="15.3",
        title="The flat slot",
        minutes=5,
        difficulty=1,
        reference=BlockTable,
        extends="15.2",
        writes=("slot",),
        stages=(
            lookup.a_block_begins_at_id_times_size,
            lookup.the_offset_is_added,
            lookup.the_slots_of_the_next_block,
            lookup.slots_of_a_table_that_grew_again,
            lookup.a_slot_outside_is_an_index_error,
            lookup.by_ones_and_at_once,
            lookup.every_slot_agrees_with_a_plain_model,
        ),
        slips=SLIPS,
    ),
)
