"""Stages of task 16.3: a model's step through all layers, over one block table."""

from random import Random

import torch

from nanoserve.allocator import KVCacheExhausted
from nanoserve.cache import KVPool
from nanoserve.course.exercises.day13.asking import as_the_base
from nanoserve.course.exercises.day16.rows import HEADS, WIDTH, empty, keys, laid, same_history, same_memory, values
from nanoserve.course.exercises.day16.steps import LAYERS, append, blocks_out, counting, length, new_cache, new_pool
from nanoserve.course.probe import Probe, named, show


def a_prompt_in_its_slots(probe: Probe) -> None:
    """a prompt of six tokens lies in its slots"""
    pool = new_pool()
    cache = new_cache(probe, pool)
    append(probe, cache, 0, range(6))
    slots, k, v = [20, 21, 22, 23, 8, 9], keys(range(6)), values(range(6))
    if pool.k.any() != pool.v.any():
        full, bare = ("k", "v") if pool.k.any() else ("v", "k")
        came = f"something in pool.{full}, nothing in pool.{bare}"
        probe.fail("keys in pool.k, values in pool.v", came, "one-memory-only")
    elsewhere = "one-for-both" if torch.equal(pool.k[0], pool.v[0]) else "keys-and-values-swapped"
    for name, memory, new, other in (("pool.k[0]", pool.k[0], k, v), ("pool.v[0]", pool.v[0], v, k)):
        slips = {
            "nothing-in-the-pool": empty(8),
            elsewhere: laid(empty(8), slots, other),
            "last-token-only": laid(empty(8), slots[-1:], new[:, :, -1:]),
            "position-as-slot": laid(empty(8), list(range(6)), new),
            "offset-only-added": laid(empty(8), [5, 6, 7, 8, 2, 3], new),
            "offset-forgotten": laid(laid(empty(8), [20], new[:, :, 3:4]), [8], new[:, :, 5:]),
            "run-from-the-first-slot": laid(empty(8), list(range(20, 26)), new),
            "stored-twice": laid(laid(empty(8), slots, new), [10, 11, 24, 25, 26, 27], new),
        }
        same_memory(probe, memory, laid(empty(8), slots, new), "wrong-slot", slips, name)
    length(probe, cache, 6, "wrong-length", {"counts-one-too-many": 7})
    blocks_out(probe, pool, 2, "wrong-blocks")


def the_prompt_comes_back(probe: Probe) -> None:
    """what comes back is the prompt, oldest first"""
    pool = new_pool()
    cache = new_cache(probe, pool)
    k, v = keys(range(6)), values(range(6))
    came = append(probe, cache, 0, range(6))
    by_id = (2, 5)
    twice = all(isinstance(part, torch.Tensor) for part in came) and torch.equal(*came)
    for what, part, memory, right, other in (("keys", came[0], pool.k, k, v), ("values", came[1], pool.v, v, k)):
        slips = {
            "read-twice" if twice else "returned-the-wrong-way-round": other,
            "id-order": torch.cat([memory[0, block] for block in by_id])[:6].transpose(0, 1).unsqueeze(0),
            "stale-rows": (1, HEADS, range(7, 9), WIDTH),
            "blocks-before-growth": (1, HEADS, 0, WIDTH),
        }
        same_history(probe, part, right, "wrong-history", slips, what)


