"""Days 13 and 16: the contiguous and the paged cache answer alike, and freed memory is used again."""

from importlib.util import find_spec

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nanoserve import (
    BlockAllocator,
    KVCacheExhausted,
    KVPool,
    NaiveKVCache,
    PagedKVCache,
    gather_by_table,
    write_by_slot,
)

LAYERS, HEADS, WIDTH = 2, 2, 4
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="the kernel is Triton's")


def kv(num_tokens, seed=0):
    """Random keys and values of one layer, strided as a model's projections leave them."""
    generator = torch.Generator().manual_seed(seed)
    both = torch.randn(2, 1, num_tokens, HEADS, WIDTH, generator=generator).transpose(2, 3)
    return both[0], both[1]


def small_pool(num_blocks=8, block_size=4, allocator=None):
    pool = KVPool(LAYERS, num_blocks, block_size, HEADS, WIDTH, allocator=allocator)
    pool.k.fill_(torch.nan)  # so that a read of a slot that was never written shows
    pool.v.fill_(torch.nan)
    return pool


def same_bytes(ours, theirs):
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@given(
    block_size=st.sampled_from([1, 3, 16, 64]),
    chunks=st.lists(st.integers(1, 20), min_size=1, max_size=5),
    scattered=st.booleans(),
)
def test_both_caches_hand_back_all_that_was_stored_byte_for_byte(block_size, chunks, scattered):
    pool = small_pool(num_blocks=102, block_size=block_size)
    if scattered:
        blocks = pool.allocator.allocate_for(102 * block_size)
        pool.allocator.free_all(blocks[::2] + blocks[1::2])
    naive, paged = NaiveKVCache(), PagedKVCache(pool)
    stored = [([], []) for _ in range(LAYERS)]
    for step, num_tokens in enumerate(chunks):
        assert naive.seq_len == paged.seq_len == sum(chunks[:step])
        assert naive.positions(num_tokens).tolist() == paged.positions(num_tokens).tolist()
        assert paged.positions(num_tokens).tolist() == list(range(sum(chunks[:step]), sum(chunks[: step + 1])))
        for layer in range(LAYERS):
            k, v = kv(num_tokens, seed=100 * step + layer)
            stored[layer][0].append(k)
            stored[layer][1].append(v)
            expected = [torch.cat(parts, dim=2) for parts in stored[layer]]
            assert same_bytes(naive.append(layer, k, v), expected)
            assert same_bytes(paged.append(layer, k, v), expected)
            assert naive.seq_len == paged.seq_len == sum(chunks[: step + 1])


@given(st.lists(st.tuples(st.integers(0, LAYERS - 1), st.integers(1, 6)), max_size=8))
def test_both_caches_agree_when_layers_come_in_any_order(appends):
    naive, paged = NaiveKVCache(), PagedKVCache(small_pool(num_blocks=16, block_size=3))
    for step, (layer, num_tokens) in enumerate(appends):
        k, v = kv(num_tokens, seed=step)
        assert same_bytes(paged.append(layer, k, v), naive.append(layer, k, v))
        assert paged.seq_len == naive.seq_len


