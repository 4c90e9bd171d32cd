"""Day 24: the pool runs out in the middle of a text; who gives way, and how it comes back."""

from nanoserve.course.exercises.day24 import coming_back, coming_in, due, failing, making_room, preempting, reserving
from nanoserve.course.tasks import Task, load_slips
from nanoserve.engine import Engine
from nanoserve.scheduler import Scheduler
from nanoserve.slots import Slots

SLIPS = load_slips(__package__)

TASKS = (
    Task(
        id="24.1",
        title="Room for all, or for none",
        minutes=10,
        difficulty=3,
        reference=Slots,
        inherits=True,
        writes=("_blocks_due", "reserve_step"),
        stages=(
            due.a_block_is_due_when_the_last_one_is_full,
            due.each_sequence_has_blocks_of_its_own,
            due.an_idle_slot_needs_none,
            due.blocks_have_any_size,
            reserving.blocks_that_are_due_are_taken,
            reserving.idle_slots_lie_between,
            reserving.tokens_are_counted_later,
            reserving.nobody_is_here,
            reserving.nothing_due_and_nothing_free,
            reserving.a_block_due_and_none_free,
            reserving.all_or_none,
            reserving.the_same_step_again_takes_nothing,
            reserving.a_row_has_an_end,
            reserving.at_the_end_nobody_gets_any,
            reserving.the_devices_table_follows,
        ),
        slips=SLIPS,
    ),
    Task(
        id="24.2",
        title="The newest gives way",
        minutes=10,
        difficulty=2,
        reference=Scheduler,
        inherits=True,
        writes=("make_room", "preempt"),
        stages=(
            preempting.slot_and_blocks_come_back,
            preempting.it_waits_at_the_front,
            preempting.it_waits_like_any_other,
            preempting.prompt_and_text_stay,
            preempting.it_is_counted,
            making_room.nobody_goes_while_there_is_room,
            making_room.the_newest_goes,
            making_room.as_often_as_it_takes,
            making_room.the_newest_goes_whatever_it_has_said,
            making_room.many_may_have_to_go,
            making_room.they_line_up_by_their_age,
            making_room.the_last_one_goes_too,
            making_room.each_is_counted_once,
        ),
        slips=SLIPS,
    ),
    Task(
        id="24.3",
        title="Come in, or come back",
        minutes=14,
        difficulty=4,
        reference=Engine,
        inherits=True,
        writes=("_admit",),
        stages=(
            coming_in.nobody_waits,
            coming_in.a_prompt_comes_in,
            coming_in.prompts_of_any_length_come_together,
            coming_in.as_many_as_fit,
            coming_in.beside_one_who_runs,
            coming_back.the_text_goes_on_where_it_was,
            coming_back.what_is_computed_again_is_counted,
            coming_back.old_and_new_come_together,
            coming_back.two_come_back_together,
            coming_back.it_may_happen_again,
            coming_in.who_is_complete_leaves_at_once,
            coming_back.a_seed_draws_once_a_token,
            coming_in.each_chooses_by_its_own_rule,
            failing.a_prefill_that_failed_has_not_happened,
            failing.nothing_is_stored_before_the_choice,
            failing.nobody_runs_without_their_blocks,
        ),
        slips=SLIPS,
    ),
)
