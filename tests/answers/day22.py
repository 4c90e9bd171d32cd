"""Day 22: paddings, masks, admissions and places that people write."""

from contextlib import ExitStack, suppress
from itertools import zip_longest

import torch
import torch.nn.functional as F

from nanoserve.block_table import BlockTable
from nanoserve.cache import write_by_slot
from nanoserve.paged_slots import PagedSlotKVCache
from nanoserve.prefill import PAD, left_pad, padded_causal_mask
from tests.answers import Right, Wrong

WRONG: list[Wrong] = []
ALIKE: list[Wrong] = []  # other ways into a slip that somebody is told already
RIGHT: list[Right] = []


def wrong(task: str, slip: str):
    def keep(answer):
        WRONG.append(Wrong(task, slip, answer))
        return answer

    return keep


def alike(task: str, slip: str):
    def keep(answer):
        ALIKE.append(Wrong(task, slip, answer))
        return answer

    return keep


def right(task: str):
    def keep(answer):
        RIGHT.append(Right(task, answer))
        return answer

    return keep


# ---- 22.1: prompts that end together
def counts(prompts):
    longest = max(map(len, prompts))
    return [longest - len(prompt) for prompt in prompts]


def padded(prompts):
    return [[PAD] * pads + list(prompt) for prompt, pads in zip(prompts, counts(prompts), strict=True)]


@right("22.1")
def columns_from_behind(prompts):
    columns = list(zip_longest(*map(reversed, prompts), fillvalue=PAD))[::-1]
    return torch.tensor(columns, dtype=torch.int32).T, [len(columns) - len(prompt) for prompt in prompts]


@right("22.1")
def fills_a_tensor(prompts):
    ids = torch.full((len(prompts), max(map(len, prompts))), 7)
    for row, prompt in enumerate(prompts):
        ids[row, ids.shape[1] - len(prompt) :] = torch.tensor(prompt)
    return ids, [ids.shape[1] - len(prompt) for prompt in prompts]


@right("22.1")
def stacks_padded_rows(prompts):
    pads = counts(prompts)
    return torch.stack([F.pad(torch.tensor(p), (n, 0)) for p, n in zip(prompts, pads, strict=True)]), pads


@right("22.1")
def flips_pads_and_flips_back(prompts):
    rows = [torch.tensor(list(prompt)).flip(0) for prompt in prompts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).flip(1), tuple(counts(prompts))


@wrong("22.1", "no-return")
def forgets_to_return(prompts):
    left_pad(prompts)


@wrong("22.1", "not-a-pair")
def returns_the_ids_alone(prompts):
    return left_pad(prompts)[0]


@wrong("22.1", "ids-are-no-tensor")
def returns_lists(prompts):
    ids, pad_lens = left_pad(prompts)
    return ids.tolist(), pad_lens


@wrong("22.1", "counts-come-first")
def counts_first(prompts):
    return left_pad(prompts)[::-1]


@wrong("22.1", "ids-are-floats")
def fills_zeros(prompts):
    ids = torch.zeros(len(prompts), max(map(len, prompts)))
    for row, prompt in enumerate(prompts):
        ids[row, -len(prompt) :] = torch.tensor(prompt)
    return ids, counts(prompts)


@wrong("22.1", "not-a-row-a-prompt")
def in_one_line(prompts):
    ids, pad_lens = left_pad(prompts)
    return ids.flatten(), pad_lens


@wrong("22.1", "counts-are-no-list")
def counts_in_a_tensor(prompts):
    ids, pad_lens = left_pad(prompts)
    return ids, torch.tensor(pad_lens)


@wrong("22.1", "one-pad-too-many")
def a_pad_before_everyone(prompts):
    ids, pad_lens = left_pad(prompts)
    return F.pad(ids, (1, 0)), [pads + 1 for pads in pad_lens]


@wrong("22.1", "other-ids")
def to_a_width_of_eight(prompts):
    return F.pad(left_pad(prompts)[0], (8 - max(map(len, prompts)), 0)), [8 - len(prompt) for prompt in prompts]


@wrong("22.1", "lengths-for-pads")
def returns_the_lengths(prompts):
    return left_pad(prompts)[0], [len(prompt) for prompt in prompts]


@wrong("22.1", "rows-of-different-lengths")
def pads_as_many_as_there_are_tokens(prompts):
    return torch.tensor([[PAD] * (len(prompt) - 3) + list(prompt) for prompt in prompts]), counts(prompts)


@wrong("22.1", "padded-on-the-right")
def pads_behind(prompts):
    pads = counts(prompts)
    return torch.tensor([list(p) + [PAD] * n for p, n in zip(prompts, pads, strict=True)]), pads


@wrong("22.1", "one-count-for-all")
def the_largest_count(prompts):
    return left_pad(prompts)[0], [max(counts(prompts))] * len(prompts)


@wrong("22.1", "other-counts")
def counts_real_tokens_that_equal_the_pad(prompts):
    ids, _ = left_pad(prompts)
    return ids, [int((row == row[0]).sum()) for row in ids]


@wrong("22.1", "counts-the-pads-id")
def counts_the_ids_of_pads(prompts):
    ids, _ = left_pad(prompts)
    return ids, (ids == PAD).sum(1).tolist()


@wrong("22.1", "first-is-not-the-longest")
def as_long_as_the_first(prompts):
    longest = len(prompts[0])
    return torch.tensor([[PAD] * (longest - len(p)) + list(p) for p in prompts]), [longest - len(p) for p in prompts]


@wrong("22.1", "rows-in-another-order")
def longest_first(prompts):
    return left_pad(sorted(prompts, key=len, reverse=True))


@wrong("22.1", "changes-the-prompts")
def inserts_in_place(prompts):
    pads = counts(prompts)
    for prompt, n in zip(prompts, pads, strict=True):
        prompt[:0] = [PAD] * n
    return torch.tensor(prompts), pads


@wrong("22.1", "ids-have-no-room")
def sixteen_bits(prompts):
    return torch.tensor(padded(prompts), dtype=torch.int16), counts(prompts)


@wrong("22.1", "keeps-a-call")
def rows_among_the_arguments(prompts, rows=[]):  # noqa: B006
    rows += padded(prompts)
    return torch.tensor(rows), counts(prompts)