@settings(max_examples=60)
@given(
    history=st.just(0) | st.integers(1, 20),
    new=st.integers(1, 12),
    block_size=st.sampled_from([1, 3, 16]),
    group=st.integers(1, 3),
)
def test_attention_sees_every_earlier_token_and_no_later_one(history, new, block_size, group):
    naive, paged = NaiveKVCache(), PagedKVCache(small_pool(num_blocks=40, block_size=block_size))
    if history:
        for cache in (naive, paged):
            cache.append(0, *kv(history, seed=1))
    q = torch.randn(1, HEADS * group, new, WIDTH, generator=torch.Generator().manual_seed(2))
    out = naive.attend(0, q, *kv(new, seed=3))
    assert torch.equal(paged.attend(0, q, *kv(new, seed=3)), out)

    keys, values = (torch.cat([kv(history, seed=1)[i], kv(new, seed=3)[i]], dim=2)[0] for i in (0, 1))
    for head in range(HEADS * group):
        for t in range(new):
            seen = history + t + 1
            weights = (keys[head // group, :seen] @ q[0, head, t] / WIDTH**0.5).softmax(dim=0)
            torch.testing.assert_close(out[0, head, t], weights @ values[head // group, :seen], atol=1e-5, rtol=1e-5)


def test_a_step_that_the_pool_cannot_hold_changes_nothing():  # trap 4
    pool = small_pool(num_blocks=3, block_size=4)
    cache = PagedKVCache(pool)
    held = [cache.append(layer, *kv(6, seed=layer)) for layer in range(LAYERS)]
    before = pool.k.clone(), pool.v.clone()
    with pytest.raises(KVCacheExhausted):
        cache.append(0, *kv(7, seed=9))
    assert (cache.seq_len, pool.allocator.num_free) == (6, 1)
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip((pool.k, pool.v), before, strict=True))
    keys, values = cache.append(0, *kv(6, seed=9))  # exactly what is left
    assert same_bytes((keys[:, :, :6], values[:, :, :6]), held[0])
    assert pool.allocator.num_free == 0


def test_one_table_serves_all_layers():
    pool = small_pool()
    cache = PagedKVCache(pool)
    for layer in range(LAYERS):
        cache.append(layer, *kv(9, seed=layer))
        assert pool.allocator.num_used == 3


def test_the_second_sequence_lies_in_the_very_blocks_of_the_first():
    pool = small_pool(num_blocks=3, block_size=4)
    first, second = PagedKVCache(pool), PagedKVCache(pool)
    for layer in range(LAYERS):
        first.append(layer, *kv(12, seed=layer))
    blocks_of_first = set(first.table.block_ids)
    with pytest.raises(KVCacheExhausted):
        second.append(0, *kv(1))
    first.free()
    for layer in range(LAYERS):
        k, _ = kv(12, seed=50 + layer)
        second.append(layer, *kv(12, seed=50 + layer))
        for p in range(12):
            block, offset = second.table.position(p)
            assert torch.equal(pool.k[layer, block, offset], k[0, :, p])
    assert set(second.table.block_ids) == blocks_of_first


@pytest.mark.parametrize("make", [NaiveKVCache, lambda: PagedKVCache(small_pool())])
def test_a_freed_cache_is_empty_and_starts_anew(make):
    cache = make()
    cache.free()
    cache.append(0, *kv(5))
    cache.append(1, *kv(5))
    cache.free()
    cache.free()
    assert cache.seq_len == 0
    k, v = kv(3, seed=7)
    assert same_bytes(cache.append(1, k, v), (k, v))
    assert cache.seq_len == 3


def test_a_cache_that_starts_anew_leaves_the_new_owner_of_its_old_blocks_alone():
    pool = small_pool(num_blocks=4, block_size=4)
    first, second = PagedKVCache(pool), PagedKVCache(pool)
    first.append(0, *kv(5, seed=1))
    first.free()
    second.append(0, *kv(5, seed=2))
    keys, values = first.append(0, *kv(5, seed=3))  # the same step as before, in other blocks
    assert same_bytes((keys, values), kv(5, seed=3))
    keys, values = second.append(0, *kv(1, seed=4))
    assert same_bytes((keys[:, :, :5], values[:, :, :5]), kv(5, seed=2))


def test_freeing_twice_leaves_other_sequences_alone():
    pool = small_pool(num_blocks=4, block_size=4)
    first, second = PagedKVCache(pool), PagedKVCache(pool)
    first.append(0, *kv(8))
    first.free()
    second.append(0, *kv(8))
    first.free()
    assert pool.allocator.num_used == 2


@pytest.mark.parametrize("make", [NaiveKVCache, lambda: PagedKVCache(small_pool())])
def test_a_wrong_shape_is_a_value_error_at_the_door(make):
    cache = make()
    k, v = kv(3)
    cache.append(0, k, v)
    batch_of_two = torch.cat([k, k])
    wrong = {
        "a batch of two": (batch_of_two, batch_of_two),
        "three dimensions": (k[0], v[0]),
        "another length of v": (k, v[:, :, :2]),
        "another head count": (k[:, :1], v[:, :1]),
        "another width": (k[..., :2], v[..., :2]),
    }
    for what, (bad_k, bad_v) in wrong.items():
        with pytest.raises(ValueError, match=r"one sequence|KV heads"):
            cache.append(0, bad_k, bad_v)
        assert cache.seq_len == 3, what


def other_kinds(k, v):
    """Keys and values that are not of the pool's dtype, or not on its device."""
    return [(k.half(), v.half()), (k, v.double()), (k.to("meta"), v.to("meta")), (k, v.to("meta"))]


def test_another_dtype_or_device_than_the_pools_is_told_in_a_sentence():
    cache = PagedKVCache(small_pool())
    for k, v in other_kinds(*kv(3)):
        with pytest.raises(ValueError, match=r"this cache holds torch\.float32 on cpu, and [kv] is .*KVPool.for_model"):
            cache.append(0, k, v)


@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=needs_triton)])
@pytest.mark.parametrize("held", [0, 4])
def test_what_does_not_fit_is_refused_before_anything_is_stored(kernel, held):
    pool = small_pool(num_blocks=3, block_size=4)
    cache, naive = PagedKVCache(pool), NaiveKVCache()
    cache.kernel = kernel
    for layer in range(LAYERS if held else 0):
        both = kv(held, seed=layer)
        assert same_bytes(cache.append(layer, *both), naive.append(layer, *both))
    before = cache.table.block_ids, pool.k.clone(), pool.v.clone()
    (k, v), q = kv(1, seed=5), torch.ones(1, 2 * HEADS, 1, WIDTH)
    bad_queries = [
        q[0],
        q[:, :3],
        q[:, :0],
        q[..., :2],
        q.half(),
        q.to("meta"),
        torch.cat([q, q]),
        torch.cat([q, q], 2),
    ]
    bad = [(bad_q, k, v) for bad_q in bad_queries] + [(q.to(k), k, v) for k, v in other_kinds(k, v)]
    bad += [(q, k[:, :1], v[:, :1]), (q, k[0], v[0]), (q, k, v[:, :1]), (torch.cat([q, q]), torch.cat([k, k]), v)]
    for bad_q, bad_k, bad_v in bad:
        with pytest.raises(ValueError, match=r"does not fit|must be alike|this cache holds|a cache holds"):
            cache.attend(0, bad_q, bad_k, bad_v)
        assert (cache.seq_len, cache.table.block_ids) == (held, before[0])
        assert same_bytes((pool.k.nan_to_num(), pool.v.nan_to_num()), [memory.nan_to_num() for memory in before[1:]])
    for layer in range(LAYERS):
        torch.testing.assert_close(cache.attend(layer, q, k, v), naive.attend(layer, q, k, v))
    cache.free()
    assert pool.allocator.num_free == 3


