"""Stages of task 16.3: a model's step through all layers, over one block table."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import torch
from torch.overrides import TorchFunctionMode

from nanoserve.allocator import KVCacheExhausted
from nanoserve.block_table import BlockTable
from nanoserve.cache import KVPool
from nanoserve.course.exercises.day16.rows import HEADS, WIDTH, empty, keys, laid, same_history, same_memory, values
from nanoserve.course.probe import Probe
from nanoserve.course.view.hooks import hook

LAYERS = 3
FREE = [5, 2, 6, 1, 7, 0, 4, 3]  # the order in which the pool of the stages hands its blocks out


def a_prompt_in_its_slots(probe: Probe) -> None:
    """a prompt of six tokens lies in its slots"""
    pool = _pool()
    cache = _cache(probe, pool)
    _append(probe, cache, 0, range(6))
    slots, k, v = [20, 21, 22, 23, 8, 9], keys(range(6)), values(range(6))
    for name, memory, new, other in (("pool.k[0]", pool.k[0], k, v), ("pool.v[0]", pool.v[0], v, k)):
        slips = {
            "nothing-in-the-pool": empty(8),
            "keys-and-values-swapped": laid(empty(8), slots, other),
            "last-token-only": laid(empty(8), slots[-1:], new[:, :, -1:]),
            "position-as-slot": laid(empty(8), list(range(6)), new),
            "offset-only-added": laid(empty(8), [5, 6, 7, 8, 2, 3], new),
            "offset-forgotten": laid(laid(empty(8), [20], new[:, :, 3:4]), [8], new[:, :, 5:]),
            "run-from-the-first-slot": laid(empty(8), list(range(20, 26)), new),
        }
        same_memory(probe, memory, laid(empty(8), slots, new), "wrong-slot", slips, name)
    _length(probe, cache, 6, "wrong-length", {"counts-one-too-many": 7})
    _blocks_out(probe, pool, 2, "wrong-blocks")


def the_prompt_comes_back(probe: Probe) -> None:
    """what comes back is the prompt, oldest first"""
    pool = _pool()
    cache = _cache(probe, pool)
    k, v = keys(range(6)), values(range(6))
    came = _append(probe, cache, 0, range(6))
    by_id = (2, 5)
    for what, part, memory, right, other in (("keys", came[0], pool.k, k, v), ("values", came[1], pool.v, v, k)):
        slips = {
            "returned-the-wrong-way-round": other,
            "id-order": torch.cat([memory[0, block] for block in by_id])[:6].transpose(0, 1).unsqueeze(0),
            "stale-rows": (1, HEADS, 8, WIDTH),
            "blocks-before-growth": (1, HEADS, 0, WIDTH),
        }
        same_history(probe, part, right, "wrong-history", slips, what)


def one_table_for_all_layers(probe: Probe) -> None:
    """three layers, one table: each layer has the same slots in its own memory"""
    pool = _pool()
    cache = _cache(probe, pool)
    slots = [20, 21, 22, 23, 8, 9]
    for layer in range(LAYERS):
        came = _append(probe, cache, layer, range(6))
        _blocks_out(probe, pool, 2, "wrong-blocks", {"table-per-layer": 2 * (layer + 1), "grows-in-each-layer": 3})
        _length(probe, cache, 6, "wrong-length", {"grows-in-each-layer": 6 * (layer + 1)})
        k = keys(range(6), layer)
        in_layer_0 = torch.equal(pool.k[0], laid(empty(8), slots, k)) and layer > 0
        slip = "all-layers-in-layer-0" if in_layer_0 else "wrong-slot"
        slips = {} if in_layer_0 else {"not-written": empty(8)}
        same_memory(probe, pool.k[layer], laid(empty(8), slots, k), slip, slips, f"pool.k[{layer}]")
        history = {"reads-layer-0": keys(range(6))} if layer else {}
        same_history(probe, came[0], k, "wrong-history", history)
        same_history(probe, came[1], values(range(6), layer), "values-of-another-layer", {}, "values")


def token_by_token(probe: Probe) -> None:
    """token by token, and a new block only when the last one is full"""
    pool = _pool()
    cache = _cache(probe, pool)
    slots = [20, 21, 22, 23, 8, 9, 10, 11, 24]
    for position in range(9):
        for layer in range(LAYERS):
            came = _append(probe, cache, layer, range(position, position + 1))
            right = keys(range(position + 1), layer)
            _blocks_out(probe, pool, position // 4 + 1, "wrong-blocks", {"next-block-early": (position + 1) // 4 + 1})
            _length(probe, cache, position + 1, "wrong-length", {"layer-len-left": position} if position else None)
            new = right[:, :, -1:]
            before = laid(empty(8), slots[:position], right[:, :, :-1])
            again = laid(before, [20 + position % 4 if position >= 4 else 20], new)
            slips = {"wraps-in-the-block" if position >= 4 else "slots-of-the-first-step": again}
            expected = laid(before, slots[position : position + 1], new)
            same_memory(probe, pool.k[layer], expected, "wrong-slot", slips, f"pool.k[{layer}]")
            held = (1, HEADS, min(4, position + 1), WIDTH)
            slips = {"only-the-new-tokens": new, "blocks-of-the-first-step": held if position > 3 else new}
            same_history(probe, came[0], right, "wrong-history", slips)
            same_history(probe, came[1], -right, "wrong-history", {}, "values")


def a_full_pool_changes_nothing(probe: Probe) -> None:
    """a step that the pool cannot hold changes nothing, and can be made again"""
    pool = _pool(num_blocks=3)
    cache = _cache(probe, pool)
    other = probe.record("other = pool.allocator.allocate()", pool.allocator.allocate)
    for layer in range(LAYERS):
        _append(probe, cache, layer, range(8))
    step = ("cache.append(0, k, v)  # token 8", cache.append, 0, keys(range(8, 9)), values(range(8, 9)))
    slips = {None: "swallows-exhaustion", Exception: "another-exception"}
    probe.raises(KVCacheExhausted, probe.record, *step, slips=slips)
    _length(probe, cache, 8, "changed-before-refusal")
    probe.record(f"pool.allocator.free({other})", pool.allocator.free, other, shows_result=False)
    for layer in range(LAYERS):
        came = _append(probe, cache, layer, range(8, 9), "changed-before-refusal")
        same_history(probe, came[0], keys(range(9), layer), "changed-before-refusal", {})


def two_sequences_in_one_pool(probe: Probe) -> None:
    """two sequences in one pool leave one another alone, and a freed cache begins anew"""
    pool = _pool()
    first, second = _cache(probe, pool, "a"), _cache(probe, pool, "b", fresh=False)
    for layer in range(LAYERS):
        _append(probe, first, layer, range(5), name="a")
    for layer in range(LAYERS):
        _append(probe, second, layer, range(20, 25), name="b")
    for layer in range(LAYERS):
        came = _append(probe, first, layer, range(5, 6), name="a")
        same_history(probe, came[0], keys(range(6), layer), "shared-between-caches", {})
    probe.record("b.free()", second.free, shows_result=False)
    probe.record("pool.allocator.allocate()", pool.allocator.allocate)  # another takes block 1, and b gets 6 and 7
    for layer in range(LAYERS):
        came = _append(probe, second, layer, range(30, 35), name="b")
        same_history(probe, came[0], keys(range(30, 35), layer), "outlives-free", {})
        expected = laid(pool.k[layer], [24, 25, 26, 27, 28], keys(range(30, 35), layer))
        same_memory(probe, pool.k[layer], expected, "outlives-free", {}, f"pool.k[{layer}]")


def index_tensors_once_a_step(probe: Probe) -> None:
    """the index tensors are made once a step"""
    pool = _pool()
    cache = _cache(probe, pool)
    for tokens in (range(5), range(5, 6)):
        for layer in range(LAYERS):
            with _counting(cache) as made:
                _append(probe, cache, layer, tokens)
            if layer:
                what = f"slots looked up, or tensors made from Python numbers, in layer {layer}"
                probe.cases += 1
                if made:
                    came = f"{len(made)}: {', '.join(dict.fromkeys(made))}"
                    probe.fail(f"no {what}", came, "index-tensors-in-each-layer")


def any_chunks(probe: Probe) -> None:
    """prompts in chunks, then token by token, over any block size"""
    rng = Random(16)
    for block_size in (1, 3, 16):
        for _ in range(4):
            pool = KVPool(2, 40, block_size, HEADS, WIDTH)
            pool.allocator.free_all(rng.sample(pool.allocator.allocate_for(40 * block_size), 40))
            cache = _cache(probe, pool)
            held = 0
            for num_tokens in (rng.randrange(1, 12), rng.randrange(1, 12), 1, 1, 1):
                for layer in range(2):
                    came = _append(probe, cache, layer, range(held, held + num_tokens))
                    same_history(probe, came[0], keys(range(held + num_tokens), layer), "other", {})
                    same_history(probe, came[1], values(range(held + num_tokens), layer), "other", {}, "values")
                held += num_tokens
            _blocks_out(probe, pool, -(-held // block_size), "wrong-blocks")


def _pool(num_blocks: int = 8) -> KVPool:
    """A small pool with nothing in it, whose blocks have been out, and come back in another order."""
    pool = KVPool(LAYERS, num_blocks, 4, HEADS, WIDTH)
    pool.k.zero_()
    pool.v.zero_()
    if num_blocks == len(FREE):
        pool.allocator.allocate_for(num_blocks * 4)
        pool.allocator.free_all(FREE[::-1])
    return pool


def _cache(probe: Probe, pool: KVPool, name: str = "cache", fresh: bool = True) -> object:
    if fresh:
        probe.calls.clear()
        sizes = f"{len(pool.k)} layers, {pool.k.shape[1]} blocks of {pool.k.shape[2]}"
        order = f", out next: {' '.join(map(str, FREE))}" if pool.k.shape[1] == len(FREE) else ""
        probe.calls.append(f"pool  # {sizes}{order}")
    return probe.record(f"{name} = {probe.subject.__name__}(pool)", probe.subject, pool, shows_result=False)


def _append(
    probe: Probe, cache: object, layer: int, tokens: range, slip: str = "", name: str = "cache"
) -> tuple[torch.Tensor, torch.Tensor]:
    """One layer's part of a step; an index outside the table has reasons that are known."""
    which = f"token {tokens[0]}" if len(tokens) == 1 else f"tokens {tokens[0]} to {tokens[-1]}"
    line = f"{name}.append({layer}, k, v)  # {which}"
    k, v = keys(tokens, layer), values(tokens, layer)
    try:
        came = probe.record(line, cache.append, layer, k, v, shows_result=False)
    except IndexError as error:
        if "outside a sequence" not in str(error) and "list index" not in str(error):
            raise
        reason = "start-has-moved" if layer else "grows-at-new-blocks-only" if tokens[0] else "written-before-growth"
        probe.fail("no error", f"IndexError: {error}", slip or reason)
    if not isinstance(came, (tuple, list)) or len(came) != 2:
        slip = "no-return" if came is None else "not-a-pair"
        probe.fail("(keys, values)", "None" if came is None else f"a {type(came).__name__}", slip)
    return came[0], came[1]