@alike("22.1", "keeps-a-call")
def one_list_of_counts(prompts, pad_lens=[]):  # noqa: B006
    pad_lens[:] = counts(prompts)
    return torch.tensor(padded(prompts)), pad_lens


@wrong("22.1", "counts-are-no-ints")
def counts_that_are_floats(prompts):
    return torch.tensor(padded(prompts)), [float(pads) for pads in counts(prompts)]


@alike("22.1", "changes-the-prompts")
def takes_each_out(prompts):
    longest, rows, pad_lens = max(map(len, prompts)), [], []
    while prompts:
        prompt = prompts.pop(0)
        pad_lens.append(longest - len(prompt))
        rows.append([PAD] * pad_lens[-1] + list(prompt))
    return torch.tensor(rows), pad_lens


@alike("22.1", "changes-the-prompts")
def turns_each_round(prompts):
    pads = counts(prompts)
    for prompt in prompts:
        prompt.reverse()
    rows = [torch.tensor(prompt) for prompt in prompts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).flip(1), pads


@alike("22.1", "pad-is-no-token")
def leaves_what_is_there(prompts):
    ids = torch.full((len(prompts), max(map(len, prompts))), 10**9)  # as `torch.empty` may find it
    for row, prompt in enumerate(prompts):
        ids[row, ids.shape[1] - len(prompt) :] = torch.tensor(prompt)
    return ids, counts(prompts)


@alike("22.1", "not-a-row-a-prompt")
def walks_a_generator_twice(prompts):
    generator = (prompt for prompt in prompts)
    longest = max(len(prompt) for prompt in generator)
    return torch.tensor([list(prompt) for prompt in generator]), [longest - len(prompt) for prompt in prompts]


@wrong("22.1", "lists-only")
def adds_lists(prompts):
    pads = counts(prompts)
    return torch.tensor([[PAD] * n + p for p, n in zip(prompts, pads, strict=True)]), pads


@wrong("22.1", "pad-is-no-token")
def pads_with_minus_1(prompts):
    pads = counts(prompts)
    return torch.tensor([[-1] * n + list(p) for p, n in zip(prompts, pads, strict=True)]), pads


@wrong("22.1", "other-lengths")
def no_counts_where_no_pads(prompts):
    ids, pad_lens = left_pad(prompts)
    return ids, pad_lens if any(pad_lens) or len(prompts) == 1 else []


# ---- 22.2: who sees whom
def columns(num_tokens, device=None):
    return torch.arange(num_tokens, device=device)


def triangle(num_tokens, device=None):
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device).tril()


def real(pad_lens, num_tokens, device=None):
    return columns(num_tokens, device) >= torch.tensor(pad_lens, device=device)[:, None]


def itself(num_tokens, device=None):
    return torch.eye(num_tokens, dtype=torch.bool, device=device)


@right("22.2")
def row_by_row(pad_lens, num_tokens, device):
    mask = torch.ones(len(pad_lens), 1, num_tokens, num_tokens, dtype=torch.bool, device=device).tril()
    for row, pads in enumerate(pad_lens):
        mask[row, :, pads:, :pads] = False
    return mask


@right("22.2")
def pads_see_everything(pad_lens, num_tokens, device):
    own = real(pad_lens, num_tokens, device)
    return (triangle(num_tokens, device) & own[:, None, :] | ~own[:, :, None])[:, None]


@right("22.2")
def in_python(pad_lens, num_tokens, device):
    seen = [[[k == q or pads <= k < q for k in range(num_tokens)] for q in range(num_tokens)] for pads in pad_lens]
    return torch.tensor(seen, device=device).reshape(len(pad_lens), 1, num_tokens, num_tokens)


@right("22.2")
def moved_at_the_end(pad_lens, num_tokens, device):
    return padded_causal_mask(pad_lens, num_tokens, torch.device("cpu")).to(device)


@right("22.2")
def by_one_choice(pad_lens, num_tokens, device):
    query = columns(num_tokens, device).view(1, 1, -1, 1)
    key, first = query.transpose(2, 3), torch.tensor(pad_lens, device=device).view(-1, 1, 1, 1)
    return torch.where(query < first, key == query, (first <= key) & (key <= query))


@right("22.2")
def where_the_device_is(pad_lens, num_tokens, device):
    with torch.device(device):
        column, pads = torch.arange(num_tokens), torch.tensor(pad_lens)[:, None]
    own = (column >= pads.to(column.device))[:, None]
    alone = torch.eye(num_tokens, dtype=torch.bool, device=column.device)
    return (torch.ones_like(alone).tril() & own | alone).unsqueeze(1)


@alike("22.2", "on-another-device")
def counts_on_the_cpu(pad_lens, num_tokens, device):
    own = columns(num_tokens, device) >= torch.tensor(pad_lens)[:, None]
    return (triangle(num_tokens, device) & own[:, None] | itself(num_tokens, device))[:, None]


@alike("22.2", "on-another-device")
def back_to_the_cpu(pad_lens, num_tokens, device):
    return padded_causal_mask(pad_lens, num_tokens, device).cpu()


@wrong("22.2", "pads-of-another-call")
def kept_by_shape(pad_lens, num_tokens, device, kept={}):  # noqa: B006
    shape = len(pad_lens), num_tokens
    if shape not in kept:
        kept[shape] = padded_causal_mask(pad_lens, num_tokens, device)
    return kept[shape]


@wrong("22.2", "masks-share-memory")
def one_buffer(pad_lens, num_tokens, device, buffer=torch.ones(8, 1, 16, 16, dtype=torch.bool)):  # noqa: B008
    mask = buffer[: len(pad_lens), :, :num_tokens, :num_tokens]
    return mask.copy_(padded_causal_mask(pad_lens, num_tokens, torch.device("cpu")))


@wrong("22.2", "rows-share-memory")
def writes_into_what_is_expanded(pad_lens, num_tokens, device):
    mask = triangle(num_tokens, device).expand(len(pad_lens), 1, -1, -1)
    for row, pads in enumerate(pad_lens):
        mask[row, :, pads:, :pads] = False
    return mask


@alike("22.2", "rows-share-memory")
def hides_columns_of_what_is_expanded(pad_lens, num_tokens, device):
    mask = triangle(num_tokens, device).expand(len(pad_lens), 1, -1, -1)
    for row, pads in enumerate(pad_lens):
        mask[row, :, :, :pads] = False
    mask.diagonal(dim1=2, dim2=3).fill_(True)
    return mask