def test_the_contiguous_cache_refuses_a_query_before_it_stores():
    cache = NaiveKVCache()
    with pytest.raises(ValueError, match=r"q \(1, 3, 2, 4\) does not fit k \(1, 2, 2, 4\)"):
        cache.attend(0, torch.ones(1, 3, 2, WIDTH), *kv(2))
    assert cache.seq_len == 0


def test_a_pool_and_its_allocator_are_of_one_size():
    shared = BlockAllocator(8, 4)
    assert small_pool(allocator=shared).allocator is shared
    with pytest.raises(ValueError, match="8 blocks of 4, but its allocator hands out 9 of 4"):
        small_pool(allocator=BlockAllocator(9, 4))
    with pytest.raises(ValueError, match="num_blocks must be an int"):
        small_pool(num_blocks=0)


def test_a_pool_for_a_model_has_its_layers_heads_and_dtype(random_pair):
    model, _ = random_pair(num_attention_heads=6, num_key_value_heads=2, num_hidden_layers=3)
    pool = KVPool.for_model(model.bfloat16(), num_blocks=5, block_size=7)
    assert pool.k.shape == pool.v.shape == (3, 5, 7, 2, 8)
    assert pool.k.dtype == pool.v.dtype == torch.bfloat16


def test_a_write_touches_its_slots_and_no_other():
    memory = torch.full((4, 3, HEADS, WIDTH), torch.nan)
    k, _ = kv(4)
    write_by_slot(memory, torch.tensor([11, 0, 5, 3]), k)
    for token, (block, offset) in enumerate([(3, 2), (0, 0), (1, 2), (1, 0)]):
        assert torch.equal(memory[block, offset], k[0, :, token])
    assert memory.isnan().sum() == 8 * HEADS * WIDTH


def test_a_gather_follows_the_table_and_is_a_copy():
    memory = torch.randn(4, 3, HEADS, WIDTH, generator=torch.Generator().manual_seed(0))
    rows = [memory[block, offset].clone() for block, offset in [(2, 0), (2, 1), (2, 2), (0, 0)]]
    held = gather_by_table(memory, torch.tensor([2, 0]), 4)
    memory.zero_()
    assert held.shape == (1, HEADS, 4, WIDTH)
    assert torch.equal(held[0].transpose(0, 1), torch.stack(rows))


@pytest.mark.parametrize("size", ["num_layers", "num_blocks", "block_size", "num_kv_heads", "head_dim"])
def test_a_pool_of_no_size_is_an_error_that_names_it(size):
    sizes = dict.fromkeys(("num_layers", "num_blocks", "block_size", "num_kv_heads", "head_dim"), 2)
    with pytest.raises(ValueError, match=f"{size} must be"):
        KVPool(**sizes | {size: 0})
