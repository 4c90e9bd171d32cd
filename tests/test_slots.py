"""Day 22: sequences in slots, over contiguous rows and over one pool, attend as each does alone."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nanoserve import (
    KVCacheExhausted,
    KVPool,
    NaiveKVCache,
    PagedSlotKVCache,
    PrefillCache,
    SlotKVCache,
    left_pad,
)
from tests.test_prefill import prompt_of

PROMPTS = [prompt_of(9), prompt_of(1, seed=1), prompt_of(16, seed=2)]


def paged(model, num_slots=4, num_blocks=40, block_size=4):
    pool = KVPool.for_model(model, num_blocks, block_size)
    pool.k.fill_(torch.nan)  # so that a read of what nobody wrote shows
    pool.v.fill_(torch.nan)
    return PagedSlotKVCache(pool, num_slots)


def contiguous(model, num_slots=4):
    return SlotKVCache(model, num_slots, max_len=64)


both = pytest.mark.parametrize("make", [contiguous, paged])


def prefill(model, prompts):
    input_ids, pad_lens = left_pad(prompts)
    cache = PrefillCache(pad_lens)
    model(input_ids, cache)
    return cache, pad_lens


def decode(model, slots, tokens):
    """One step, in which each slot named is given its token; the logits of all slots."""
    assert slots.reserve_step()
    input_ids = torch.zeros(slots.num_slots, 1, dtype=torch.long)
    for slot, token in tokens.items():
        input_ids[slot] = token
    logits = model(input_ids, slots)[:, -1]
    slots.advance()
    return logits


def alone(model, token_ids):
    return model(torch.tensor([token_ids]), NaiveKVCache())[0, -1]


@both
def test_every_step_of_every_slot_equals_one_forward_pass_over_that_sequence(tiny, make):  # traps 25, 27
    slots = make(tiny)
    where = [2, 0, 3]  # slot 1 stays idle
    slots.admit(where, *prefill(tiny, PROMPTS))
    texts = dict(zip(where, PROMPTS, strict=True))
    for step in range(20):
        texts = {slot: [*text, (7 * step + slot) % 61] for slot, text in texts.items()}
        logits = decode(tiny, slots, {slot: text[-1] for slot, text in texts.items()})
        assert logits.isfinite().all()
        for slot, text in texts.items():
            torch.testing.assert_close(logits[slot], alone(tiny, text), atol=2e-4, rtol=1e-4)
    assert slots.lengths == [21, 0, 29, 36]
    assert slots.seq_len == 36


@both
def test_without_its_offset_a_padded_sequence_goes_wrong(tiny, make):  # trap 25
    for forgotten in (False, True):
        slots = make(tiny)
        slots.admit([0, 1, 2], *prefill(tiny, PROMPTS))
        assert slots.offsets == [7, 15, 0, 0]
        if forgotten:
            slots.offsets = [0] * 4
        logits = decode(tiny, slots, {0: 5, 1: 5, 2: 5})
        differences = [(logits[slot] - alone(tiny, [*PROMPTS[slot], 5])).abs().max() for slot in range(3)]
        assert differences[2] < 1e-4
        assert (differences[0] > 0.05) == (differences[1] > 0.05) == forgotten


@both
def test_only_real_tokens_are_stored(tiny, make):
    slots = make(tiny)
    cache, pad_lens = prefill(tiny, PROMPTS)
    for row, pads in enumerate(pad_lens):
        for part in [part for layer in cache.layers for part in layer]:
            part[row, :, :pads] = torch.nan
    slots.admit([0, 1, 2], cache, pad_lens)
    assert slots.lengths[:3] == [9, 1, 16]
    assert slots.used_tokens == 26
    assert decode(tiny, slots, {0: 1, 1: 1, 2: 1}).isfinite().all()


def test_idle_slots_write_to_the_scratch_block_and_to_no_other(tiny):
    slots = paged(tiny)
    slots.admit([1], *prefill(tiny, [PROMPTS[0]]))
    slots.reserve_step()
    before = slots.pool.k.clone()
    decode(tiny, slots, {1: 5})
    changed = [
        (block, place)
        for block in range(40)
        for place in range(4)
        if not torch.equal(slots.pool.k[:, block, place].nan_to_num(), before[:, block, place].nan_to_num())
    ]
    assert changed == sorted([(slots.scratch, 0), slots.tables[1].position(9)])


def test_no_sequence_ever_gets_the_scratch_block(tiny):
    slots = paged(tiny, num_slots=3, num_blocks=8)
    slots.admit([0, 1, 2], *prefill(tiny, [prompt_of(8), prompt_of(12), prompt_of(8)]))
    assert slots.allocator.num_free == 0
    assert all(slots.scratch not in table.block_ids for table in slots.tables.values())
    slots.free()
    slots.free()
    assert slots.allocator.num_free == 8


@both
def test_there_is_room_when_slots_and_blocks_are_free_and_those_that_run_can_go_on(tiny, make):
    slots = make(tiny)
    assert slots.can_admit([64] * 2)
    assert slots.can_admit([5] * 4)
    assert not slots.can_admit([5] * 5)


def test_the_next_token_of_those_that_run_is_not_given_away(tiny):
    slots = paged(tiny, num_blocks=1 + 5)
    slots.admit([0, 1], *prefill(tiny, [prompt_of(8), prompt_of(3)]))
    assert slots.allocator.num_free == 2
    assert slots.can_admit([4])  # slot 0 needs the other one for its ninth token
    assert not slots.can_admit([5])
    slots.reserve_step()
    assert slots.allocator.num_free == 1
    assert slots.can_admit([4])
    assert not slots.can_admit([5])


@pytest.mark.parametrize("block_size", [1, 3, 4, 16])
def test_a_block_is_taken_when_a_token_has_none_and_not_before(tiny, block_size):  # trap 3
    slots = paged(tiny, num_blocks=80, block_size=block_size)
    slots.admit([0, 1], *prefill(tiny, [PROMPTS[0], PROMPTS[2]]))
    for step in range(18):
        for slot, length in enumerate((9 + step, 16 + step)):
            assert len(slots.tables[slot].block_ids) == -(-length // block_size)
        decode(tiny, slots, {0: 1, 1: 1})


def test_room_for_a_step_is_made_for_all_or_for_none(tiny):  # trap 4
    slots = paged(tiny, num_blocks=1 + 5)
    slots.admit([0, 1], *prefill(tiny, [prompt_of(8), prompt_of(8)]))
    assert not slots.reserve_step()
    assert [len(table.block_ids) for table in slots.tables.values()] == [2, 2]
    assert slots.allocator.num_free == 1
    slots.release(1)
    assert slots.reserve_step()
    assert slots.reserve_step()  # there is room already
    assert (len(slots.tables[0].block_ids), slots.allocator.num_free) == (3, 2)


@both
def test_a_sequence_that_is_as_long_as_can_be_has_no_room_for_a_step(tiny, make):
    slots = make(tiny) if make is contiguous else make(tiny, num_blocks=1 + 16)
    slots.admit([0], *prefill(tiny, [prompt_of(63)]))
    decode(tiny, slots, {0: 5})
    assert slots.seq_len == slots.max_len == 64
    assert not slots.reserve_step()


@both
def test_a_step_that_was_not_counted_can_be_run_again(tiny, make):
    slots = make(tiny)
    slots.admit([0, 1], *prefill(tiny, PROMPTS[:2]))
    slots.reserve_step()
    tiny(torch.full((4, 1), 60), slots)  # say the next thing that happened was an exception
    logits = decode(tiny, slots, {0: 5, 1: 6})
    assert slots.lengths[:2] == [10, 2]
    for slot in (0, 1):
        torch.testing.assert_close(logits[slot], alone(tiny, [*PROMPTS[slot], 5 + slot]), atol=2e-4, rtol=1e-4)


@both
def test_an_admission_that_cannot_be_takes_nothing(tiny, make):  # trap 8
    slots = make(tiny)
    slots.admit([0], *prefill(tiny, [PROMPTS[0]]))
    free = slots.allocator.num_free
    with pytest.raises(ValueError, match=r"slots \[1, 0\] must be free, each named once; free: \[1, 2, 3\]"):
        slots.admit([1, 0], *prefill(tiny, PROMPTS[1:]))
    with pytest.raises(ValueError, match=r"slots \[2, 2\] must be free, each named once"):
        slots.admit([2, 2], *prefill(tiny, PROMPTS[1:]))
    with pytest.raises(KVCacheExhausted, match=r"prompts of \[9, 200\] tokens"):
        slots.admit([1, 2], *prefill(tiny, [PROMPTS[0], prompt_of(200)]))
    assert not slots.can_admit([200])
    assert (slots.allocator.num_free, slots.free_slots()) == (free, [1, 2, 3])


def test_an_admission_that_runs_out_of_blocks_takes_none(tiny):  # trap 8
    slots = paged(tiny, num_blocks=1 + 5)
    with pytest.raises(KVCacheExhausted, match=r"prompts of \[9, 16\] tokens: blocks needed: 7; free: 5"):
        slots.admit([0, 1], *prefill(tiny, [PROMPTS[0], PROMPTS[2]]))
    assert (slots.allocator.num_free, slots.free_slots()) == (5, [0, 1, 2, 3])


@both
def test_an_admission_that_fails_half_way_gives_slots_and_blocks_back(tiny, make, monkeypatch):  # trap 8
    slots = make(tiny)
    free, store = slots.allocator.num_free, slots._store_prompt
    monkeypatch.setattr(slots, "_store_prompt", lambda slot, layers: 1 // 0 if slot == 3 else store(slot, layers))
    with pytest.raises(ZeroDivisionError):
        slots.admit([2, 3, 0], *prefill(tiny, PROMPTS))
    assert (slots.allocator.num_free, slots.free_slots(), slots.used_tokens) == (free, [0, 1, 2, 3], 0)


@both
def test_what_a_broken_sequence_left_behind_does_not_reach_the_next(tiny, make):  # trap 33
    slots = make(tiny)
    cache, pad_lens = prefill(tiny, [prompt_of(30)])
    for part in [part for layer in cache.layers for part in layer]:
        part.fill_(torch.nan)  # as after an overflow in half precision
    slots.admit([0], cache, pad_lens)
    decode(tiny, slots, {0: 5})
    slots.release(0)
    slots.admit([0, 1], *prefill(tiny, [PROMPTS[1], PROMPTS[2]]))
    logits = decode(tiny, slots, {0: 5, 1: 6})
    assert logits.isfinite().all()
    torch.testing.assert_close(logits[0], alone(tiny, [*PROMPTS[1], 5]), atol=2e-4, rtol=1e-4)


def test_the_mirror_of_the_tables_shows_the_tables_and_scratch_behind_them(tiny):
    slots = paged(tiny)
    slots.admit([3, 1], *prefill(tiny, PROMPTS[:2]))
    for _ in range(8):
        decode(tiny, slots, {3: 1, 1: 1})
    slots.release(3)
    slots.admit([0], *prefill(tiny, PROMPTS[2:]))
    for slot in range(4):
        ids = slots.tables[slot].block_ids if slot in slots.tables else []
        assert slots.block_tables[slot].tolist() == ids + [slots.scratch] * (40 - len(ids))


@both
def test_a_decode_step_copies_nothing_from_the_device(random_pair, make):
    # On the meta device a tensor has no content: whatever would bring a number to the host raises.
    model, _ = random_pair()
    model = model.to("meta")
    slots = make(model)
    input_ids, pad_lens = left_pad(PROMPTS)
    cache = PrefillCache(pad_lens)
    model(input_ids.to("meta"), cache)
    slots.admit([0, 1, 3], cache, pad_lens)
    for _ in range(6):  # with a new block now and then
        assert slots.reserve_step()
        assert model(torch.zeros(4, 1, dtype=torch.long, device="meta"), slots).device.type == "meta"
        slots.advance()
    slots.release(1)
    with pytest.raises((RuntimeError, NotImplementedError)):
        input_ids.to("meta").max().item()


class Counted(TorchDispatchMode):
    """Counts the operations of one kind that go through torch."""

    def __init__(self, *names):
        super().__init__()
        self.names, self.count = names, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket.__name__ in self.names
        return func(*args, **(kwargs or {}))


@both
def test_index_tensors_are_made_once_a_step_not_once_a_layer(random_pair, make):
    counts = []
    for layers in (1, 5):
        model, _ = random_pair(num_hidden_layers=layers)
        slots = make(model)
        slots.admit([0, 1, 2], *prefill(model, PROMPTS))
        slots.reserve_step()
        with Counted("arange", "gather", "floor_divide", "remainder", "lt", "le", "lift_fresh") as counted:
            model(torch.zeros(4, 1, dtype=torch.long), slots)
        counts.append(counted.count)
    assert counts[0] == counts[1] > 0


def test_the_kernel_reads_in_place_what_the_copy_reads(random_pair):
    pytest.importorskip("triton")
    model, _ = random_pair(num_attention_heads=4, num_key_value_heads=2, hidden_size=32)
    logits = []
    for kernel in (False, True):
        slots = paged(model)
        slots.kernel = kernel
        slots.admit([2, 0, 3], *prefill(model, PROMPTS))
        logits.append([decode(model, slots, {2: 5, 0: 6, 3: 7}) for _ in range(2)])
    for read, copied in zip(*logits, strict=True):
        torch.testing.assert_close(read, copied, atol=1e-4, rtol=1e-4)


def test_what_is_used_allocated_and_reserved_can_be_read(tiny):
    slots = paged(tiny, num_blocks=20)
    rows = contiguous(tiny)
    for cache in (slots, rows):
        cache.admit([0, 1], *prefill(tiny, PROMPTS[:2]))
        decode(tiny, cache, {0: 1, 1: 1})
    assert (slots.used_tokens, slots.allocated_tokens, slots.reserved_tokens) == (12, 12 + 4, 80)
    assert (rows.used_tokens, rows.allocated_tokens, rows.reserved_tokens) == (12, 2 * 64, 4 * 64)
    bytes_per_token = 2 * 2 * 16 * 4  # keys and values, two layers, one head of 16, fp32
    assert slots.nbytes == 80 * bytes_per_token
    assert rows.nbytes == 256 * bytes_per_token


@both
def test_no_slots_are_an_error_that_says_so(tiny, make):
    with pytest.raises(ValueError, match="num_slots must be a whole number of at least 1, got 0"):
        make(tiny, num_slots=0)


def test_rows_and_pools_without_room_for_a_token_are_an_error_that_says_so(tiny):
    with pytest.raises(ValueError, match="max_len must be a whole number of at least 1, got 0"):
        SlotKVCache(tiny, 4, 0)
    with pytest.raises(ValueError, match="a pool of 1 block has none to give out"):
        paged(tiny, num_blocks=1)
