"""Day 17: sampling, the stream that gives its blocks back, and one pool for all runs."""

from nanoserve.course.exercises.day17 import drawing, keeping, memory, refusing, tokens, ways_out
from nanoserve.course.tasks import Task, load_slips
from nanoserve.generation import cache_for, decode
from nanoserve.sampling import sample, warp

SLIPS = load_slips(__package__)

TASKS = (
    Task(
        id="17.1",
        title="What may be drawn",
        minutes=14,
        difficulty=3,
        reference=warp,
        stages=(
            keeping.temperature_divides,
            keeping.the_callers_row_stays,
            keeping.top_k_keeps_k,
            keeping.ties_stay,
            keeping.top_k_can_be_off_or_large,
            keeping.top_p_keeps_the_nucleus,
            keeping.the_likeliest_always_stays,
            keeping.top_p_of_1_is_off,
            keeping.top_p_counts_after_temperature,
            keeping.top_p_counts_after_top_k,
            keeping.all_three_agree_with_the_reference,
        ),
        slips=SLIPS,
    ),
    Task(
        id="17.2",
        title="The draw",
        minutes=7,
        difficulty=2,
        reference=sample,
        stages=(
            drawing.temperature_0_is_the_likeliest,
            drawing.temperature_0_never_draws,
            drawing.above_0_a_token_is_drawn,
            drawing.the_callers_row_stays,
            drawing.draws_follow_the_probabilities,
            drawing.a_small_temperature_draws_too,
            drawing.only_what_is_kept_is_drawn,
            drawing.the_generator_draws,
            drawing.half_precision_is_no_matter,
            drawing.too_little_to_divide_by,
            refusing.nonsense_is_refused,
            refusing.a_batch_is_refused,
            refusing.arguments_by_name,
        ),
        slips=SLIPS,
    ),
    Task(
        id="17.3",
        title="Every way out gives the blocks back",
        minutes=14,
        difficulty=4,
        reference=decode,
        stages=(
            tokens.the_tokens_come,
            tokens.a_step_feeds_what_is_new,
            tokens.next_token_chooses,
            tokens.each_token_comes_as_soon_as_it_is_there,
            tokens.two_streams_in_turns,
            tokens.an_eos_is_the_last_token,
            ways_out.a_text_that_ends_gives_its_blocks_back,
            ways_out.an_error_gives_the_blocks_back,
            ways_out.an_error_in_next_token_gives_the_blocks_back,
            ways_out.a_reader_who_leaves_gives_the_blocks_back,
            ways_out.an_error_thrown_in_gives_the_blocks_back,
            ways_out.ctrl_c_gives_the_blocks_back,
            ways_out.the_others_keep_their_blocks,
            ways_out.the_cache_is_freed_once,
            ways_out.the_blocks_are_back_before_the_last_token,
        ),
        slips=SLIPS,
    ),
    Task(
        id="17.4",
        title="One pool for all runs",
        minutes=8,
        difficulty=2,
        reference=cache_for,
        stages=(
            memory.without_blocks,
            memory.a_pool_of_its_own,
            memory.a_pool_that_is_shared,
            memory.two_runs_of_one_pool,
            memory.ids_that_are_shared,
            memory.runs_with_memory_of_their_own,
            memory.the_others_are_left_alone,
            memory.arguments_by_name,
            memory.a_pool_of_another_model,
        ),
        slips=SLIPS,
    ),
)
