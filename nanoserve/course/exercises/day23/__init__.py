"""Day 23: who comes in, who leaves, and the step that all who run share."""

from nanoserve.course.exercises.day23 import decoding, leaving, lining_up, retiring
from nanoserve.course.tasks import Task, load_slips
from nanoserve.engine import Engine
from nanoserve.scheduler import Scheduler

SLIPS = load_slips(__package__)

TASKS = (
    Task(
        id="23.1",
        title="Who comes in",
        minutes=10,
        difficulty=2,
        reference=Scheduler,
        inherits=True,
        writes=("next_in_line",),
        stages=(
            lining_up.nobody_waits_and_nobody_comes,
            lining_up.all_that_fit_come_in_their_order,
            lining_up.the_line_stays_as_it_is,
            lining_up.asked_again_it_says_the_same,
            lining_up.there_is_a_slot_for_each,
            lining_up.those_that_run_are_no_hindrance,
            lining_up.there_are_blocks_for_all,
            lining_up.those_that_run_keep_room,
            lining_up.nobody_overtakes,
            lining_up.there_is_room_for_the_first_new_token,
            lining_up.tokens_so_far_need_room_too,
        ),
        slips=SLIPS,
    ),
    Task(
        id="23.2",
        title="Who leaves",
        minutes=8,
        difficulty=2,
        reference=Scheduler,
        inherits=True,
        extends="23.1",
        writes=("leave", "_release"),
        stages=(
            leaving.who_is_finished_runs_no_more,
            leaving.slot_and_blocks_come_back,
            leaving.the_others_stay,
            leaving.who_waits_can_leave,
            leaving.an_abort_gives_everything_back,
            leaving.the_text_stays_with_its_request,
            leaving.release_is_enough_for_tomorrow,
        ),
        slips=SLIPS,
    ),
    Task(
        id="23.3",
        title="One step for all",
        minutes=16,
        difficulty=3,
        reference=Engine,
        inherits=True,
        writes=("_decode", "_accept"),
        stages=(
            decoding.a_request_gets_a_token_in_each_step,
            decoding.the_newest_token_goes_in,
            decoding.each_row_belongs_to_its_slot,
            decoding.who_waits_is_left_alone,
            decoding.what_was_stored_is_counted,
            retiring.who_is_complete_leaves_at_once,
            retiring.a_prompts_token_may_be_the_last,
            retiring.an_eos_ends_a_text,
            retiring.several_leave_in_one_step,
            decoding.slots_may_be_idle_or_taken_again,
            decoding.each_chooses_by_its_own_rule,
            decoding.steps_and_tokens_are_counted,
            decoding.a_step_that_failed_has_not_happened,
        ),
        slips=SLIPS,
    ),
)