@wrong("22.2", "changes-the-counts")
def takes_the_counts_out(pad_lens, num_tokens, device):
    rows = []
    while pad_lens:
        rows.append(padded_causal_mask([pad_lens.pop(0)], num_tokens, device))
    return torch.cat(rows)


@wrong("22.2", "nothing-returned")
def returns_nothing(pad_lens, num_tokens, device):
    padded_causal_mask(pad_lens, num_tokens, device)


@wrong("22.2", "no-tensor")
def returns_a_list(pad_lens, num_tokens, device):
    return padded_causal_mask(pad_lens, num_tokens, device).tolist()


@wrong("22.2", "head-dimension-missing")
def three_dimensions(pad_lens, num_tokens, device):
    return padded_causal_mask(pad_lens, num_tokens, device).squeeze(1)


@wrong("22.2", "other-shape")
def a_row_of_keys(pad_lens, num_tokens, device):
    return real(pad_lens, num_tokens, device)[:, None, None]


@wrong("22.2", "not-bool")
def minus_infinity(pad_lens, num_tokens, device):
    return torch.zeros(1, device=device).masked_fill(~padded_causal_mask(pad_lens, num_tokens, device), -torch.inf)


@wrong("22.2", "upside-down")
def true_where_hidden(pad_lens, num_tokens, device):
    return ~padded_causal_mask(pad_lens, num_tokens, device)


@wrong("22.2", "sees-the-future")
def pads_only(pad_lens, num_tokens, device):
    own = real(pad_lens, num_tokens, device)[:, None, None]
    return (own | itself(num_tokens, device)).expand(-1, -1, num_tokens, -1)


@wrong("22.2", "queries-and-keys-swapped")
def transposed(pad_lens, num_tokens, device):
    return padded_causal_mask(pad_lens, num_tokens, device).transpose(2, 3)


@wrong("22.2", "not-itself")
def strictly_before(pad_lens, num_tokens, device):
    return padded_causal_mask(pad_lens, num_tokens, device).tril(-1)


@wrong("22.2", "only-itself")
def real_the_other_way_round(pad_lens, num_tokens, device):
    pads = columns(num_tokens, device) < torch.tensor(pad_lens, device=device)[:, None]
    return (triangle(num_tokens, device) & pads[:, None] | itself(num_tokens, device))[:, None]


@wrong("22.2", "other-triangle")
def one_step_ahead(pad_lens, num_tokens, device):
    ahead = torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=device).tril(1)
    return (ahead & real(pad_lens, num_tokens, device)[:, None] | itself(num_tokens, device))[:, None]


@wrong("22.2", "hides-the-pads-queries")
def over_the_queries(pad_lens, num_tokens, device):
    return (triangle(num_tokens, device) & real(pad_lens, num_tokens, device)[:, :, None])[:, None]


@wrong("22.2", "pads-are-seen")
def a_plain_triangle(pad_lens, num_tokens, device):
    return triangle(num_tokens, device).expand(len(pad_lens), 1, -1, -1)


@wrong("22.2", "pads-on-the-right")
def pads_at_the_end(pad_lens, num_tokens, device):
    lengths = num_tokens - torch.tensor(pad_lens, device=device)[:, None]
    own = columns(num_tokens, device) < lengths
    return (triangle(num_tokens, device) & own[:, None])[:, None]


@wrong("22.2", "first-token-hidden")
def greater_than_the_pads(pad_lens, num_tokens, device):
    own = columns(num_tokens, device) > torch.tensor(pad_lens, device=device)[:, None]
    return (triangle(num_tokens, device) & own[:, None] | itself(num_tokens, device))[:, None]


@wrong("22.2", "last-pad-is-seen")
def one_pad_less(pad_lens, num_tokens, device):
    return padded_causal_mask([pads - 1 for pads in pad_lens], num_tokens, device)


@wrong("22.2", "other-pads")
def twice_the_pads(pad_lens, num_tokens, device):
    return padded_causal_mask([2 * pads for pads in pad_lens], num_tokens, device)


@wrong("22.2", "one-rows-pads-for-all")
def the_first_rows_pads(pad_lens, num_tokens, device):
    return padded_causal_mask([pad_lens[0]] * len(pad_lens), num_tokens, device)


@wrong("22.2", "most-pads-for-all")
def the_most_pads(pad_lens, num_tokens, device):
    return padded_causal_mask([max(pad_lens)] * len(pad_lens), num_tokens, device)


@wrong("22.2", "rows-meet-columns")
def without_a_dimension(pad_lens, num_tokens, device):
    own = columns(num_tokens, device) >= torch.tensor(pad_lens, device=device)
    return (triangle(num_tokens, device) & own | itself(num_tokens, device)).expand(len(pad_lens), 1, -1, -1)


@alike("22.2", "rows-meet-columns")
def real_without_its_dimension(pad_lens, num_tokens, device):
    mask = triangle(num_tokens, device) & real(pad_lens, num_tokens, device) | itself(num_tokens, device)
    return mask[None, None]


@wrong("22.2", "other-rows")
def rows_upside_down(pad_lens, num_tokens, device):
    return padded_causal_mask(pad_lens[::-1], num_tokens, device)


@wrong("22.2", "pads-see-nothing")
def without_itself(pad_lens, num_tokens, device):
    return (triangle(num_tokens, device) & real(pad_lens, num_tokens, device)[:, None])[:, None]


@wrong("22.2", "on-another-device")
def forgets_the_device(pad_lens, num_tokens, device):
    return padded_causal_mask(pad_lens, num_tokens, torch.device("cpu"))


@wrong("22.2", "other-sizes")
def up_to_eight_columns(pad_lens, num_tokens, device):
    return padded_causal_mask(pad_lens, 8, device)[:, :, :num_tokens, :num_tokens]