def one_table_for_all_layers(probe: Probe) -> None:
    """three layers, one table: each layer has the same slots in its own memory"""
    pool = new_pool()
    cache = new_cache(probe, pool)
    slots = [20, 21, 22, 23, 8, 9]
    for layer in range(LAYERS):
        came = append(probe, cache, layer, range(6))
        blocks_out(probe, pool, 2, "wrong-blocks", {"table-per-layer": 2 * (layer + 1), "grows-in-each-layer": 3})
        length(probe, cache, 6, "wrong-length", {"grows-in-each-layer": 6 * (layer + 1)})
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
    pool = new_pool()
    cache = new_cache(probe, pool)
    slots = [20, 21, 22, 23, 8, 9, 10, 11, 24]
    for position in range(9):
        for layer in range(LAYERS):
            came = append(probe, cache, layer, range(position, position + 1))
            right = keys(range(position + 1), layer)
            blocks_out(probe, pool, position // 4 + 1, "wrong-blocks", {"next-block-early": (position + 1) // 4 + 1})
            length(probe, cache, position + 1, "wrong-length", {"layer-len-left": position} if position else None)
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
    pool = new_pool(num_blocks=3)
    cache = new_cache(probe, pool)
    other = probe.record("other = pool.allocator.allocate()", pool.allocator.allocate)
    for layer in range(LAYERS):
        append(probe, cache, layer, range(8))
    step = ("cache.append(0, k, v)  # token 8", cache.append, 0, keys(range(8, 9)), values(range(8, 9)))
    slips = {None: "swallows-exhaustion", Exception: "another-exception"}
    probe.raises(KVCacheExhausted, probe.record, *step, slips=slips)
    length(probe, cache, 8, "changed-before-refusal")
    probe.record(f"pool.allocator.free({other})", pool.allocator.free, other, shows_result=False)
    for layer in range(LAYERS):
        came = append(probe, cache, layer, range(8, 9), "changed-before-refusal")
        same_history(probe, came[0], keys(range(9), layer), "changed-before-refusal", {})


def two_sequences_in_one_pool(probe: Probe) -> None:
    """two sequences in one pool leave one another alone, and a freed cache begins anew"""
    pool = new_pool()
    first, second = new_cache(probe, pool, "a"), new_cache(probe, pool, "b", fresh=False)
    for layer in range(LAYERS):
        append(probe, first, layer, range(5), name="a")
    for layer in range(LAYERS):
        append(probe, second, layer, range(20, 25), name="b")
    for layer in range(LAYERS):
        came = append(probe, first, layer, range(5, 6), name="a")
        same_history(probe, came[0], keys(range(6), layer), "shared-between-caches", {})
    probe.record("b.free()", second.free, shows_result=False)
    probe.record("pool.allocator.allocate()", pool.allocator.allocate)  # another takes block 1, and b gets 6 and 7
    for layer in range(LAYERS):
        came = append(probe, second, layer, range(30, 35), name="b")
        same_history(probe, came[0], keys(range(30, 35), layer), "outlives-free", {})
        expected = laid(pool.k[layer], [24, 25, 26, 27, 28], keys(range(30, 35), layer))
        same_memory(probe, pool.k[layer], expected, "outlives-free", {}, f"pool.k[{layer}]")


def index_tensors_once_a_step(probe: Probe) -> None:
    """the index tensors are made once a step"""
    pool = new_pool()
    cache = new_cache(probe, pool)
    for tokens in (range(5), range(5, 6)):
        for layer in range(LAYERS):
            with counting(cache) as made:
                append(probe, cache, layer, tokens)
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
            cache = new_cache(probe, pool)
            held = 0
            for num_tokens in (rng.randrange(1, 12), rng.randrange(1, 12), 1, 1, 1):
                for layer in range(2):
                    with probe.on_error(IndexError, RuntimeError, slip="other"):
                        came = append(probe, cache, layer, range(held, held + num_tokens))
                    same_history(probe, came[0], keys(range(held + num_tokens), layer), "other", {})
                    same_history(probe, came[1], values(range(held + num_tokens), layer), "other", {}, "values")
                held += num_tokens
            blocks_out(probe, pool, -(-held // block_size), "wrong-blocks")


def store_writes_alone(probe: Probe) -> None:
    """store alone writes a step: Day 21 calls it without append"""
    pool = new_pool()
    cache = new_cache(probe, pool)
    for tokens, slots in ((range(6), [20, 21, 22, 23, 8, 9]), (range(6, 7), [10])):
        for layer in range(LAYERS):
            k, v = keys(tokens, layer), values(tokens, layer)
            right_k, right_v = laid(pool.k[layer], slots, k), laid(pool.v[layer], slots, v)
            line = f"cache.store({layer}, k, v)  # {len(tokens)} from token {tokens[0]} on"
            try:
                probe.record(line, lambda *step: cache.store(*step), layer, k, v, shows_result=False)
            except Exception as error:  # also where it is a stub, or is not there
                probe.fail("no error", named(error), "store-left")
            same_memory(probe, pool.k[layer], right_k, "store-left", {}, f"pool.k[{layer}]")
            same_memory(probe, pool.v[layer], right_v, "store-left", {}, f"pool.v[{layer}]")


def the_blocks_are_told(probe: Probe) -> None:
    """cache.table says where the sequence lies: the cells after this one ask it"""
    cache = new_cache(probe, new_pool())
    append(probe, cache, 0, range(6))
    ids = getattr(getattr(cache, "table", None), "block_ids", None)
    probe.calls.append(f"cache.table.block_ids → {show(ids)}")
    probe.equal(ids if ids is None else list(ids), [5, 2], "no-table")


def a_model_can_ask(probe: Probe) -> None:
    """what the model asks of it, `positions` and `attend`, is as in the base class"""
    as_the_base(probe, new_cache(probe, new_pool()), WIDTH)
