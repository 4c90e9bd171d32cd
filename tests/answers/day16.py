"""Day 16: writes, gathers and paged caches that people write."""

from functools import partial

import torch

from nanoserve.block_table import BlockTable
from nanoserve.cache import KVCache, NaiveKVCache, PagedKVCache, gather_by_table, write_by_slot
from tests.answers import Right, Wrong

WRONG: list[Wrong] = []
RIGHT: list[Right] = []


def wrong(task: str, slip: str):
    def keep(answer):
        WRONG.append(Wrong(task, slip, answer))
        return answer

    return keep


def right(*tasks: str):
    def keep(answer):
        RIGHT.extend(Right(task, answer) for task in tasks)
        return answer

    return keep


def flat(memory):
    return memory.view(-1, *memory.shape[2:])


def rows(new):
    return new[0].transpose(0, 1)


# ---- 16.1: write by slot
@wrong("16.1", "written-to-a-copy")
def writes_to_a_copy(memory, slots, new):
    flat(memory).index_copy(0, slots, rows(new))  # without the underscore


@wrong("16.1", "fills-the-block")
def forgets_the_offset(memory, slots, new):
    for t, slot in enumerate(slots.tolist()):
        memory[slot // memory.shape[1]] = new[0, :, t]


@wrong("16.1", "one-slot-late")
def counts_slots_from_one(memory, slots, new):
    flat(memory)[slots + 1] = rows(new)


@wrong("16.1", "block-and-offset-swapped")
def swaps_block_and_offset(memory, slots, new):
    memory[slots % memory.shape[1], slots // memory.shape[1]] = rows(new)


@wrong("16.1", "slot-as-block")
def indexes_blocks_by_slot(memory, slots, new):
    for t, slot in enumerate(slots.tolist()):
        memory[slot] = new[0, :, t]


@wrong("16.1", "block-size-fixed")
def sixteen_is_everywhere(memory, slots, new):
    memory[slots // 16, slots % 16] = rows(new)


@wrong("16.1", "not-transposed")
def reshapes_in_place_of_a_transpose(memory, slots, new):
    flat(memory)[slots] = new[0].reshape(len(slots), *memory.shape[2:])


@wrong("16.1", "transpose-missing")
def forgets_the_transpose(memory, slots, new):
    flat(memory)[slots] = new[0]


@wrong("16.1", "dimensions-do-not-fit")
def leaves_the_batch_dimension_in(memory, slots, new):
    flat(memory).index_copy_(0, slots, new.transpose(1, 2))


@wrong("16.1", "sides-do-not-fit")
def flattens_the_heads_too(memory, slots, new):
    memory.view(-1, memory.shape[3])[slots] = rows(new)


@wrong("16.1", "one-head-for-all")
def broadcasts_one_head(memory, slots, new):
    flat(memory)[slots] = new[0, 0].unsqueeze(1).expand(-1, memory.shape[2], -1)


@wrong("16.1", "last-token-only")
def writes_the_last_token(memory, slots, new):
    flat(memory)[slots[-1]] = new[0, :, -1]


@wrong("16.1", "last-token-left")
def ends_a_token_early(memory, slots, new):
    for t in range(len(slots) - 1):
        flat(memory)[slots[t]] = new[0, :, t]


@wrong("16.1", "changes-its-arguments")
def adds_one_afterwards(memory, slots, new):
    flat(memory)[slots] = rows(new)
    slots += 1


@wrong("16.1", "rounded")
def through_bfloat16(memory, slots, new):
    flat(memory)[slots] = rows(new.bfloat16()).float()


@wrong("16.1", "heads-for-tokens")
def counts_heads_for_tokens(memory, slots, new):
    for t in range(new.shape[1]):
        flat(memory)[slots[t]] = new[0, :, t]


@wrong("16.1", "first-token-only")
def returns_within_the_loop(memory, slots, new):
    for t, slot in enumerate(slots.tolist()):
        flat(memory)[slot] = new[0, :, t]
        return


@wrong("16.1", "run-from-the-first-slot")
def one_slice_from_the_first_slot(memory, slots, new):
    flat(memory)[slots[0] : slots[0] + len(slots)] = rows(new)


@wrong("16.1", "slots-sorted")
def sorts_the_slots(memory, slots, new):
    flat(memory)[slots.sort().values] = rows(new)


@wrong("16.1", "clears-the-rest")
def begins_with_an_empty_memory(memory, slots, new):
    memory.zero_()
    flat(memory)[slots] = rows(new)


@wrong("16.1", "other-slots-changed")
def clears_up_to_the_last_slot(memory, slots, new):
    flat(memory)[: slots.max()] = 0
    flat(memory)[slots] = rows(new)


@wrong("16.1", "clears-its-blocks")
def clears_the_blocks_that_it_touches(memory, slots, new):
    memory[slots // memory.shape[1]] = 0
    flat(memory)[slots] = rows(new)


@wrong("16.1", "added-to-the-old")
def adds_instead_of_storing(memory, slots, new):
    flat(memory).index_add_(0, slots, rows(new))


@wrong("16.1", "only-where-empty")
def keeps_what_is_there(memory, slots, new):
    taken = flat(memory)[slots] != 0
    flat(memory)[slots] = torch.where(taken, flat(memory)[slots], rows(new))


@wrong("16.1", "sizes-written-in")
def blocks_of_four(memory, slots, new):
    memory[slots // 4, slots % 4] = rows(new)


@wrong("16.1", "wrong-slot")
def counts_slots_from_the_end(memory, slots, new):
    flat(memory)[-slots] = rows(new)


# ---- 16.2: gather by table
def pages(memory, block_ids):
    return memory[block_ids].view(-1, *memory.shape[2:])


@wrong("16.2", "no-return")
def forgets_to_return(memory, block_ids, num_tokens):
    gather_by_table(memory, block_ids, num_tokens)


@wrong("16.2", "not-a-tensor")
def a_list_of_blocks(memory, block_ids, num_tokens):
    return [memory[block] for block in block_ids]


@wrong("16.2", "other-device")
def hands_out_nothing_but_shapes(memory, block_ids, num_tokens):
    return gather_by_table(memory, block_ids, num_tokens).to("meta")


@wrong("16.2", "other-dtype")
def collects_in_float32(memory, block_ids, num_tokens):
    out = torch.zeros(1, memory.shape[2], num_tokens, memory.shape[3])
    out[:] = gather_by_table(memory, block_ids, num_tokens)
    return out


@wrong("16.2", "one-head-for-all")
def spreads_the_first_head(memory, block_ids, num_tokens):
    held = gather_by_table(memory, block_ids, num_tokens)
    return held[:, :1].expand(held.shape)


@wrong("16.2", "changes-the-table")
def shifts_the_table(memory, block_ids, num_tokens):
    held = gather_by_table(memory, block_ids, num_tokens)
    block_ids += 1
    return held


@wrong("16.2", "from-an-earlier-call")
def remembers_by_the_table(memory, block_ids, num_tokens, known={}):  # noqa: B006
    table = (*memory.shape, *block_ids.tolist())
    if table not in known:
        known.clear()
        known[table] = pages(memory, block_ids).transpose(0, 1).unsqueeze(0)
    return known[table][:, :, :num_tokens]


@wrong("16.2", "no-batch-dimension")
def leaves_the_batch_dimension_out(memory, block_ids, num_tokens):
    return pages(memory, block_ids)[:num_tokens].transpose(0, 1)


@wrong("16.2", "heads-and-tokens-swapped")
def leaves_tokens_before_heads(memory, block_ids, num_tokens):
    return pages(memory, block_ids)[:num_tokens].unsqueeze(0)


@wrong("16.2", "all-dimensions-reversed")
def permutes_all_three(memory, block_ids, num_tokens):
    return pages(memory, block_ids)[:num_tokens].permute(2, 1, 0).unsqueeze(0)


@wrong("16.2", "view-of-scattered-memory")
def views_after_a_permute(memory, block_ids, num_tokens):
    held = memory[block_ids].permute(0, 2, 1, 3)
    return held.view(1, memory.shape[2], -1, memory.shape[3])[:, :, :num_tokens]


@wrong("16.2", "ids-as-slots")
def takes_ids_for_slots(memory, block_ids, num_tokens):
    return rows(flat(memory)[block_ids].unsqueeze(0)).transpose(0, 1).transpose(0, 1).unsqueeze(0)[:, :, :num_tokens]


@wrong("16.2", "whole-pool")
def reads_the_whole_pool(memory, block_ids, num_tokens):
    return flat(memory).transpose(0, 1).unsqueeze(0)


@wrong("16.2", "not-transposed")
def views_in_place_of_a_transpose(memory, block_ids, num_tokens):
    return pages(memory, block_ids)[:num_tokens].reshape(1, memory.shape[2], num_tokens, -1)


@wrong("16.2", "id-order")
def a_mask_over_the_pool(memory, block_ids, num_tokens):
    mine = torch.zeros(len(memory), dtype=torch.bool)
    mine[block_ids] = True
    return memory[mine].flatten(0, 1)[:num_tokens].transpose(0, 1).unsqueeze(0)


@wrong("16.2", "last-block-first")
def pops_from_the_end_of_the_table(memory, block_ids, num_tokens):
    return gather_by_table(memory, block_ids.flip(0), num_tokens)


@wrong("16.2", "first-blocks-of-the-pool")
def as_many_blocks_from_the_front(memory, block_ids, num_tokens):
    return memory[: len(block_ids)].flatten(0, 1)[:num_tokens].transpose(0, 1).unsqueeze(0)


@wrong("16.2", "run-from-the-first-block")
def one_slice_from_the_first_block(memory, block_ids, num_tokens):
    start = block_ids[0] * memory.shape[1]
    return flat(memory)[start : start + num_tokens].transpose(0, 1).unsqueeze(0)


@wrong("16.2", "by-offset")
def transposes_once_too_often(memory, block_ids, num_tokens):
    held = memory[block_ids].transpose(0, 1).reshape(-1, *memory.shape[2:])
    return held[:num_tokens].transpose(0, 1).unsqueeze(0)


@wrong("16.2", "newest-first")
def prepends(memory, block_ids, num_tokens):
    held = gather_by_table(memory, block_ids, num_tokens)
    return held if len(block_ids) == 1 else held.flip(2)


@wrong("16.2", "padded-with-zeros")
def zeroes_the_rest(memory, block_ids, num_tokens):
    held = pages(memory, block_ids).clone()
    held[num_tokens:] = 0
    return held.transpose(0, 1).unsqueeze(0)


@wrong("16.2", "stale-rows")
def whole_blocks(memory, block_ids, num_tokens):
    return pages(memory, block_ids).transpose(0, 1).unsqueeze(0)


@wrong("16.2", "wrong-shape")
def repeats_the_heads(memory, block_ids, num_tokens):
    return gather_by_table(memory, block_ids, num_tokens).repeat_interleave(3, dim=1)


@wrong("16.2", "rounded")
def hands_out_halves(memory, block_ids, num_tokens):
    return gather_by_table(memory, block_ids, num_tokens).half()


@wrong("16.2", "whole-blocks-do-not-fit")
def cuts_nothing_off(memory, block_ids, num_tokens):
    return memory[block_ids].permute(2, 0, 1, 3).reshape(1, memory.shape[2], num_tokens, memory.shape[3])


@wrong("16.2", "drops-the-last-block")
def full_blocks_only(memory, block_ids, num_tokens):
    full = num_tokens // memory.shape[1]
    return gather_by_table(memory, block_ids[:full], full * memory.shape[1])


@wrong("16.2", "trims-the-front")
def the_last_so_many(memory, block_ids, num_tokens):
    return pages(memory, block_ids)[-num_tokens:].transpose(0, 1).unsqueeze(0)


@wrong("16.2", "one-short")
def up_to_the_last_but_one(memory, block_ids, num_tokens):
    whole = num_tokens % memory.shape[1] == 0
    return gather_by_table(memory, block_ids, num_tokens if whole else num_tokens - 1)


@wrong("16.2", "a-view")
def a_slice_where_the_blocks_are_neighbours(memory, block_ids, num_tokens):
    first = block_ids[0]
    if torch.equal(block_ids, first + torch.arange(len(block_ids))):
        memory = memory[first : first + len(block_ids)]
        return flat(memory)[:num_tokens].transpose(0, 1).unsqueeze(0)
    return gather_by_table(memory, block_ids, num_tokens)


@wrong("16.2", "changes-the-memory")
def cleans_up_in_the_pool(memory, block_ids, num_tokens):
    last = memory[block_ids[-1]]
    last[(num_tokens - 1) % memory.shape[1] + 1 :] = 0
    return gather_by_table(memory, block_ids, num_tokens)


@wrong("16.2", "sizes-written-in")
def two_blocks_of_four(memory, block_ids, num_tokens):
    return memory[block_ids].reshape(len(block_ids) * 4, *memory.shape[2:])[:num_tokens].transpose(0, 1).unsqueeze(0)


@wrong("16.2", "wrong-tokens")
def the_first_block_again_and_again(memory, block_ids, num_tokens):
    return gather_by_table(memory, block_ids[:1].expand(len(block_ids)), num_tokens)


# ---- 16.3: a step through all layers
class Steps(PagedKVCache):
    """The plain way, with its parts apart: what the wrong ones below change."""

    def __init__(self, pool):
        super().__init__(pool)
        self.lengths = [0] * len(pool.k)

    def store(self, layer, k, v):
        start, end = self.lengths[layer], self.lengths[layer] + k.shape[2]
        self.grow(layer, start, end)
        self.lengths[layer] = end
        self.write(layer, start, end, k, v)

    def append(self, layer, k, v):
        self.store(layer, k, v)
        return self.read(layer, self.lengths[layer])

    def grow(self, layer, start, end):
        if end > self.table.num_tokens:
            self.table.append(end - self.table.num_tokens)

    def index(self, layer, start, end):
        if layer == 0:
            self.slots = torch.tensor([self.table.slot(p) for p in range(start, end)])
            self.blocks = torch.tensor(self.table.block_ids)

    def write(self, layer, start, end, k, v):
        self.index(layer, start, end)
        write_by_slot(self.pool.k[layer], self.slots, k)
        write_by_slot(self.pool.v[layer], self.slots, v)

    def read(self, layer, end):
        return (
            gather_by_table(self.pool.k[layer], self.blocks, end),
            gather_by_table(self.pool.v[layer], self.blocks, end),
        )

    def free(self):
        super().free()
        self.lengths = [0] * len(self.lengths)


RIGHT.append(Right("16.3", Steps))


@wrong("16.3", "nothing-in-the-pool")
class AListBesideThePool(Steps):
    def __init__(self, pool):
        super().__init__(pool)
        self.held = NaiveKVCache()

    def append(self, layer, k, v):
        self.grow(layer, 0, self.held.seq_len + k.shape[2] if layer == 0 else 0)
        return self.held.append(layer, k, v)


@wrong("16.3", "keys-and-values-swapped")
class StoresTheWrongWayRound(Steps):
    def write(self, layer, start, end, k, v):
        super().write(layer, start, end, v, k)

    def read(self, layer, end):
        return super().read(layer, end)[::-1]


@wrong("16.3", "one-memory-only")
class TheSameMemoryTwice(Steps):
    def write(self, layer, start, end, k, v):
        self.index(layer, start, end)
        for new in (k, v):
            write_by_slot(self.pool.k[layer], self.slots, new)


@wrong("16.3", "layer-forgotten")
class AllLayersAtOnce(Steps):
    def write(self, layer, start, end, k, v):
        self.index(layer, start, end)
        write_by_slot(self.pool.k, self.slots, k)
        write_by_slot(self.pool.v, self.slots, v)


@wrong("16.3", "one-for-both")
class WritesTheKeysTwice(Steps):
    def write(self, layer, start, end, k, v):
        super().write(layer, start, end, k, k)


@wrong("16.3", "list-for-a-tensor")
class SlotsInAList(Steps):
    def index(self, layer, start, end):
        self.slots = [self.table.slot(p) for p in range(start, end)]


@wrong("16.3", "index-of-floats")
class TheTableOfNoBlocks(Steps):
    def grow(self, layer, start, end):
        self.before = torch.tensor(self.table.block_ids)
        super().grow(layer, start, end)

    def read(self, layer, end):
        self.blocks = self.before
        return super().read(layer, end)


@wrong("16.3", "slots-for-other-tokens")
class ASlotForEachTokenHeld(Steps):
    def index(self, layer, start, end):
        super().index(layer, 0, end)


@wrong("16.3", "last-token-only")
class DecodesOnly(Steps):
    def write(self, layer, start, end, k, v):
        super().write(layer, end - 1, end, k[:, :, -1:], v[:, :, -1:])


@wrong("16.3", "position-as-slot")
class AsIfContiguous(Steps):
    def index(self, layer, start, end):
        super().index(layer, start, end)
        self.slots = torch.arange(start, end)


@wrong("16.3", "offset-only-added")
class ForgetsToMultiply(Steps):
    def index(self, layer, start, end):
        super().index(layer, start, end)
        if layer == 0:
            self.slots = torch.tensor([sum(self.table.position(p)) for p in range(start, end)])


@wrong("16.3", "offset-forgotten")
class TheBlocksFirstSlot(Steps):
    def index(self, layer, start, end):
        super().index(layer, start, end)
        if layer == 0:
            self.slots = self.slots // 4 * 4


@wrong("16.3", "run-from-the-first-slot")
class ARunFromTheFirstSlot(Steps):
    def index(self, layer, start, end):
        super().index(layer, start, end)
        self.slots = self.slots[0] + torch.arange(end - start)


@wrong("16.3", "written-before-growth")
class WritesAndThenGrows(Steps):
    def append(self, layer, k, v):
        start, end = self.lengths[layer], self.lengths[layer] + k.shape[2]
        self.write(layer, start, end, k, v)
        self.grow(layer, start, end)
        self.lengths[layer] = end
        return self.read(layer, end)


@wrong("16.3", "wrong-slot")
class BlockByRemainder(Steps):
    def index(self, layer, start, end):
        super().index(layer, start, end)
        ids = self.table.block_ids
        self.slots = torch.tensor([ids[p % len(ids)] * 4 + p % 4 for p in range(start, end)])


@wrong("16.3", "counts-one-too-many")
class RoomForTheNextTokenToo(Steps):
    def grow(self, layer, start, end):
        super().grow(layer, start, end + 1)


@wrong("16.3", "wrong-length")
class TheLengthInBlocks(Steps):
    seq_len = property(lambda self: len(self.table.block_ids) * self.table.allocator.block_size)


@wrong("16.3", "no-return")
class StoresAndReturnsNothing(Steps):
    def append(self, layer, k, v):
        super().append(layer, k, v)


@wrong("16.3", "not-a-pair")
class OneTensorForBoth(Steps):
    def read(self, layer, end):
        return torch.stack(super().read(layer, end), dim=1)


@wrong("16.3", "stored-twice")
class StoresBeforeItStores(Steps):
    def append(self, layer, k, v):
        self.store(layer, k, v)
        return super().append(layer, k, v)


@wrong("16.3", "store-left")
class AllInAppend(Steps):
    def append(self, layer, k, v):
        Steps.store(self, layer, k, v)
        return self.read(layer, self.lengths[layer])

    def store(self, layer, k, v):
        raise NotImplementedError


@wrong("16.3", "changes-its-arguments")
class WipesTheValues(Steps):
    def write(self, layer, start, end, k, v):
        super().write(layer, start, end, k, v)
        v.zero_()


@wrong("16.3", "rounded")
class StoresBfloat16(Steps):
    def write(self, layer, start, end, k, v):
        super().write(layer, start, end, k.bfloat16().float(), v.bfloat16().float())


@wrong("16.3", "read-twice")
class ReadsTheKeysTwice(Steps):
    def read(self, layer, end):
        keys, _ = super().read(layer, end)
        return keys, keys


@wrong("16.3", "returned-the-wrong-way-round")
class ValuesFirst(Steps):
    def read(self, layer, end):
        return super().read(layer, end)[::-1]


@wrong("16.3", "id-order")
class SortsTheTable(Steps):
    def index(self, layer, start, end):
        super().index(layer, start, end)
        self.blocks = self.blocks.sort().values


@wrong("16.3", "stale-rows")
class HandsOutWholeBlocks(Steps):
    def read(self, layer, end):
        return super().read(layer, len(self.blocks) * self.pool.k.shape[2])


@wrong("16.3", "blocks-before-growth")
class ReadsTheTableTooEarly(Steps):
    def grow(self, layer, start, end):
        self.before = torch.tensor(self.table.block_ids, dtype=torch.long)
        super().grow(layer, start, end)

    def read(self, layer, end):
        self.blocks = self.before
        return super().read(layer, end)


@wrong("16.3", "table-per-layer")
class ATableForEachLayer(KVCache):
    def __init__(self, pool):
        self.pool = pool
        self.tables = [BlockTable(pool.allocator) for _ in range(len(pool.k))]

    seq_len = property(lambda self: self.tables[0].num_tokens)

    def store(self, layer, k, v):
        table = self.tables[layer]
        start = table.num_tokens
        table.append(k.shape[2])
        slots = torch.tensor([table.slot(p) for p in range(start, table.num_tokens)])
        write_by_slot(self.pool.k[layer], slots, k)
        write_by_slot(self.pool.v[layer], slots, v)

    def append(self, layer, k, v):
        self.store(layer, k, v)
        table = self.tables[layer]
        read = partial(gather_by_table, block_ids=torch.tensor(table.block_ids), num_tokens=table.num_tokens)
        return read(self.pool.k[layer]), read(self.pool.v[layer])


@wrong("16.3", "grows-in-each-layer")
class GrowsInEachLayer(Steps):
    def grow(self, layer, start, end):
        self.table.append(end - start)


@wrong("16.3", "start-has-moved")
class StartsAtTheLengthOfTheSequence(Steps):
    def append(self, layer, k, v):
        start = self.seq_len  # layer 0 has moved it already
        end = start + k.shape[2]
        if layer == 0:
            self.table.append(k.shape[2])
        self.slots = torch.tensor([self.table.slot(p) for p in range(start, end)])
        write_by_slot(self.pool.k[layer], self.slots, k)
        write_by_slot(self.pool.v[layer], self.slots, v)
        self.blocks = torch.tensor(self.table.block_ids)
        return self.read(layer, end)


@wrong("16.3", "all-layers-in-layer-0")
class LayerZeroForAll(Steps):
    def write(self, layer, start, end, k, v):
        self.index(layer, start, end)
        write_by_slot(self.pool.k[0], self.slots, k)
        write_by_slot(self.pool.v[0], self.slots, v)

    def read(self, layer, end):
        return super().read(0, end)


@wrong("16.3", "not-written")
class WritesWhereItGrows(Steps):
    def write(self, layer, start, end, k, v):
        if layer == 0:
            super().write(layer, start, end, k, v)


@wrong("16.3", "reads-layer-0")
class ReadsLayerZero(Steps):
    def read(self, layer, end):
        return super().read(0, end)


@wrong("16.3", "values-of-another-layer")
class ValuesOfLayerZero(Steps):
    def read(self, layer, end):
        return super().read(layer, end)[0], super().read(0, end)[1]


@wrong("16.3", "next-block-early")
class TakesTheNextBlockWhenTheLastIsFull(Steps):
    def grow(self, layer, start, end):
        super().grow(layer, start, end)
        if layer == 0 and end == len(self.table.block_ids) * 4:
            self.table.block_ids.append(self.table.allocator.allocate())


@wrong("16.3", "grows-at-new-blocks-only")
class GrowsAtNewBlocksOnly(Steps):
    def grow(self, layer, start, end):
        if end > len(self.table.block_ids) * 4:
            super().grow(layer, start, end)


@wrong("16.3", "wrong-blocks")
class ABlockToSpare(Steps):
    def grow(self, layer, start, end):
        super().grow(layer, start, end)
        if start == 0 and layer == 0:
            self.table.block_ids.append(self.table.allocator.allocate())

    def read(self, layer, end):
        return super().read(layer, end)


@wrong("16.3", "slots-of-the-first-step")
class MadeOnceForEver(Steps):
    def index(self, layer, start, end):
        if not hasattr(self, "slots"):
            super().index(layer, start, end)
        self.blocks = torch.tensor(self.table.block_ids)


@wrong("16.3", "blocks-of-the-first-step")
class TheTableOfTheFirstStep(Steps):
    def index(self, layer, start, end):
        first = getattr(self, "first", None)
        super().index(layer, start, end)
        self.first = self.blocks if first is None else first

    def read(self, layer, end):
        self.blocks = self.first
        return super().read(layer, end)


@wrong("16.3", "wraps-in-the-block")
class StaysInTheFirstBlock(Steps):
    def index(self, layer, start, end):
        super().index(layer, start, end)
        if end - start == 1:
            self.slots = torch.tensor([self.table.block_ids[0] * 4 + start % 4])


@wrong("16.3", "only-the-new-tokens")
class HandsBackWhatItWasGiven(Steps):
    def read(self, layer, end):
        keys, values = super().read(layer, end)
        return keys[:, :, -len(self.slots) :], values[:, :, -len(self.slots) :]


@wrong("16.3", "changed-before-refusal")
class CountsBeforeItGrows(Steps):
    def append(self, layer, k, v):
        start, end = self.lengths[layer], self.lengths[layer] + k.shape[2]
        self.lengths[layer] = end
        self.grow(layer, start, end)
        self.write(layer, start, end, k, v)
        return self.read(layer, end)


@wrong("16.3", "swallows-exhaustion")
class GoesOnWithoutAWord(Steps):
    def append(self, layer, k, v):
        try:
            return super().append(layer, k, v)
        except RuntimeError:
            return self.read(layer, self.lengths[layer])


@wrong("16.3", "another-exception")
class RaisesMemoryError(Steps):
    def grow(self, layer, start, end):
        try:
            super().grow(layer, start, end)
        except RuntimeError:
            raise MemoryError("the pool is full") from None


@wrong("16.3", "shared-between-caches")
class KeepsTheIndexOnTheClass(Steps):
    made = None

    def index(self, layer, start, end):
        cls = type(self)
        if cls.made != (start, end):
            cls.slots = torch.tensor([self.table.slot(p) for p in range(start, end)])
            cls.blocks = torch.tensor(self.table.block_ids)
            cls.made = (start, end)


@wrong("16.3", "outlives-free")
class TheIndexOutlivesFree(Steps):
    made = None

    def index(self, layer, start, end):
        if self.made != (start, end):
            super().index(0, start, end)
            self.made = (start, end)


@wrong("16.3", "index-tensors-in-each-layer")
class AnIndexForEachLayer(Steps):
    def index(self, layer, start, end):
        self.slots = torch.LongTensor([self.table.slot(p) for p in range(start, end)])
        self.blocks = torch.LongTensor(self.table.block_ids)


@wrong("16.3", "layer-len-left")
class ForgetsHowFarTheLayerIs(Steps):
    def append(self, layer, k, v):
        start, end = 0, k.shape[2]
        self.grow(layer, start, end)
        self.write(layer, start, end, k, v)
        return self.read(layer, end)


@wrong("16.3", "other")
class APromptComesFirst(Steps):
    def append(self, layer, k, v):
        if k.shape[2] > 1:
            self.lengths[layer] = 0
        return super().append(layer, k, v)


@wrong("16.3", "wrong-history")
class NewestFirst(Steps):
    def read(self, layer, end):
        return tuple(held.flip(2) for held in super().read(layer, end))


# ---- right answers of other styles
@right("16.1")
def by_block_and_offset(memory, slots, new):
    size = memory.shape[1]
    memory[slots // size, slots % size] = new.squeeze(0).permute(1, 0, 2)


@right("16.1")
def one_by_one(memory, slots, new):
    for token, slot in enumerate(slots):
        block, offset = divmod(int(slot), memory.size(1))
        memory[block, offset].copy_(new[0, :, token])


@right("16.1")
def flat_in_one_line(memory, slots, new):
    memory.flatten(0, 1)[slots] = new.transpose(1, 2)[0]
    return memory


@right("16.2")
def indexes_and_permutes(memory, block_ids, num_tokens):
    held = memory[block_ids]  # (blocks, block_size, heads, head_dim)
    return held.permute(2, 0, 1, 3).flatten(1, 2)[None, :, :num_tokens].contiguous()


@right("16.2")
def block_after_block(memory, block_ids, num_tokens):
    blocks = [memory[int(block)] for block in block_ids]
    return torch.cat(blocks, dim=0)[:num_tokens].transpose(0, 1)[None]


@right("16.2")
def row_by_row(memory, block_ids, num_tokens):
    size = memory.shape[1]
    out = memory.new_empty(1, memory.shape[2], num_tokens, memory.shape[3])
    for p in range(num_tokens):
        out[0, :, p] = memory[block_ids[p // size], p % size]
    return out


@right("16.3")
class GrowsInLayerZero(PagedKVCache):
    """The layers come in order, so layer 0 begins the step; positions by arithmetic, in tensors."""

    def append(self, layer, k, v):
        num_new, size = k.shape[2], self.pool.k.shape[2]
        if layer == 0:
            self.table.append(num_new)
            self.block_ids = torch.as_tensor(self.table.block_ids)
            where = torch.arange(self.seq_len - num_new, self.seq_len)
            self.where = self.block_ids[where // size], where % size
        for memory, new in ((self.pool.k, k), (self.pool.v, v)):
            memory[layer][self.where] = new[0].transpose(0, 1)
        held = (memory[layer][self.block_ids].flatten(0, 1) for memory in (self.pool.k, self.pool.v))
        return [part[: self.seq_len].transpose(0, 1).unsqueeze(0) for part in held]


@wrong("16.3", "no-table")
class NoTableAtAll(KVCache):
    """Blocks straight from the allocator, plain loops, another set of names; an extra argument with a default."""

    def __init__(self, pool, name="sequence"):
        self.memory, self.size, self.name = pool, pool.allocator.block_size, name
        self.blocks, self.count = [], [0] * len(pool.k)

    seq_len = property(lambda self: max(self.count))

    def store(self, layer, k, v):
        start = self.count[layer]
        end = start + k.shape[2]
        missing = -(-end // self.size) - len(self.blocks)
        if missing > 0:
            self.blocks += self.memory.allocator.allocate_for(missing * self.size)
        for token, position in enumerate(range(start, end)):
            block, offset = self.blocks[position // self.size], position % self.size
            self.memory.k[layer, block, offset] = k[0, :, token]
            self.memory.v[layer, block, offset] = v[0, :, token]
        self.count[layer] = end

    def append(self, layer, k, v):
        self.store(layer, k, v)
        end = self.count[layer]
        held = [[m[layer, b] for b in self.blocks] for m in (self.memory.k, self.memory.v)]
        return tuple(torch.cat(parts)[:end].transpose(0, 1)[None] for parts in held)

    def free(self):
        self.memory.allocator.free_all(self.blocks)
        self.__init__(self.memory, self.name)


@right("16.3")
class PlainLoops(NoTableAtAll):
    """The same over a block table: plain loops, no index tensors, another set of names."""

    def __init__(self, pool):
        super().__init__(pool)
        self.table = BlockTable(pool.allocator)

    def store(self, layer, k, v):
        self.table.append(max(0, self.count[layer] + k.shape[2] - self.table.num_tokens))
        self.blocks = self.table.block_ids
        super().store(layer, k, v)

    def free(self):
        self.table.free()
        self.__init__(self.memory)


@wrong("16.3", "attend-changed")
class StandsWhereItAlwaysStood(PagedKVCache):
    def positions(self, num_tokens):
        return torch.arange(num_tokens)