# ---- 22.3: admitted without the pads
class Admission(PagedSlotKVCache):
    """The reference's `admit`, its parts apart, so that each answer below has one of its own."""

    def admit(self, slots, prefill, pad_lens):
        self.check(slots, prefill, pad_lens)
        try:
            for row, (slot, pads) in enumerate(zip(slots, pad_lens, strict=True)):
                self.take(slot, row, prefill, pads)
        except BaseException:
            self.undo(slots)
            raise

    def check(self, slots, prefill, pad_lens):
        self._require_room(slots, [prefill.seq_len - pads for pads in pad_lens])

    def take(self, slot, row, prefill, pads):
        length = prefill.seq_len - pads
        self.tables[slot] = BlockTable(self.allocator)
        self.lengths[slot], self.offsets[slot] = length, pads
        self._grow(slot, length)
        self.keep(slot, row, prefill, pads)

    def keep(self, slot, row, prefill, pads):
        self._store_prompt(slot, [(k[row : row + 1, :, pads:], v[row : row + 1, :, pads:]) for k, v in prefill.layers])

    def undo(self, slots):
        for slot in self.tables.keys() & set(slots):
            self.release(slot)


def layers_of(prefill, row, pads):
    return [(k[row, :, pads:][None], v[row, :, pads:][None]) for k, v in prefill.layers]


@right("22.3")
class BlocksForAllFirst(PagedSlotKVCache):
    def admit(self, slots, prefill, pad_lens):
        lengths = [prefill.seq_len - pads for pads in pad_lens]
        self._require_room(slots, lengths)
        taken = []
        try:
            for slot, length in zip(slots, lengths, strict=True):
                self.tables[slot] = BlockTable(self.allocator)
                taken.append(slot)
                self._grow(slot, length)
            for row, slot in enumerate(slots):
                self._store_prompt(slot, layers_of(prefill, row, pad_lens[row]))
        except BaseException:
            for slot in taken:
                self.release(slot)
            raise
        for slot, length, pads in zip(slots, lengths, pad_lens, strict=True):
            self.lengths[slot] = length
            self.offsets[slot] = pads


@right("22.3")
class WritesBySlotItself(Admission):
    def keep(self, slot, row, prefill, pads):
        places = torch.tensor([self.tables[slot].slot(p) for p in range(self.lengths[slot])])
        for layer, (k, v) in enumerate(layers_of(prefill, row, pads)):
            write_by_slot(self.pool.k[layer], places, k)
            write_by_slot(self.pool.v[layer], places, v)


@right("22.3")
class ChecksForItself(Admission):
    def check(self, slots, prefill, pad_lens):
        if len(set(slots)) != len(slots) or any(slot in self.tables for slot in slots):
            raise ValueError(f"slots {slots} are not free")

    def take(self, slot, row, prefill, pads):
        """Exhaustion comes from the block table, and is undone as any other error is."""
        super().take(slot, row, prefill, pads)


@right("22.3")
class KeepsTheOldOnesInMind(Admission):
    def admit(self, slots, prefill, pad_lens):
        done = False
        self.check(slots, prefill, pad_lens)
        try:
            for row in range(len(slots)):
                self.take(slots[row], row, prefill, pad_lens[row])
            done = True
        finally:
            if not done:
                self.undo(slots)


@right("22.3")
class UndoneByAStack(PagedSlotKVCache):
    def admit(self, slots, prefill, pad_lens):
        self._require_room(slots, [prefill.seq_len - pads for pads in pad_lens])
        with ExitStack() as undo:
            for row, slot in enumerate(slots):
                self.tables[slot] = BlockTable(self.allocator)
                undo.callback(self.release, slot)
                self.offsets[slot] = pad_lens[row]
                self.lengths[slot] = prefill.seq_len - pad_lens[row]
                self._grow(slot, self.lengths[slot])
                self._store_prompt(slot, layers_of(prefill, row, pad_lens[row]))
            undo.pop_all()


@wrong("22.3", "row-dimension-lost")
class OneRowWithoutItsDimension(Admission):
    def keep(self, slot, row, prefill, pads):
        self._store_prompt(slot, [(k[row, :, pads:], v[row, :, pads:]) for k, v in prefill.layers])


@wrong("22.3", "stored-before-there-is-room")
class StoresFirst(Admission):
    def take(self, slot, row, prefill, pads):
        self.tables[slot] = BlockTable(self.allocator)
        self.lengths[slot], self.offsets[slot] = prefill.seq_len - pads, pads
        self.keep(slot, row, prefill, pads)
        self._grow(slot, self.lengths[slot])


@wrong("22.3", "columns-and-places-differ")
class OneColumnLess(Admission):
    def keep(self, slot, row, prefill, pads):
        super().keep(slot, row, prefill, pads + 1)


@alike("22.3", "columns-and-places-differ")
class RoomForThePads(Admission):
    def take(self, slot, row, prefill, pads):
        self.tables[slot] = BlockTable(self.allocator)
        self.lengths[slot], self.offsets[slot] = prefill.seq_len - pads, pads
        self._grow(slot, prefill.seq_len)
        self.keep(slot, row, prefill, pads)


@wrong("22.3", "rounded-to-16-bits")
class ByWayOfHalf(Admission):
    def keep(self, slot, row, prefill, pads):
        rounded = [(k.half().float(), v.half().float()) for k, v in layers_of(prefill, row, pads)]
        self._store_prompt(slot, rounded)


@wrong("22.3", "books-hold-no-ints")
class FloatOffsets(Admission):
    def take(self, slot, row, prefill, pads):
        super().take(slot, row, prefill, pads)
        self.offsets[slot] = float(pads)


@alike("22.3", "books-hold-no-ints")
class TensorLengths(Admission):
    def take(self, slot, row, prefill, pads):
        super().take(slot, row, prefill, pads)
        self.lengths[slot] = torch.tensor(self.lengths[slot])


@wrong("22.3", "first-row-only")
class ReturnsInTheLoop(Admission):
    def admit(self, slots, prefill, pad_lens):
        self.check(slots, prefill, pad_lens)
        for row, (slot, pads) in enumerate(zip(slots, pad_lens, strict=True)):
            self.take(slot, row, prefill, pads)
            return


@wrong("22.3", "one-table-for-all")
class OneTable(Admission):
    def admit(self, slots, prefill, pad_lens):
        self.check(slots, prefill, pad_lens)
        table = BlockTable(self.allocator)
        for row, (slot, pads) in enumerate(zip(slots, pad_lens, strict=True)):
            self.tables[slot] = table
            self.lengths[slot], self.offsets[slot] = prefill.seq_len - pads, pads
            self._grow(slot, self.lengths[slot])
            self.keep(slot, row, prefill, pads)


