"""Day 13: the memory wall."""

from nanoserve.cache import NaiveKVCache
from nanoserve.course.exercises.day13 import contiguous, cost
from nanoserve.course.tasks import Task, load_slips
from nanoserve.memory import kv_bytes_per_token, used_share

SLIPS = load_slips(__package__)

TASKS = (
    Task(
        id="13.1",
        title="The contiguous cache",
        minutes=12,
        difficulty=2,
        reference=NaiveKVCache,
        given=("__init__", "seq_len", "free"),
        writes=("append",),
        stages=(
            contiguous.the_first_step_comes_back,
            contiguous.two_caches_are_apart,
            contiguous.the_second_stands_behind_the_first,
            contiguous.every_step_is_kept,
            contiguous.several_tokens_may_follow,
            contiguous.layers_are_apart,
            contiguous.seq_len_counts_tokens,
            contiguous.the_dtype_is_kept,
            contiguous.a_freed_cache_is_empty,
            contiguous.a_whole_run,
            contiguous.nothing_is_forgotten,
            contiguous.a_model_can_ask,
        ),
        slips=SLIPS,
    ),
    Task(
        id="13.2",
        title="What a token costs",
        minutes=8,
        difficulty=2,
        reference=kv_bytes_per_token,
        stages=(
            cost.two_tensors_a_layer,
            cost.the_numbers_are_the_configs,
            cost.a_heads_width_is_its_own,
            cost.any_dtype,
        ),
        slips=SLIPS,
    ),
    Task(
        id="13.3",
        title="What a reservation wastes",
        minutes=8,
        difficulty=1,
        reference=used_share,
        stages=(
            cost.tokens_over_reserved,
            cost.a_share_is_not_rounded,
            cost.a_full_reservation,
            cost.the_callers_list_stays,
            cost.no_request_wastes_nothing,
            cost.too_long_is_refused,
            cost.fewer_than_none_is_refused,
            cost.no_room_is_refused,
        ),
        slips=SLIPS,
    ),
)
