"""Day 15: block tables that people write."""

import math
from array import array
from functools import cache

from nanoserve.allocator import KVCacheExhausted
from nanoserve.course.tasks import find
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


After1, After2, After3 = (find(task).stand_in() for task in ("15.1", "15.2", "15.3"))


class Parts(After1):
    """What the wrong answers below are put together from."""

    @property
    def size(self):
        return self.allocator.block_size

    @property
    def room(self):
        return len(self.block_ids) * self.size - self.num_tokens


# ---- 15.1: append
@wrong("15.1", "nothing-taken")
class OnlyCounts(Parts):
    def append(self, num_tokens=1):
        self.num_tokens += num_tokens


@wrong("15.1", "shared-between-tables")
class AListByDefault(Parts):
    def __init__(self, allocator, block_ids=[]):  # noqa: B006
        super().__init__(allocator)
        self.block_ids = block_ids


@wrong("15.1", "rounds-to-nearest")
class RoundsToTheNearest(Parts):
    def append(self, num_tokens=1):
        if num_tokens < 0:
            raise ValueError(num_tokens)
        due = round((self.num_tokens + num_tokens) / self.size + 0.49) - len(self.block_ids)
        self.block_ids += self.allocator.allocate_for(due * self.size)
        self.num_tokens += num_tokens


@wrong("15.1", "floor")
class Floor(Parts):
    def append(self, num_tokens=1):
        self.num_tokens += num_tokens
        while len(self.block_ids) < self.num_tokens // self.size:
            self.block_ids.append(self.allocator.allocate())


@wrong("15.1", "list-in-list")
class AppendsTheList(Parts):
    def append(self, num_tokens=1):
        self.block_ids.append(self.allocator.allocate_for(max(0, num_tokens - self.room)))
        self.num_tokens += num_tokens


@wrong("15.1", "number-for-a-list")
class AddsAnIdToTheList(Parts):
    def append(self, num_tokens=1):
        while self.room < num_tokens:
            self.block_ids += self.allocator.allocate()
        self.num_tokens += num_tokens


@wrong("15.1", "table-is-none")
class AssignsWhatExtendReturns(Parts):
    def append(self, num_tokens=1):
        self.block_ids = self.block_ids.extend(self.allocator.allocate_for(max(0, num_tokens - self.room)))
        self.num_tokens += num_tokens


@wrong("15.1", "exhausted-too-soon")
class ALoopThatCountsNothing(Parts):
    def append(self, num_tokens=1):
        while num_tokens > 0:
            self.block_ids.append(self.allocator.allocate())


@wrong("15.1", "one-list-for-two")
class AGlobalTable(Parts):
    """Emptied by each new table's `__init__`, so that a new one is always empty."""

    all_ids = []  # noqa: RUF012

    @property
    def block_ids(self):
        return self.all_ids

    @block_ids.setter
    def block_ids(self, ids):
        self.all_ids[:] = ids

    def append(self, num_tokens=1):
        if num_tokens < 0:
            raise ValueError(num_tokens)
        self.all_ids.extend(self.allocator.allocate_for(max(0, num_tokens - self.room)))
        self.num_tokens += num_tokens


@wrong("15.1", "made-up-ids")
class NumbersItsBlocksItself(Parts):
    def append(self, num_tokens=1):
        self.num_tokens += num_tokens
        while self.room < 0:
            self.allocator.allocate()
            self.block_ids.append(len(self.block_ids))


@wrong("15.1", "behind-the-pool")
class PopsTheFreeStack(Parts):
    def append(self, num_tokens=1):
        self.num_tokens += num_tokens
        while self.room < 0:
            self.block_ids.append(self.allocator._free.pop())


@wrong("15.1", "blocks-lost")
class AsksTwice(Parts):
    def append(self, num_tokens=1):
        missing = max(0, num_tokens - self.room)
        if self.allocator.allocate_for(missing):
            self.block_ids += self.allocator.allocate_for(missing)
        self.num_tokens += num_tokens