@wrong("22.3", "others-are-touched")
class OffsetsMadeAnew(Admission):
    def admit(self, slots, prefill, pad_lens):
        self.check(slots, prefill, pad_lens)
        self.offsets = [0] * self.num_slots
        super().admit(slots, prefill, pad_lens)


@alike("22.3", "others-are-touched")
class TablesMadeAnew(Admission):
    def admit(self, slots, prefill, pad_lens):
        self.check(slots, prefill, pad_lens)
        self.tables = {}
        super().admit(slots, prefill, pad_lens)


@alike("22.3", "others-are-touched")
class WipesThePool(Admission):
    def admit(self, slots, prefill, pad_lens):
        self.check(slots, prefill, pad_lens)
        self.pool.k.zero_()
        super().admit(slots, prefill, pad_lens)


@wrong("22.3", "changes-what-was-given")
class EmptiesTheLists(Admission):
    def admit(self, slots, prefill, pad_lens):
        super().admit(slots, prefill, pad_lens)
        slots.clear()


@alike("22.3", "changes-what-was-given")
class FreesThePrefill(Admission):
    def admit(self, slots, prefill, pad_lens):
        super().admit(slots, prefill, pad_lens)
        prefill.free()


@wrong("22.3", "clean-up-has-a-slip")
class MisspeltInTheCleanUp(Admission):
    def undo(self, slots):
        for slot in self.tables.keys() & set(slots):
            self.relase(slot)


@wrong("22.3", "no-table")
class ForgetsTheTable(Admission):
    def take(self, slot, row, prefill, pads):
        self.lengths[slot], self.offsets[slot] = prefill.seq_len - pads, pads
        self._grow(slot, self.lengths[slot])
        self.keep(slot, row, prefill, pads)


@wrong("22.3", "mirror-left")
class GrowsTheTableAlone(Admission):
    def take(self, slot, row, prefill, pads):
        length = prefill.seq_len - pads
        self.tables[slot] = BlockTable(self.allocator)
        self.lengths[slot], self.offsets[slot] = length, pads
        self.tables[slot].append(length)
        self.keep(slot, row, prefill, pads)


@wrong("22.3", "stored-as-a-step")
class StoresAsAStep(Admission):
    def keep(self, slot, row, prefill, pads):
        for layer, (k, v) in enumerate(layers_of(prefill, row, pads)):
            self.store(layer, k, v)


@wrong("22.3", "other-heads-or-width")
class CutsTheHeads(Admission):
    def keep(self, slot, row, prefill, pads):
        self._store_prompt(slot, [(k[row : row + 1, pads:], v[row : row + 1, pads:]) for k, v in prefill.layers])


@wrong("22.3", "nobody-is-in")
class CleansUpInAnyCase(Admission):
    def admit(self, slots, prefill, pad_lens):
        try:
            super().admit(slots, prefill, pad_lens)
        finally:
            self.undo(slots)


@wrong("22.3", "layers-over-one-another")
class ACallForEachLayer(Admission):
    def keep(self, slot, row, prefill, pads):
        for layer in layers_of(prefill, row, pads):
            self._store_prompt(slot, [layer])


@wrong("22.3", "length-not-kept")
class ForgetsTheLength(Admission):
    def take(self, slot, row, prefill, pads):
        super().take(slot, row, prefill, pads)
        self.lengths[slot] = 0


@wrong("22.3", "other-length")
class CountsTheNextTokenToo(Admission):
    def take(self, slot, row, prefill, pads):
        super().take(slot, row, prefill, pads)
        self.lengths[slot] += 1


@wrong("22.3", "no-block-table")
class AListOfBlocks(Admission):
    def take(self, slot, row, prefill, pads):
        super().take(slot, row, prefill, pads)
        self.tables[slot] = self.tables[slot].block_ids


@wrong("22.3", "table-of-another-length")
class RoomForTheNextTokenToo(Admission):
    def take(self, slot, row, prefill, pads):
        super().take(slot, row, prefill, pads)
        self._grow(slot, self.lengths[slot] + 1)


@wrong("22.3", "nothing-stored")
class BooksOnly(Admission):
    def keep(self, slot, row, prefill, pads):
        pass


@wrong("22.3", "values-first")
class ValuesForKeys(Admission):
    def keep(self, slot, row, prefill, pads):
        self._store_prompt(slot, [(v, k) for k, v in layers_of(prefill, row, pads)])


@wrong("22.3", "first-layer-only")
class OneLayer(Admission):
    def keep(self, slot, row, prefill, pads):
        self._store_prompt(slot, layers_of(prefill, row, pads)[:1])


@wrong("22.3", "other-memory")
class TokensBackwards(Admission):
    def keep(self, slot, row, prefill, pads):
        self._store_prompt(slot, [(k.flip(2), v.flip(2)) for k, v in layers_of(prefill, row, pads)])


@wrong("22.3", "more-columns-than-places")
class StoresThePadsToo(Admission):
    def keep(self, slot, row, prefill, pads):
        self._store_prompt(slot, layers_of(prefill, row, 0))


@wrong("22.3", "pads-are-counted")
class CountsThePads(Admission):
    def take(self, slot, row, prefill, pads):
        super().take(slot, row, prefill, 0)
        self.offsets[slot] = pads


@wrong("22.3", "pads-are-stored")
class CutsTheEnd(Admission):
    def keep(self, slot, row, prefill, pads):
        end = prefill.seq_len - pads
        self._store_prompt(slot, [(k[:, :, :end], v[:, :, :end]) for k, v in layers_of(prefill, row, 0)])


@wrong("22.3", "values-with-pads")
class CutsTheValuesElsewhere(Admission):
    def keep(self, slot, row, prefill, pads):
        end = prefill.seq_len - pads
        cut, whole = layers_of(prefill, row, pads), layers_of(prefill, row, 0)
        self._store_prompt(slot, [(k, v[:, :, :end]) for (k, _), (_, v) in zip(cut, whole, strict=True)])


@wrong("22.3", "other-tokens")
class OneColumnTooEarly(Admission):
    def keep(self, slot, row, prefill, pads):
        early, end = max(pads - 1, 0), prefill.seq_len - (pads > 0)
        self._store_prompt(slot, [(k[:, :, early:end], v[:, :, early:end]) for k, v in layers_of(prefill, row, 0)])


