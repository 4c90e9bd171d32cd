"""Stages of task 16.2: a sequence is copied out of its blocks, in its table's order."""

from random import Random

import torch

from nanoserve.course.exercises.day16.rows import HEADS, WIDTH, empty, keys, laid, same_history, same_memory
from nanoserve.course.probe import Probe


def one_full_block(probe: Probe) -> None:
    """one full block, as (1, num_kv_heads, num_tokens, head_dim)"""
    history = keys(range(4))
    memory = laid(_stored(8, [5], history), [0, 1, 2, 3], keys(range(40, 44)))  # another's, in block 0
    slips = {
        "no-batch-dimension": (HEADS, 4, WIDTH),
        "heads-and-tokens-swapped": (1, 4, HEADS, WIDTH),
        "all-dimensions-reversed": (1, WIDTH, HEADS, 4),
        "ids-as-slots": (1, HEADS, 1, WIDTH),
        "whole-pool": (1, HEADS, 32, WIDTH),
        "not-transposed": memory[5].reshape(1, HEADS, 4, WIDTH),
        "one-head-for-all": history[:, :1].expand(history.shape),
        "first-blocks-of-the-pool": _read(memory, [0]),
    }
    same_history(probe, _gather(probe, memory, [5], 4), history, "wrong-tokens", slips, "held")


def in_the_tables_order(probe: Probe) -> None:
    """three blocks, in the order of the table"""
    table, history = [3, 0, 2], keys(range(12))
    memory = _stored(6, table, history)
    by_offset = memory[table].transpose(0, 1).reshape(12, HEADS, WIDTH).transpose(0, 1).unsqueeze(0)
    slips = {
        "id-order": _read(memory, sorted(table)),
        "last-block-first": _read(memory, table[::-1]),
        "by-offset": by_offset,
        "newest-first": history.flip(2),
        "run-from-the-first-block": _read(memory, [3, 4, 5]),
    }
    same_history(probe, _gather(probe, memory, table, 12), history, "wrong-tokens", slips, "held")


def its_own_tokens_only(probe: Probe) -> None:
    """six tokens in two blocks: what lies behind them is another's"""
    table, history = [3, 1], keys(range(6))
    memory = _stored(7, table, torch.cat([history, keys(range(40, 42))], dim=2))  # 40, 41: who had the block before
    whole = _read(memory, table)
    slips = {
        "padded-with-zeros": torch.cat([history, torch.zeros(1, HEADS, 2, WIDTH)], dim=2),
        "stale-rows": (1, HEADS, range(7, 9), WIDTH),
        "drops-the-last-block": (1, HEADS, 4, WIDTH),
        "trims-the-front": whole[:, :, 2:],
        "one-short": (1, HEADS, 5, WIDTH),
    }
    with probe.on_error(RuntimeError, slip="whole-blocks-do-not-fit", match="input of size 80|expanded size"):
        held = _gather(probe, memory, table, 6)
    same_history(probe, held, history, "wrong-tokens", slips, "held")


def memory_of_its_own(probe: Probe) -> None:
    """a later write changes nothing that was handed out, and the next gather sees it"""
    for table in ([2], [1, 2]):
        history = keys(range(4 * len(table)))
        memory = _stored(4, table, history)
        before = memory.clone()
        held = _gather(probe, memory, table, history.shape[2] - 1)
        same_memory(probe, memory, before, "changes-the-memory", {})
        memory.zero_()
        probe.calls.append("memory.zero_()  # the blocks go to another sequence")
        same_history(probe, held, history[:, :, :-1], "a-view", {}, "held")
        later = keys(range(20, 20 + history.shape[2]))
        memory.copy_(_stored(4, table, later))
        held = _gather(probe, memory, table, history.shape[2] - 1)
        same_history(probe, held, later[:, :, :-1], "from-an-earlier-call", {}, "held")


def any_pool_any_table(probe: Probe) -> None:
    """pools of any block size and dtype, tables in any order"""
    rng = Random(16)
    double = torch.float64
    for block_size, heads, dtype in ((1, 1, double), (3, 2, torch.float32), (16, 3, double), (5, 1, double)):
        table = rng.sample(range(6), 4)
        num_tokens = 3 * block_size + rng.randrange(1, block_size + 1)
        history = keys(range(num_tokens), heads=heads).to(dtype)
        memory = _stored(6, table, history, block_size).to(dtype)
        with (
            probe.on_error(IndexError, RuntimeError, slip="sizes-written-in"),
            probe.on_error(RuntimeError, slip="other-dtype", match="dtype|scalar type"),
        ):
            held = _gather(probe, memory, table, num_tokens)
        same_history(probe, held, history, "wrong-tokens", {}, "held")


def _stored(num_blocks: int, table: list[int], history: torch.Tensor, block_size: int = 4) -> torch.Tensor:
    slots = [block * block_size + offset for block in table for offset in range(block_size)]
    return laid(empty(num_blocks, block_size, history.shape[1]), slots[: history.shape[2]], history)


def _read(memory: torch.Tensor, table: list[int]) -> torch.Tensor:
    """All slots of these blocks, one after the other."""
    return torch.cat([memory[block] for block in table]).transpose(0, 1).unsqueeze(0)


def _gather(probe: Probe, memory: torch.Tensor, table: list[int], num_tokens: int) -> object:
    probe.calls.clear()
    sizes = f"{len(memory)} blocks of {memory.shape[1]}"
    line = f"held = gather_by_table(memory, block_ids, {num_tokens})  # memory: {sizes}; block_ids {table}"
    block_ids = torch.tensor(table)
    with probe.on_error(RuntimeError, slip="view-of-scattered-memory", match="view size is not compatible"):
        held = probe.record(line, probe.subject, memory, block_ids, num_tokens, shows_result=False)
    probe.equal(block_ids.tolist(), table, "changes-the-table")
    return held