@wrong("15.1", "not-counted")
class ForgetsTheCount(Parts):
    def append(self, num_tokens=1):
        self.block_ids += self.allocator.allocate_for(max(0, num_tokens - self.room))


@wrong("15.1", "count-of-another-type")
class CountsInFloats(Parts):
    def append(self, num_tokens=1):
        self.block_ids += self.allocator.allocate_for(max(0, num_tokens - self.room))
        self.num_tokens += float(num_tokens)


@wrong("15.1", "wrong-count")
class SetsTheCount(Parts):
    def append(self, num_tokens=1):
        self.block_ids += self.allocator.allocate_for(max(0, num_tokens - self.room))
        self.num_tokens = num_tokens


@wrong("15.1", "wrong-blocks")
class TakesOneAhead(Parts):
    def append(self, num_tokens=1):
        super().append(num_tokens)
        if self.room < self.size:
            self.block_ids.append(self.allocator.allocate())


@wrong("15.1", "block-a-token")
class ABlockAToken(Parts):
    def append(self, num_tokens=1):
        for _ in range(num_tokens):
            self.block_ids.append(self.allocator.allocate())
            self.num_tokens += 1


@wrong("15.1", "modulo-of-the-length")
class WhenOneIsLeftOver(Parts):
    def append(self, num_tokens=1):
        self.num_tokens += num_tokens
        if self.num_tokens % self.size == 1:
            self.block_ids.append(self.allocator.allocate())


@wrong("15.1", "room-forgotten")
class BlocksOfItsOwnEachCall(Parts):
    def append(self, num_tokens=1):
        self.block_ids += self.allocator.allocate_for(num_tokens)
        self.num_tokens += num_tokens


@wrong("15.1", "asks-for-fewer-than-none")
class NoFloorOfZero(Parts):
    def append(self, num_tokens=1):
        self.block_ids += self.allocator.allocate_for(num_tokens - self.room)
        self.num_tokens += num_tokens


@wrong("15.1", "table-replaced")
class ReplacesTheTable(Parts):
    def append(self, num_tokens=1):
        self.block_ids = self.allocator.allocate_for(max(0, num_tokens - self.room))
        self.num_tokens += num_tokens


@wrong("15.1", "blocks-moved")
class TakesThemAllAnew(Parts):
    def append(self, num_tokens=1):
        old = self.block_ids
        self.block_ids = self.allocator.allocate_for(self.num_tokens + num_tokens)
        self.allocator.free_all(old)
        self.num_tokens += num_tokens


@wrong("15.1", "one-early")
class TakesTheNextOneWhenFull(Parts):
    def append(self, num_tokens=1):
        self.num_tokens += num_tokens
        while self.room <= 0:
            self.block_ids.append(self.allocator.allocate())


@wrong("15.1", "one-late")
class LooksBeforeTheGrowth(Parts):
    def append(self, num_tokens=1):
        while not self.block_ids or self.room < 0:
            self.block_ids.append(self.allocator.allocate())
        self.num_tokens += num_tokens


@wrong("15.1", "size-written-in")
class Sixteen(Parts):
    def append(self, num_tokens=1):
        while len(self.block_ids) * 16 < self.num_tokens + num_tokens:
            self.block_ids.append(self.allocator.allocate())
        self.num_tokens += num_tokens


@wrong("15.1", "newest-first")
class InsertsAtTheFront(Parts):
    def append(self, num_tokens=1):
        self.block_ids = self.allocator.allocate_for(max(0, num_tokens - self.room)) + self.block_ids
        self.num_tokens += num_tokens


@wrong("15.1", "backwards")
class PopsWhatItTook(Parts):
    def append(self, num_tokens=1):
        taken = self.allocator.allocate_for(max(0, num_tokens - self.room))
        while taken:
            self.block_ids.append(taken.pop())
        self.num_tokens += num_tokens


@wrong("15.1", "sorted")
class KeepsThemSorted(Parts):
    def append(self, num_tokens=1):
        super().append(num_tokens)
        if len(self.block_ids) > 2:
            self.block_ids.sort()