@wrong("22.3", "other-length-with-pads")
class TakesPadsOffTwice(Admission):
    def take(self, slot, row, prefill, pads):
        super().take(slot, row, prefill, pads)
        self.lengths[slot] -= pads


@wrong("22.3", "row-number-for-slot")
class RowForSlot(Admission):
    def take(self, slot, row, prefill, pads):
        super().take(row, row, prefill, pads)


@wrong("22.3", "lengths-of-other-rows")
class SortsTheSlots(Admission):
    def admit(self, slots, prefill, pad_lens):
        super().admit(sorted(slots), prefill, pad_lens)


@wrong("22.3", "first-length-for-all")
class TheFirstRowsPads(Admission):
    def take(self, slot, row, prefill, pads):
        super().take(slot, row, prefill, prefill.pad_lens[0])


@wrong("22.3", "first-row-for-all")
class AlwaysTheFirstRow(Admission):
    def keep(self, slot, row, prefill, pads):
        self._store_prompt(slot, [(k[:, :, pads:], v[:, :, pads:]) for k, v in prefill.layers])


@wrong("22.3", "other-rows-stored")
class RowsFromTheEnd(Admission):
    def keep(self, slot, row, prefill, pads):
        last = len(prefill.pad_lens) - 1
        self._store_prompt(slot, layers_of(prefill, last - row, pads))


@wrong("22.3", "offset-forgotten")
class NoOffset(Admission):
    def take(self, slot, row, prefill, pads):
        super().take(slot, row, prefill, pads)
        self.offsets[slot] = 0


@wrong("22.3", "length-for-offset")
class LengthAsOffset(Admission):
    def take(self, slot, row, prefill, pads):
        super().take(slot, row, prefill, pads)
        self.offsets[slot] = self.lengths[slot]


@wrong("22.3", "offsets-by-row")
class OffsetsOfTheBatch(Admission):
    def admit(self, slots, prefill, pad_lens):
        super().admit(slots, prefill, pad_lens)
        self.offsets = [*pad_lens, *[0] * self.num_slots][: self.num_slots]


@wrong("22.3", "other-offset")
class OffsetOfTheOtherSign(Admission):
    def take(self, slot, row, prefill, pads):
        super().take(slot, row, prefill, pads)
        self.offsets[slot] = -pads


@wrong("22.3", "taken-slot-overwritten")
class ChecksNothing(Admission):
    def check(self, slots, prefill, pad_lens):
        pass


@wrong("22.3", "refused-by-assert")
class Asserts(Admission):
    def check(self, slots, prefill, pad_lens):
        assert set(slots) <= set(self.free_slots())
        super().check(slots, prefill, pad_lens)


@wrong("22.3", "refused-by-another-error")
class RaisesAKeyError(Admission):
    def check(self, slots, prefill, pad_lens):
        for slot in slots:
            if slot in self.tables:
                raise KeyError(slot)
        super().check(slots, prefill, pad_lens)


@wrong("22.3", "refused-too-late")
class ChecksOneByOne(Admission):
    def check(self, slots, prefill, pad_lens):
        pass

    def take(self, slot, row, prefill, pads):
        if slot in self.tables:
            raise ValueError(f"slot {slot} is taken")
        super().take(slot, row, prefill, pads)

    def undo(self, slots):
        pass


@wrong("22.3", "the-one-there-is-lost")
class UndoesTheOneThere(ChecksOneByOne):
    undo = Admission.undo


@wrong("22.3", "slot-named-twice")
class SetsOnly(Admission):
    def check(self, slots, prefill, pad_lens):
        if not set(slots) <= set(self.free_slots()):
            raise ValueError(f"slots {slots} are not free")


@wrong("22.3", "named-twice-met-another-error")
class NamedTwiceAsExhaustion(Admission):
    def check(self, slots, prefill, pad_lens):
        if len(set(slots)) < len(slots):
            raise RuntimeError(f"{slots}: a slot is named twice")
        super().check(slots, prefill, pad_lens)


@wrong("22.3", "named-twice-found-late")
class NamedTwiceFoundLate(Admission):
    def check(self, slots, prefill, pad_lens):
        if not set(slots) <= set(self.free_slots()):
            raise ValueError(f"slots {slots} are not free")

    def take(self, slot, row, prefill, pads):
        if slot in self.tables:
            raise ValueError(f"slot {slot} is named twice")
        super().take(slot, row, prefill, pads)

    def undo(self, slots):
        pass


@wrong("22.3", "no-error-when-full")
class AsManyAsFit(Admission):
    def admit(self, slots, prefill, pad_lens):
        self._require_room(slots, [0] * len(slots))
        for row, (slot, pads) in enumerate(zip(slots, pad_lens, strict=True)):
            if self.allocator.num_free >= self._blocks_for(prefill.seq_len - pads):
                self.take(slot, row, prefill, pads)


@wrong("22.3", "full-met-another-error")
class FullAsValueError(Admission):
    def check(self, slots, prefill, pad_lens):
        if not self.can_admit([prefill.seq_len - pads for pads in pad_lens]):
            raise ValueError("no room")
        super().check(slots, prefill, pad_lens)


@wrong("22.3", "some-are-in")
class FullFoundLate(Admission):
    def check(self, slots, prefill, pad_lens):
        self._require_room(slots, [0] * len(slots))

    def undo(self, slots):
        pass


@wrong("22.3", "error-swallowed")
class SwallowsTheError(Admission):
    def admit(self, slots, prefill, pad_lens):
        self.check(slots, prefill, pad_lens)
        try:
            for row, (slot, pads) in enumerate(zip(slots, pad_lens, strict=True)):
                self.take(slot, row, prefill, pads)
        except Exception:
            self.undo(slots)


@wrong("22.3", "half-of-them-are-in")
class UndoesNothing(Admission):
    def undo(self, slots):
        pass


@wrong("22.3", "half-of-them-are-stored")
class StoresOutsideOfTheTry(Admission):
    def admit(self, slots, prefill, pad_lens):
        self.check(slots, prefill, pad_lens)
        try:
            for slot, pads in zip(slots, pad_lens, strict=True):
                self.tables[slot] = BlockTable(self.allocator)
                self.lengths[slot], self.offsets[slot] = prefill.seq_len - pads, pads
                self._grow(slot, self.lengths[slot])
        except BaseException:
            self.undo(slots)
            raise
        for row, slot in enumerate(slots):
            self.keep(slot, row, prefill, pad_lens[row])