def _blocks_out(probe: Probe, pool: KVPool, expected: int, slip: str, slips: dict[str, int] | None = None) -> None:
    if pool.allocator.num_used != expected:  # else it is not worth a line
        probe.calls.append(f"pool.allocator.num_used → {pool.allocator.num_used}")
    probe.equal(pool.allocator.num_used, expected, slip, slips)


def _length(probe: Probe, cache: object, expected: int, slip: str, slips: dict[str, int] | None = None) -> None:
    if cache.seq_len != expected:
        probe.calls.append(f"cache.seq_len → {cache.seq_len}")
    probe.equal(cache.seq_len, expected, slip, slips)


@contextmanager
def _counting(cache: object) -> Iterator[list[str]]:
    """Yields the list of slots asked of the cache's table, and of calls that make a tensor out of Python numbers.

    On a GPU each of those is a copy to it. Some ways to make one cannot be seen from here; asking for slots can.
    """
    made: list[str] = []
    table = getattr(cache, "table", None)
    if isinstance(table, BlockTable):

        def note(name: str, method: Callable, *args: object) -> object:
            made.append(f"table.{name}")
            return method(*args)

        hook(table, ("slot", "position"), note)

    class Count(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            name = getattr(func, "__name__", "")
            if name in ("tensor", "as_tensor") and args and not isinstance(args[0], torch.Tensor):
                made.append(f"torch.{name}")
            return func(*args, **(kwargs or {}))

    with Count():
        yield made
    if isinstance(table, BlockTable):
        table.__class__ = type(table).__base__  # no longer listened to