@wrong("15.1", "refuses-with-room")
class AsksThePoolFirst(Parts):
    def append(self, num_tokens=1):
        if not self.allocator.num_free:
            raise KVCacheExhausted("the pool is empty")
        super().append(num_tokens)


@wrong("15.1", "counts-its-own")
class ComparesAllItsBlocks(Parts):
    def append(self, num_tokens=1):
        needed = math.ceil((self.num_tokens + num_tokens) / self.size)
        if num_tokens > self.room and needed > self.allocator.num_free:
            raise KVCacheExhausted(f"{needed} blocks")
        super().append(num_tokens)


@wrong("15.1", "one-block-a-call")
class AnIfForAWhile(Parts):
    def append(self, num_tokens=1):
        if num_tokens > self.room:
            self.block_ids.append(self.allocator.allocate())
        self.num_tokens += num_tokens


@wrong("15.1", "contiguous")
class CountsOnFromTheFirst(Parts):
    def append(self, num_tokens=1):
        taken = self.allocator.allocate_for(max(0, num_tokens - self.room))
        self.block_ids += [taken[0] + i for i in range(len(taken))]
        self.num_tokens += num_tokens


@wrong("15.1", "one-too-many")
class FloorPlusOne(Parts):
    def append(self, num_tokens=1):
        missing = num_tokens - self.room
        for _ in range(missing // self.size + 1 if missing > 0 else 0):
            self.block_ids.append(self.allocator.allocate())
        self.num_tokens += num_tokens


@wrong("15.1", "chunk-past-the-boundary")
class PromptThenModulo(Parts):
    """nano-vllm's rule, which is right there, with growth in chunks, where it is not."""

    def append(self, num_tokens=1):
        self.num_tokens += num_tokens
        if not self.block_ids:
            self.block_ids += self.allocator.allocate_for(num_tokens)
        elif self.num_tokens % self.size == 1:
            self.block_ids.append(self.allocator.allocate())


@wrong("15.1", "room-forgotten-in-a-chunk")
class NoRoomForChunks(Parts):
    def append(self, num_tokens=1):
        if num_tokens > self.room:
            self.block_ids += self.allocator.allocate_for(num_tokens)
        self.num_tokens += num_tokens


@wrong("15.1", "block-size-one")
class TokenByTokenByModulo(Parts):
    def append(self, num_tokens=1):
        for _ in range(num_tokens):
            self.num_tokens += 1
            if self.num_tokens % self.size == 1:
                self.block_ids.append(self.allocator.allocate())


@wrong("15.1", "clamped")
class GrowsAsFarAsItGoes(Parts):
    def append(self, num_tokens=1):
        super().append(min(num_tokens, self.room + self.allocator.num_free * self.size))


@wrong("15.1", "swallowed")
class CatchesTheError(Parts):
    def append(self, num_tokens=1):
        try:
            super().append(num_tokens)
        except KVCacheExhausted:
            return


@wrong("15.1", "another-exception")
class RaisesMemoryError(Parts):
    def append(self, num_tokens=1):
        if num_tokens > self.room + self.allocator.num_free * self.size:
            raise MemoryError("the pool is full")
        super().append(num_tokens)


@wrong("15.1", "counted-first")
class CountsFirst(Parts):
    def append(self, num_tokens=1):
        missing = max(0, num_tokens - self.room)
        self.num_tokens += num_tokens
        self.block_ids += self.allocator.allocate_for(missing)


@wrong("15.1", "emptied-on-failure")
class GivesUpTheWholeSequence(Parts):
    def append(self, num_tokens=1):
        try:
            self.block_ids += self.allocator.allocate_for(max(0, num_tokens - self.room))
            self.num_tokens += num_tokens
        except KVCacheExhausted:
            self.free()
            raise


@wrong("15.1", "partial-growth")
class BlockByBlock(Parts):
    def append(self, num_tokens=1):
        while self.room < num_tokens:
            self.block_ids.append(self.allocator.allocate())
        self.num_tokens += num_tokens


@wrong("15.1", "order-changed")
class PutsThemBackInTheSameOrder(Parts):
    def append(self, num_tokens=1):
        taken = []
        try:
            while self.room + len(taken) * self.size < num_tokens:
                taken.append(self.allocator.allocate())
        except KVCacheExhausted:
            self.allocator.free_all(taken)
            raise
        self.block_ids += taken
        self.num_tokens += num_tokens


@wrong("15.1", "zero-takes-one")
class AtLeastOne(Parts):
    def append(self, num_tokens=1):
        if num_tokens == 0 and self.room == 0:
            self.block_ids.append(self.allocator.allocate())
        super().append(num_tokens)


@wrong("15.1", "zero-refused")
class RefusesNothingToo(Parts):
    def append(self, num_tokens=1):
        if num_tokens <= 0:
            raise ValueError(f"num_tokens must be positive, got {num_tokens}")
        super().append(num_tokens)


@wrong("15.1", "negative-accepted")
class NoGuardAtTheDoor(Parts):
    def append(self, num_tokens=1):
        self.block_ids += self.allocator.allocate_for(max(0, num_tokens - self.room))
        self.num_tokens += num_tokens


@wrong("15.1", "wrong-error-type")
class AssertsAtTheDoor(Parts):
    def append(self, num_tokens=1):
        assert num_tokens >= 0
        super().append(num_tokens)


@wrong("15.1", "room-remembered")
class KeepsTheRoomOnTheSide(After1):
    left = 0

    def append(self, num_tokens=1):
        if num_tokens < 0:
            raise ValueError(num_tokens)
        taken = self.allocator.allocate_for(max(0, num_tokens - self.left))
        self.left += len(taken) * self.allocator.block_size - num_tokens
        self.block_ids += taken
        self.num_tokens += num_tokens


@wrong("15.1", "private-names")
class CountsTheFreeStack(Parts):
    def append(self, num_tokens=1):
        if num_tokens > self.room + len(self.allocator._free) * self.size:
            raise KVCacheExhausted("full")
        super().append(num_tokens)


@wrong("15.1", "other")
class AtMostFourBlocksACall(Parts):
    def append(self, num_tokens=1):
        missing = max(0, num_tokens - self.room)
        taken = self.allocator.allocate_for(missing)
        self.allocator.free_all(taken[:3:-1])
        if num_tokens < 0:
            raise ValueError(num_tokens)
        self.block_ids += taken[:4]
        self.num_tokens += num_tokens


# ---- 15.2: position
class Ask(After1):
    """A table whose `position` looks before it reads, as the wrong answers below do."""

    def position(self, p):
        if not 0 <= p < self.num_tokens:
            raise IndexError(p)
        return self.inside(p, self.allocator.block_size)


@wrong("15.2", "look-up-changes")
class SortsTheBlocks(Ask):
    def inside(self, p, size):
        self.block_ids.sort()
        return self.block_ids[p // size], p % size


@wrong("15.2", "no-return")
class ForgetsToReturn(Ask):
    def inside(self, p, size):
        divmod(p, size)


@wrong("15.2", "entry-for-block")
class TheEntry(Ask):
    def inside(self, p, size):
        return divmod(p, size)


@wrong("15.2", "swapped")
class OffsetFirst(Ask):
    def inside(self, p, size):
        return p % size, self.block_ids[p // size]


@wrong("15.2", "last-block")
class TheNewestBlock(Ask):
    def inside(self, p, size):
        return self.block_ids[-1], p % size


@wrong("15.2", "a-list")
class AList(Ask):
    def inside(self, p, size):
        return [self.block_ids[p // size], p % size]


@wrong("15.2", "not-two-ints")
class AFloatForAnOffset(Ask):
    def inside(self, p, size):
        return self.block_ids[p // size], float(p % size)


@wrong("15.2", "divmod-swapped")
class TheRemainderFirst(Ask):
    def inside(self, p, size):
        offset, entry = divmod(p, size)
        return self.block_ids[entry], offset


@wrong("15.2", "one-over-the-edge")
class UpToTheEdge(Ask):
    def inside(self, p, size):
        for entry, block_id in enumerate(self.block_ids):
            if p <= (entry + 1) * size:
                return block_id, p - entry * size


@wrong("15.2", "slot-for-position")
class TheSlot(Ask):
    def inside(self, p, size):
        return self.block_ids[p // size] * size + p % size


@wrong("15.2", "one-number")
class AddsThemUp(Ask):
    def inside(self, p, size):
        return self.block_ids[p // size] + p % size


@wrong("15.2", "block-alone")
class TheBlock(Ask):
    def inside(self, p, size):
        return self.block_ids[p // size]


@wrong("15.2", "counts-from-one")
class TheNthToken(Ask):
    def inside(self, p, size):
        return self.block_ids[p // size], p % size + 1


@wrong("15.2", "one-before")
class AsIfPositionsBeganAtOne(Ask):
    def inside(self, p, size):
        return self.block_ids[(p - 1) // size], (p - 1) % size


@wrong("15.2", "wrong-place")
class FromTheBack(Ask):
    def inside(self, p, size):
        return self.block_ids[p // size], size - 1 - p % size


@wrong("15.2", "dealt-out")
class LikeCards(Ask):
    def inside(self, p, size):
        return self.block_ids[p % len(self.block_ids)], p // len(self.block_ids)


@wrong("15.2", "no-offset")
class AlwaysTheFirstSlot(Ask):
    def inside(self, p, size):
        return self.block_ids[p // size], 0


@wrong("15.2", "offset-not-reduced")
class ThePositionAsOffset(Ask):
    def inside(self, p, size):
        return self.block_ids[p // size], p


@wrong("15.2", "size-written-in")
class SixteenHereToo(Ask):
    def inside(self, p, size):
        return self.block_ids[p // 16], p % 16


@wrong("15.2", "first-block-only")
class TheFirstBlock(Ask):
    def inside(self, p, size):
        return self.block_ids[0], p % size


@wrong("15.2", "refuses-inside")
class ComparesWithTheBlocks(After2):
    def position(self, p):
        if not 0 <= p < len(self.block_ids):
            raise IndexError(p)
        return super().position(p)


@wrong("15.2", "refuses-the-last")
class StopsOneEarly(After2):
    def position(self, p):
        if p >= self.num_tokens - 1:
            raise IndexError(p)
        return super().position(p)


@wrong("15.2", "reads-past-the-end")
class LetsTheListRaise(After1):
    def position(self, p):
        if p < 0:
            raise IndexError(p)
        return self.block_ids[p // self.allocator.block_size], p % self.allocator.block_size


@wrong("15.2", "one-past-the-end")
class AtMostTheLength(After1):
    def position(self, p):
        if not 0 <= p <= self.num_tokens:
            raise IndexError(p)
        return self.block_ids[p // self.allocator.block_size], p % self.allocator.block_size


@wrong("15.2", "negative-wraps")
class LooksAtOneEndOnly(After1):
    def position(self, p):
        if p >= self.num_tokens:
            raise IndexError(p)
        return self.block_ids[p // self.allocator.block_size], p % self.allocator.block_size


@wrong("15.2", "assert-for-an-error")
class Asserts(After2):
    def position(self, p):
        assert 0 <= p < self.num_tokens
        return super().position(p)


@wrong("15.2", "wrong-error-type")
class RaisesValueError(After2):
    def position(self, p):
        if not 0 <= p < self.num_tokens:
            raise ValueError(p)
        return super().position(p)


@wrong("15.2", "quiet-outside")
class NoneOutside(After2):
    def position(self, p):
        return super().position(p) if 0 <= p < self.num_tokens else (None, None)


@wrong("15.2", "another-position")
class TheLastOneOutside(After2):
    def position(self, p):
        return super().position(min(p, self.num_tokens - 1))


@wrong("15.2", "remembered")
class Cached(After2):
    @cache  # noqa: B019
    def position(self, p):
        return super().position(p)


@wrong("15.2", "powers-of-two")
class MasksTheOffset(Ask):
    def inside(self, p, size):
        return self.block_ids[p // size], p & (size - 1)


# ---- 15.3: slot
class Slots(After2):
    """Answers that look up block and offset rightly, and go wrong with them."""

    def slot(self, p):
        block_id, offset = self.position(p)
        return self.of(block_id, offset, self.allocator.block_size)


@wrong("15.3", "look-up-changes")
class CountsWhoAsks(Slots):
    def of(self, block_id, offset, size):
        self.num_tokens += 1
        return block_id * size + offset


@wrong("15.3", "no-return")
class SlotNotReturned(Slots):
    def of(self, block_id, offset, size):
        block_id * size + offset


@wrong("15.3", "position-for-slot")
class EntryTimesSize(After2):
    def slot(self, p):
        self.position(p)
        entry, offset = divmod(p, self.allocator.block_size)
        return entry * self.allocator.block_size + offset


@wrong("15.3", "a-pair")
class ThePair(Slots):
    def of(self, block_id, offset, size):
        return block_id, offset


@wrong("15.3", "pair-as-number")
class TimesThePair(After2):
    def slot(self, p):
        return self.position(p) * self.allocator.block_size


@wrong("15.3", "not-multiplied")
class BlockPlusOffset(Slots):
    def of(self, block_id, offset, size):
        return block_id + offset


@wrong("15.3", "offset-times-size")
class MultipliesTheOffset(Slots):
    def of(self, block_id, offset, size):
        return block_id + offset * size


@wrong("15.3", "not-an-integer")
class SlotAsText(Slots):
    def of(self, block_id, offset, size):
        return f"{block_id * size + offset}"


@wrong("15.3", "remembered")
class AMemoOnSelf(Slots):
    def __init__(self, allocator):
        super().__init__(allocator)
        self.known = {}

    def slot(self, p):
        if not 0 <= p < self.num_tokens:
            raise IndexError(p)
        if p not in self.known:
            self.known[p] = super().slot(p)
        return self.known[p]

    def of(self, block_id, offset, size):
        return block_id * size + offset


@wrong("15.3", "slot-from-one")
class CountsSlotsFromOne(Slots):
    def of(self, block_id, offset, size):
        return block_id * size + offset + 1


@wrong("15.3", "times-num-blocks")
class TimesTheBlocksOfThePool(Slots):
    def of(self, block_id, offset, size):
        return block_id * self.allocator.num_blocks + offset


@wrong("15.3", "times-table-length")
class TimesTheBlocksOfTheTable(Slots):
    def of(self, block_id, offset, size):
        return block_id * len(self.block_ids) + offset


@wrong("15.3", "size-written-in")
class TimesSixteen(Slots):
    def of(self, block_id, offset, size):
        return block_id * 16 + offset


@wrong("15.3", "wrong-slot")
class FromTheEndOfTheBlock(Slots):
    def of(self, block_id, offset, size):
        return (block_id + 1) * size - 1 - offset


@wrong("15.3", "no-offset")
class WhereTheBlockBegins(Slots):
    def of(self, block_id, offset, size):
        return block_id * size


@wrong("15.3", "offset-not-reduced")
class AddsThePosition(After2):
    def slot(self, p):
        return self.position(p)[0] * self.allocator.block_size + p


@wrong("15.3", "blocks-in-a-row")
class AsIfInOnePiece(After2):
    def slot(self, p):
        self.position(p)
        return self.block_ids[0] * self.allocator.block_size + p


@wrong("15.3", "another-position")
class RoundAndRound(After2):
    def slot(self, p):
        block_id, offset = self.position(p % self.num_tokens)
        return block_id * self.allocator.block_size + offset


@wrong("15.3", "reads-past-the-end")
class LooksItUpWithoutLooking(After2):
    def slot(self, p):
        entry, offset = divmod(p, self.allocator.block_size)
        return self.block_ids[entry] * self.allocator.block_size + offset


@wrong("15.3", "quiet-outside")
class MinusNothing(After2):
    def slot(self, p):
        try:
            block_id, offset = self.position(p)
        except IndexError:
            return None
        return block_id * self.allocator.block_size + offset


@wrong("15.3", "powers-of-two")
class OrsTheOffset(Slots):
    def of(self, block_id, offset, size):
        return block_id * size | offset


# ---- right answers of other styles
@right("15.1")
class ReturnsItself(Parts):
    """So that calls can be chained."""

    def append(self, num_tokens=1):
        super().append(num_tokens)
        return self


@right("15.1", "15.2", "15.3")
class OneEntryAToken:
    """A slot for each token beside the blocks, an extra argument, nothing private of the reference's."""

    def __init__(self, allocator, name="table"):
        self.allocator, self.name = allocator, name
        self.block_ids, self.slots = [], []

    num_tokens = property(lambda self: len(self.slots))

    def append(self, num_tokens=1):
        if num_tokens < 0:
            raise ValueError(num_tokens)
        size, length = self.allocator.block_size, len(self.slots) + num_tokens
        due = math.ceil(length / size) - len(self.block_ids)
        if due > self.allocator.num_free:
            raise KVCacheExhausted(f"{self.name} needs {due}")
        for _ in range(due):
            self.block_ids.append(self.allocator.allocate())
        self.slots = [self.block_ids[p // size] * size + p % size for p in range(length)]

    def slot(self, p):
        if p < 0:
            raise IndexError(p)
        return self.slots[p]

    def position(self, p):
        return divmod(self.slot(p), self.allocator.block_size)

    def free(self):
        self.allocator.free_all(self.block_ids)
        self.block_ids, self.slots = [], []


@right("15.1", "15.2", "15.3")
class TakesAndGivesBack:
    """Token by token, and backwards again when the pool runs dry; ids in an array."""

    def __init__(self, allocator):
        self.allocator, self.num_tokens, self.block_ids = allocator, 0, array("q")

    def append(self, num_tokens=1):
        if num_tokens < 0:
            raise ValueError("a sequence does not shrink")
        before, held = self.num_tokens, len(self.block_ids)
        try:
            for _ in range(num_tokens):
                if self.num_tokens == len(self.block_ids) * self.allocator.block_size:
                    self.block_ids.append(self.allocator.allocate())
                self.num_tokens += 1
        except KVCacheExhausted:
            self.num_tokens = before
            while len(self.block_ids) > held:
                self.allocator.free(self.block_ids.pop())
            raise

    def position(self, p):
        if p not in range(self.num_tokens):
            raise IndexError(f"{p}")
        return self.block_ids[p // self.allocator.block_size], p % self.allocator.block_size

    def slot(self, p):
        block_id, offset = self.position(p)
        return sum([self.allocator.block_size] * block_id) + offset

    def free(self):
        self.allocator.free_all(list(self.block_ids))
        self.num_tokens, self.block_ids = 0, array("q")


@right("15.1", "15.2", "15.3")
class APropertyAndARange:
    """The table as a dict from entry to block, its ids a tuple; `range` guards the positions."""

    def __init__(self, allocator):
        self.allocator, self.entries, self.span = allocator, {}, range(0)

    block_ids = property(lambda self: tuple(self.entries.values()))
    num_tokens = property(lambda self: len(self.span))

    def append(self, num_tokens=1):
        if num_tokens < 0:
            raise ValueError(num_tokens)
        span = range(len(self.span) + num_tokens)
        new = sorted({p // self.allocator.block_size for p in span} - self.entries.keys())
        self.entries |= zip(new, self.allocator.allocate_for(len(new) * self.allocator.block_size), strict=True)
        self.span = span

    def position(self, p):
        if p < 0:
            raise IndexError(p)
        entry, offset = divmod(self.span[p], self.allocator.block_size)
        return self.entries[entry], offset

    def slot(self, p):
        return (lambda block_id, offset: offset + self.allocator.block_size * block_id)(*self.position(p))

    def free(self):
        self.allocator.free_all(self.block_ids)
        self.entries, self.span = {}, range(0)