@wrong("22.3", "left-behind")
class LeavesTheMirror(Admission):
    def undo(self, slots):
        for slot in self.tables.keys() & set(slots):
            self.tables.pop(slot).free()
            self.lengths[slot] = self.offsets[slot] = 0


@wrong("22.3", "clean-up-raises")
class ReleasesThoseWithoutATable(Admission):
    def undo(self, slots):
        for slot in slots:
            self.release(slot)


@wrong("22.3", "error-replaced")
class RaisesAnErrorOfItsOwn(Admission):
    def admit(self, slots, prefill, pad_lens):
        self.check(slots, prefill, pad_lens)
        try:
            for row, (slot, pads) in enumerate(zip(slots, pad_lens, strict=True)):
                self.take(slot, row, prefill, pads)
        except BaseException as error:
            self.undo(slots)
            raise RuntimeError("nobody was admitted") from error


@wrong("22.3", "all-of-them-are-out")
class FreesEverything(Admission):
    def undo(self, slots):
        for slot in list(self.tables):
            self.release(slot)


@wrong("22.3", "ctrl-c-swallowed")
class SwallowsCtrlC(Admission):
    def admit(self, slots, prefill, pad_lens):
        with suppress(KeyboardInterrupt):
            super().admit(slots, prefill, pad_lens)


@wrong("22.3", "ctrl-c-leaves-half")
class UndoesExceptionsOnly(Admission):
    def admit(self, slots, prefill, pad_lens):
        self.check(slots, prefill, pad_lens)
        try:
            for row, (slot, pads) in enumerate(zip(slots, pad_lens, strict=True)):
                self.take(slot, row, prefill, pads)
        except Exception:
            self.undo(slots)
            raise


@wrong("22.3", "other-numbers")
class UpToTwoBlocks(Admission):
    def keep(self, slot, row, prefill, pads):
        table = self.tables[slot]
        for layer, (k, v) in enumerate(layers_of(prefill, row, pads)):
            for p in range(min(table.num_tokens, 11)):
                self.pool.k[layer].view(-1, *k.shape[1::2])[table.slot(p)] = k[0, :, p]
                self.pool.v[layer].view(-1, *v.shape[1::2])[table.slot(p)] = v[0, :, p]


