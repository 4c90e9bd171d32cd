"""Day 16: the paged cache."""

from nanoserve.cache import PagedKVCache, gather_by_table, write_by_slot
from nanoserve.course.exercises.day16 import by_slot, by_table, layer_step
from nanoserve.course.tasks import Task, load_slips

SLIPS = load_slips(__package__)

TASKS = (
    Task(
        id="16.1",
        title="Write by slot",
        minutes=8,
        difficulty=2,
        reference=write_by_slot,
        stages=(
            by_slot.one_token_in_its_slot,
            by_slot.every_head_of_every_token,
            by_slot.scattered_slots,
            by_slot.what_else_is_there_stays,
            by_slot.any_pool_any_order,
        ),
        slips=SLIPS,
    ),
    Task(
        id="16.2",
        title="Gather by table",
        minutes=10,
        difficulty=3,
        reference=gather_by_table,
        stages=(
            by_table.one_full_block,
            by_table.in_the_tables_order,
            by_table.its_own_tokens_only,
            by_table.memory_of_its_own,
            by_table.any_pool_any_table,
        ),
        slips=SLIPS,
    ),
    Task(
        id="16.3",
        title="One table for all layers",
        minutes=15,
        difficulty=4,
        reference=PagedKVCache,
        given=("__init__", "seq_len", "free"),
        writes=("store", "append"),
        stages=(
            layer_step.a_prompt_in_its_slots,
            layer_step.the_prompt_comes_back,
            layer_step.one_table_for_all_layers,
            layer_step.token_by_token,
            layer_step.a_full_pool_changes_nothing,
            layer_step.two_sequences_in_one_pool,
            layer_step.index_tensors_once_a_step,
            layer_step.any_chunks,
            layer_step.store_writes_alone,
            layer_step.the_blocks_are_told,
            layer_step.a_model_can_ask,
        ),
        slips=SLIPS,
    ),
)
