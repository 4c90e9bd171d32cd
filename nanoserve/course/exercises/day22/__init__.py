"""Day 22: many sequences in one batch."""

from nanoserve.course.exercises.day22 import admission, beside, half_way, masking, padding, placing
from nanoserve.course.tasks import Task, load_slips
from nanoserve.paged_slots import PagedSlotKVCache
from nanoserve.prefill import left_pad, padded_causal_mask

SLIPS = load_slips(__package__)

TASKS = (
    Task(
        id="22.1",
        title="Prompts that end together",
        minutes=6,
        difficulty=1,
        reference=left_pad,
        stages=(
            padding.ids_and_counts_come_back,
            padding.a_call_knows_nothing_of_another,
            padding.prompts_end_together,
            padding.rows_stay_in_their_order,
            padding.the_callers_prompts_stay,
            padding.any_sequence_of_ids_will_do,
            padding.a_pad_is_a_token_of_the_model,
            padding.a_prompt_may_hold_the_pads_id,
            padding.any_lengths,
        ),
        slips=SLIPS,
    ),
    Task(
        id="22.2",
        title="Who sees whom",
        minutes=10,
        difficulty=3,
        reference=padded_causal_mask,
        stages=(
            masking.a_column_sees_itself_and_what_came_before,
            masking.nobody_sees_a_pad,
            masking.each_call_looks_at_its_own_pads,
            masking.each_row_has_its_own_pads,
            masking.the_callers_counts_stay,
            masking.a_pad_has_something_to_see,
            masking.the_mask_lies_on_the_device,
            masking.any_rows_and_columns,
        ),
        slips=SLIPS,
    ),
    Task(
        id="22.3",
        title="Admitted without the pads",
        minutes=15,
        difficulty=4,
        reference=PagedSlotKVCache,
        inherits=True,
        writes=("admit",),
        stages=(
            admission.a_prompt_lies_in_its_blocks,
            admission.pads_stay_behind,
            admission.each_row_goes_to_its_slot,
            admission.the_offset_stays_with_the_slot,
            beside.who_is_in_already_stays,
            beside.what_was_given_stays,
            admission.a_slot_that_is_taken_is_refused,
            admission.a_slot_named_twice_is_refused,
            admission.too_few_blocks_take_nothing,
            half_way.an_error_half_way_leaves_nothing,
            half_way.an_error_while_storing_leaves_nothing,
            half_way.ctrl_c_half_way_leaves_nothing,
            admission.any_rows_and_slots,
        ),
        slips=SLIPS,
    ),
    Task(
        id="22.4",
        title="A place for every new token",
        minutes=10,
        difficulty=3,
        reference=PagedSlotKVCache,
        inherits=True,
        extends="22.3",
        writes=("places", "positions"),
        stages=(
            placing.the_next_token_goes_behind_the_last,
            placing.a_full_block_is_followed_by_another,
            placing.each_slot_has_its_own_table,
            placing.an_idle_slot_writes_to_scratch,
            placing.blocks_have_any_size,
            placing.a_token_stands_where_it_is_counted,
            placing.pads_are_counted_too,
            placing.each_slot_counts_for_itself,
            placing.a_step_of_a_model_goes_right,
        ),
        slips=SLIPS,
    ),
)