# ---- 22.4: a place for every new token
class Placing(PagedSlotKVCache):
    """Both methods, as the reference has them."""

    def entries(self, lengths):
        return self.block_tables.gather(1, (lengths // self.allocator.block_size)[:, None])[:, 0]

    def places(self, lengths):
        return self.entries(lengths) * self.allocator.block_size + lengths % self.allocator.block_size

    def positions(self, num_tokens):
        lengths, offsets = torch.tensor(self.lengths), torch.tensor(self.offsets)
        self._begin_step(lengths)
        return (lengths + offsets)[:, None]


@right("22.4")
class ByTwoIndices(Placing):
    def entries(self, lengths):
        return self.block_tables[torch.arange(len(lengths)), lengths // self.allocator.block_size]


@right("22.4")
class SlotBySlot(Placing):
    def places(self, lengths):
        size = self.allocator.block_size
        return torch.tensor(
            [
                self.tables[slot].slot(length) if slot in self.tables else self.scratch * size + slot % size
                for slot, length in enumerate(lengths.tolist())
            ]
        )


@right("22.4")
class AllPlacesLaidOut(Placing):
    def places(self, lengths):
        size = self.allocator.block_size
        every = (self.block_tables * size)[:, :, None] + torch.arange(size)
        return every.flatten(1)[range(self.num_slots), lengths.tolist()]


@right("22.4")
class IdleAtAnyPosition(Placing):
    def positions(self, num_tokens):
        super().positions(num_tokens)
        return torch.tensor(
            [[self.lengths[slot] + self.offsets[slot] if slot in self.tables else 99] for slot in range(self.num_slots)]
        )


def places_that(slip, told=wrong):
    """A wrong `places`."""

    def keep(places):
        name = "".join(word.title() for word in places.__name__.split("_"))
        return told("22.4", slip)(type(name, (Placing,), {"places": places}))

    return keep


def positions_that(slip):
    """A wrong `positions`."""

    def keep(positions):
        name = "".join(word.title() for word in positions.__name__.split("_"))
        return wrong("22.4", slip)(type(name, (Placing,), {"positions": positions}))

    return keep


@places_that("places-no-tensor")
def a_list_of_places(self, lengths):
    return Placing.places(self, lengths).tolist()


@places_that("places-are-floats")
def divides(self, lengths):
    return self.entries(lengths) * 4.0 + lengths % 4


@places_that("places-of-another-shape")
def keeps_the_dimension(self, lengths):
    return Placing.places(self, lengths)[:, None]


@places_that("index-of-floats")
def indexes_with_a_quotient(self, lengths):
    return self.block_tables.gather(1, (lengths / 4)[:, None])[:, 0] * 4 + lengths % 4


@places_that("index-does-not-fit")
def indexes_with_the_length(self, lengths):
    return self.block_tables.gather(1, lengths)[:, 0] * 4 + lengths % 4


@places_that("changes-the-lengths")
def divides_in_place(self, lengths):
    offsets = lengths % 4
    lengths //= 4
    return self.block_tables.gather(1, lengths[:, None])[:, 0] * 4 + offsets


@places_that("places-are-narrow")
def in_32_bits(self, lengths):
    return Placing.places(self, lengths).int()


@places_that("changes-the-tables")
def multiplies_the_tables(self, lengths):
    self.block_tables *= self.allocator.block_size
    return self.entries(lengths) + lengths % self.allocator.block_size


@places_that("kept-in-the-class")
def works_it_out_once(self, lengths):
    cls = type(self)
    cls.kept = getattr(cls, "kept", None)
    cls.kept = Placing.places(self, lengths) if cls.kept is None else cls.kept
    return cls.kept


@places_that("size-written-down")
def always_four(self, lengths):
    return self.block_tables.gather(1, (lengths // 4)[:, None])[:, 0] * 4 + lengths % 4


@places_that("another-place", alike)
def always_sixteen(self, lengths):
    return self.block_tables.gather(1, (lengths // 16)[:, None])[:, 0] * 16 + lengths % 16


@places_that("overwrites-the-last")
def where_the_last_one_is(self, lengths):
    return Placing.places(self, (lengths - 1).clamp(min=0))


@places_that("leaves-a-gap")
def one_further(self, lengths):
    return Placing.places(self, lengths + 1)


@places_that("block-without-offset")
def at_the_blocks_beginning(self, lengths):
    return self.entries(lengths) * 4


@places_that("block-id-only")
def the_block(self, lengths):
    return self.entries(lengths)


@places_that("entry-for-block-id")
def the_length_itself(self, lengths):
    return lengths // 4 * 4 + lengths % 4


@places_that("first-block-for-all")
def always_the_first_block(self, lengths):
    return self.block_tables[:, 0] * 4 + lengths % 4


@places_that("block-and-offset-swapped")
def the_other_way_round(self, lengths):
    return lengths % 4 * 4 + self.entries(lengths)


@places_that("another-place")
def times_the_number_of_blocks(self, lengths):
    return self.entries(lengths) * self.allocator.num_blocks + lengths % 4


@places_that("runs-out-of-the-block")
def the_last_tokens_block(self, lengths):
    last = (lengths - 1).clamp(min=0)
    return Placing.places(self, last) + (lengths > 0)


@places_that("another-place-behind-a-full-block")
def offset_from_one(self, lengths):
    return self.entries(lengths) * 4 + torch.where(lengths % 4 == 0, 1, lengths % 4)


@places_that("last-table-for-all")
def one_table(self, lengths):
    return self.block_tables[-1][lengths // 4] * 4 + lengths % 4


@places_that("place-in-another-table")
def tables_in_order_of_admission(self, lengths):
    rows = list(self.tables) + [slot for slot in range(self.num_slots) if slot not in self.tables]
    return self.block_tables[rows].gather(1, (lengths // 4)[:, None])[:, 0] * 4 + lengths % 4


@places_that("idle-has-no-table")
def from_the_tables(self, lengths):
    return torch.tensor([self.tables[slot].slot(length) for slot, length in enumerate(lengths.tolist())])


@places_that("idle-at-minus-1")
def minus_1(self, lengths):
    return torch.where(lengths == 0, -1, Placing.places(self, lengths))


@places_that("idle-in-block-0")
def zeros_first(self, lengths):
    places = torch.zeros_like(lengths)
    for slot, table in self.tables.items():
        places[slot] = table.slot(int(lengths[slot]))
    return places


@places_that("scratch-id-for-place")
def the_block_for_the_place(self, lengths):
    return torch.where(lengths == 0, self.scratch, Placing.places(self, lengths))


@places_that("idle-elsewhere")
def repeats_a_busy_one(self, lengths):
    places = Placing.places(self, lengths)
    return torch.where(lengths == 0, places[lengths.argmax()], places)


@places_that("busy-slot-beside-idle-ones")
def scratch_for_all_when_one_is_idle(self, lengths):
    return torch.full_like(lengths, self.scratch * 4) if (lengths == 0).any() else Placing.places(self, lengths)


@positions_that("positions-no-tensor")
def a_list_of_positions(self, num_tokens):
    return Placing.positions(self, num_tokens).tolist()


@positions_that("positions-are-floats")
def float_positions(self, num_tokens):
    return Placing.positions(self, num_tokens).float()


@positions_that("positions-of-another-shape")
def flat(self, num_tokens):
    return Placing.positions(self, num_tokens)[:, 0]


@positions_that("positions-are-narrow")
def in_a_byte(self, num_tokens):
    return Placing.positions(self, num_tokens).to(torch.uint8)


@positions_that("changes-the-books")
def counts_the_new_token(self, num_tokens):
    positions = Placing.positions(self, num_tokens)
    self.advance()
    return positions


@positions_that("position-of-the-last")
def of_the_last_token(self, num_tokens):
    return Placing.positions(self, num_tokens) - 1


@positions_that("position-one-late")
def counted_with_itself(self, num_tokens):
    return Placing.positions(self, num_tokens) + 1


@positions_that("position-0")
def among_the_new_ones(self, num_tokens):
    return Placing.positions(self, num_tokens) * 0


@positions_that("another-position")
def twice_as_far(self, num_tokens):
    return Placing.positions(self, num_tokens) * 2


@positions_that("offset-left-out")
def without_the_offset(self, num_tokens):
    return Placing.positions(self, num_tokens) - torch.tensor(self.offsets)[:, None]


@positions_that("offset-taken-off")
def less_the_offset(self, num_tokens):
    return Placing.positions(self, num_tokens) - 2 * torch.tensor(self.offsets)[:, None]


@positions_that("offset-only")
def where_there_is_one(self, num_tokens):
    positions, offsets = Placing.positions(self, num_tokens), torch.tensor(self.offsets)[:, None]
    return torch.where(offsets.sum() > 0, offsets, positions)


@positions_that("another-offset")
def the_offset_twice(self, num_tokens):
    return Placing.positions(self, num_tokens) + torch.tensor(self.offsets)[:, None]


@positions_that("longest-for-all")
def where_the_longest_goes_on(self, num_tokens):
    return torch.full_like(Placing.positions(self, num_tokens), self.seq_len)


@positions_that("position-of-others")
def in_the_order_of_admission(self, num_tokens):
    positions = Placing.positions(self, num_tokens)
    return positions if self.free_slots() else positions[list(self.tables)]


@positions_that("step-not-begun")
def begins_no_step(self, num_tokens):
    return (torch.tensor(self.lengths) + torch.tensor(self.offsets))[:, None]


@positions_that("step-of-other-lengths")
def begins_with_positions(self, num_tokens):
    positions = torch.tensor(self.lengths) + torch.tensor(self.offsets)
    self._begin_step(positions)
    return positions[:, None]


@positions_that("step-begun-once")
def begins_once(self, num_tokens):
    lengths = torch.tensor(self.lengths)
    if not hasattr(self, "begun"):
        self._begin_step(lengths)
        self.begun = True
    return (lengths + torch.tensor(self.offsets))[:, None]


@positions_that("step-begun-elsewhere")
def begins_with_columns(self, num_tokens):
    lengths = torch.tensor(self.lengths)
    self._begin_step(lengths[:, None])
    return (lengths + torch.tensor(self.offsets))[:, None]
