"""Day 14: allocators that people write."""

import heapq
import math
from collections import Counter, deque

from nanoserve.allocator import BlockAllocator, KVCacheExhausted
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


After1, After2, After3 = (find(task).stand_in() for task in ("14.1", "14.2", "14.3"))


# ---- 14.1: allocate and free
@wrong("14.1", "no-return")
class ForgetsToReturn(After1):
    def allocate(self):
        super().allocate()


@wrong("14.1", "hands-out-backwards")
class StackUpsideDown(After1):
    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self._free.reverse()


@wrong("14.1", "handed-out-twice")
class LooksInsteadOfTaking(After1):
    def allocate(self):
        block = self._free[-1]
        self._allocated.add(block)
        return block


@wrong("14.1", "a-list-for-an-id")
class ReturnsAListOfOne(After1):
    def allocate(self):
        return [super().allocate()]


@wrong("14.1", "not-an-int")
class AFloatForAnId(After1):
    def allocate(self):
        return float(super().allocate())


@wrong("14.1", "exhausted-too-soon")
class TakesBlockZeroForNone(After1):
    def allocate(self):
        block = self._free.pop() if self._free else None
        if not block:
            raise KVCacheExhausted("empty")
        self._allocated.add(block)
        return block


@wrong("14.1", "wrong-id")
class CountsFromOne(After1):
    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self._free = list(range(num_blocks, 0, -1))


@wrong("14.1", "count-of-free")
class CountsTheWholePoolAsFree(After1):
    num_free = property(lambda self: self.num_blocks)


@wrong("14.1", "not-marked-allocated")
class NeverMarks(After1):
    def allocate(self):
        if not self._free:
            raise KVCacheExhausted("empty")
        return self._free.pop()


@wrong("14.1", "sizes-changed")
class CountsDownNumBlocks(After1):
    def allocate(self):
        block = super().allocate()
        self.num_blocks -= 1
        return block

    def free(self, block_id):
        super().free(block_id)
        self.num_blocks += 1


@wrong("14.1", "bare-index-error")
class LetsTheListRaise(After1):
    def allocate(self):
        block = self._free.pop()
        self._allocated.add(block)
        self.peak_used = max(self.peak_used, len(self._allocated))
        return block


@wrong("14.1", "silent-exhaustion")
class ReturnsNoneWhenEmpty(After1):
    def allocate(self):
        return super().allocate() if self._free else None


@wrong("14.1", "another-exception")
class RaisesMemoryError(After1):
    def allocate(self):
        if not self._free:
            raise MemoryError("no block left")
        return super().allocate()


@wrong("14.1", "never-comes-back")
class ForgetsTheBlock(After1):
    def free(self, block_id):
        self._allocated.remove(block_id)


@wrong("14.1", "comes-back-twice")
class PushesItTwice(After1):
    def free(self, block_id):
        self._allocated.remove(block_id)
        self._free += [block_id, block_id]


@wrong("14.1", "list-on-the-stack")
class PushesAList(After1):
    def free(self, block_id):
        self._allocated.remove(block_id)
        self._free.append([block_id])


@wrong("14.1", "still-marked")
class KeepsTheMark(After1):
    def free(self, block_id):
        self._free.append(block_id)


@wrong("14.1", "queue")
class AQueue(After1):
    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self._free = deque(range(num_blocks))

    def allocate(self):
        if not self._free:
            raise KVCacheExhausted("empty")
        block = self._free.popleft()
        self._allocated.add(block)
        self.peak_used = max(self.peak_used, len(self._allocated))
        return block


@wrong("14.1", "lowest-first")
class AHeap(After1):
    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self._free = list(range(num_blocks))

    def allocate(self):
        if not self._free:
            raise KVCacheExhausted("empty")
        block = heapq.heappop(self._free)
        self._allocated.add(block)
        self.peak_used = max(self.peak_used, len(self._allocated))
        return block

    def free(self, block_id):
        self._allocated.remove(block_id)
        heapq.heappush(self._free, block_id)


@wrong("14.1", "not-last-in-first-out")
class OldestFreedFirst(After1):
    freed = frozenset()

    def free(self, block_id):
        self._allocated.remove(block_id)
        fresh = sum(block not in self.freed for block in self._free)
        self._free.insert(fresh, block_id)
        self.freed |= {block_id}


@wrong("14.1", "no-peak")
class NoPeak(After1):
    def allocate(self):
        block = super().allocate()
        self.peak_used = 0
        return block


@wrong("14.1", "peak-follows-used")
class PeakIsWhatIsUsedNow(After1):
    def free(self, block_id):
        super().free(block_id)
        self.peak_used = self.num_used


@wrong("14.1", "peak-counts-allocations")
class PeakCountsUp(After1):
    def allocate(self):
        peak = self.peak_used
        block = super().allocate()
        self.peak_used = peak + 1
        return block


@wrong("14.1", "shared-between-pools")
class ADefaultThatIsShared(After1):
    def __init__(self, num_blocks, block_size, shared={}):  # noqa: B006 - the fault itself
        super().__init__(num_blocks, block_size)
        if num_blocks == 2:
            self._free = shared.setdefault("free", self._free)


@wrong("14.1", "other")
class StartsAfreshWhenAllIsBack(After1):
    def free(self, block_id):
        super().free(block_id)
        if not self._allocated:
            self._free = list(reversed(range(self.num_blocks)))


# ---- 14.2: the double free
@wrong("14.2", "refuses-what-is-out")
class ConditionTheWrongWayRound(After1):
    def _require_allocated(self, block_ids):
        for block in block_ids:
            if block in self._allocated:
                raise ValueError(f"block {block} is not allocated")


@wrong("14.2", "seen-in-another-call")
class RemembersWhatItHasSeen(After1):
    seen = set()  # noqa: RUF012

    def _require_allocated(self, block_ids):
        for block in block_ids:
            if block not in self._allocated or block in self.seen:
                raise ValueError(f"block {block} cannot go back")
            self.seen.add(block)


@wrong("14.2", "list-as-an-id")
class LooksUpTheList(After1):
    def _require_allocated(self, block_ids):
        if block_ids not in self._allocated:
            raise ValueError(f"{block_ids} is not allocated")


@wrong("14.2", "number-for-a-list")
class HandsTheGuardANumber(After2):
    def free(self, block_id):
        self._require_allocated(block_id)
        super().free(block_id)


@wrong("14.2", "past-the-guard")
class PrintsAndLetsItPass(After1):
    def _require_allocated(self, block_ids):
        for block in block_ids:
            if block not in self._allocated:
                print(f"block {block} is not allocated")


@wrong("14.2", "still-marked")
class FreesOnlyHalf(After1):
    def free(self, block_id):
        self._require_allocated([block_id])
        self._free.append(block_id)


@wrong("14.2", "double-free-accepted")
class LooksAtTheRangeOnly(After1):
    def _require_allocated(self, block_ids):
        for block in block_ids:
            if not 0 <= block < self.num_blocks:
                raise ValueError(f"block {block} is no block")

    def free(self, block_id):
        self._require_allocated([block_id])
        self._allocated.discard(block_id)
        self._free.append(block_id)


@wrong("14.2", "guard-not-called")
class HasTheGuardAndDoesNotAsk(After2):
    def free(self, block_id):
        self._allocated.discard(block_id)
        self._free.append(block_id)


@wrong("14.2", "ignored-quietly")
class ReturnsInsteadOfRaising(After1):
    def free(self, block_id):
        if block_id in self._allocated:
            super().free(block_id)


@wrong("14.2", "assert-for-an-error")
class Asserts(After1):
    def _require_allocated(self, block_ids):
        for block in block_ids:
            assert block in self._allocated, f"block {block} is not allocated"


@wrong("14.2", "wrong-error-type")
class LetsTheSetRaise(After1):
    def _require_allocated(self, block_ids):
        left = set(self._allocated)
        for block in block_ids:
            left.remove(block)


@wrong("14.2", "changed-before-refusal")
class MovesAndThenLooks(After1):
    def free(self, block_id):
        known = block_id in self._allocated
        self._allocated.discard(block_id)
        self._free.append(block_id)
        if not known:
            raise ValueError(f"block {block_id} is not allocated")


@wrong("14.2", "only-the-last-freed")
class LooksAtTheTopOnly(After1):
    def _require_allocated(self, block_ids):
        if self._free and self._free[-1] in block_ids:
            raise ValueError(f"block {self._free[-1]} is free already")

    def free(self, block_id):
        self._require_allocated([block_id])
        self._allocated.discard(block_id)
        self._free.append(block_id)


@wrong("14.2", "unknown-id-accepted")
class LooksAmongTheFreeOnly(After1):
    def _require_allocated(self, block_ids):
        for block in block_ids:
            if block in self._free:
                raise ValueError(f"block {block} is free already")


@wrong("14.2", "unnamed-block")
class NamesNoBlock(After1):
    def _require_allocated(self, block_ids):
        if not set(block_ids) <= self._allocated or len(set(block_ids)) < len(block_ids):
            raise ValueError("double free")


@wrong("14.2", "duplicate-in-list")
class OneIdAtATime(After1):
    def _require_allocated(self, block_ids):
        for block in block_ids:
            if block not in self._allocated:
                raise ValueError(f"block {block} is not allocated")


@wrong("14.2", "first-of-list-only")
class ReturnsAfterTheFirst(After1):
    def _require_allocated(self, block_ids):
        if len(set(block_ids)) < len(block_ids):
            raise ValueError(f"an id stands twice in {block_ids}")
        for block in block_ids:
            if block in self._allocated:
                return
            raise ValueError(f"block {block} is not allocated")


@wrong("14.2", "guard-moves-blocks")
class TheGuardRemovesToo(After1):
    def _require_allocated(self, block_ids):
        for block in block_ids:
            if block not in self._allocated:
                raise ValueError(f"block {block} is not allocated")
            self._allocated.remove(block)


@wrong("14.2", "unnamed-duplicate")
class NamesNoDuplicate(After1):
    def _require_allocated(self, block_ids):
        if len(set(block_ids)) < len(block_ids):
            raise ValueError("duplicate ids")
        for block in block_ids:
            if block not in self._allocated:
                raise ValueError(f"block {block} is not allocated")


@wrong("14.2", "guard-changes-the-list")
class EmptiesTheListItLooksAt(After1):
    def _require_allocated(self, block_ids):
        while block_ids:
            block = block_ids.pop()
            if block not in self._allocated or block in block_ids:
                raise ValueError(f"block {block} cannot go back")


# ---- 14.3: all the blocks or none
@wrong("14.3", "no-return")
class TakesAndReturnsNothing(After2):
    def allocate_for(self, num_tokens):
        for _ in range(-(-num_tokens // self.block_size)):
            self.allocate()


@wrong("14.3", "not-a-list")
class ReturnsHowMany(After2):
    def allocate_for(self, num_tokens):
        needed = -(-num_tokens // self.block_size)
        for _ in range(needed):
            self.allocate()
        return needed


@wrong("14.3", "not-ids")
class ForgetsTheBrackets(After2):
    def allocate_for(self, num_tokens):
        return [self.allocate for _ in range(-(-num_tokens // self.block_size))]


@wrong("14.3", "one-block-again")
class CopiesOneBlock(After2):
    def allocate_for(self, num_tokens):
        return [self.allocate()] * -(-num_tokens // self.block_size)


@wrong("14.3", "one-block-only")
class ReturnsInsideTheLoop(After2):
    def allocate_for(self, num_tokens):
        blocks = []
        for _ in range(-(-num_tokens // self.block_size)):
            blocks.append(self.allocate())
            return blocks
        return blocks


@wrong("14.3", "list-kept")
class AListByDefault(After2):
    def allocate_for(self, num_tokens, blocks=[]):  # noqa: B006
        for _ in range(-(-num_tokens // self.block_size)):
            blocks.append(self.allocate())
        return blocks


@wrong("14.3", "floor")
class Floor(After2):
    def allocate_for(self, num_tokens):
        return [self.allocate() for _ in range(num_tokens // self.block_size)]


@wrong("14.3", "one-too-many")
class FloorPlusOne(After2):
    def allocate_for(self, num_tokens):
        return [self.allocate() for _ in range(num_tokens // self.block_size + 1)]


@wrong("14.3", "rounded")
class Rounded(After2):
    def allocate_for(self, num_tokens):
        return [self.allocate() for _ in range(int(num_tokens / self.block_size + 0.5))]


@wrong("14.3", "tokens-for-blocks")
class ABlockAToken(After2):
    def allocate_for(self, num_tokens):
        return [self.allocate() for _ in range(min(num_tokens, self.num_free))]


@wrong("14.3", "wrong-count")
class TwoBlocksMoreForTheRoad(After2):
    def allocate_for(self, num_tokens):
        return [self.allocate() for _ in range(-(-num_tokens // self.block_size) + 2)]


@wrong("14.3", "not-in-order")
class ReturnsThemBackwards(After2):
    def allocate_for(self, num_tokens):
        return [self.allocate() for _ in range(-(-num_tokens // self.block_size))][::-1]


@wrong("14.3", "one-list-for-all")
class KeepsOneList(After2):
    def allocate_for(self, num_tokens):
        self.out = getattr(self, "out", [])
        self.out[:] = BlockAllocator.allocate_for(self, num_tokens)
        return self.out


@wrong("14.3", "blocks-lost")
class TakesOneMoreThanItReturns(After2):
    def allocate_for(self, num_tokens):
        needed = -(-num_tokens // self.block_size)
        return [self.allocate() for _ in range(needed + 1)][:needed]


@wrong("14.3", "block-size-fixed")
class SixteenInTheCode(After3):
    def allocate_for(self, num_tokens):
        return super().allocate_for(num_tokens * self.block_size // 16)


@wrong("14.3", "peak-not-kept")
class TakesThemPastAllocate(After2):
    def allocate_for(self, num_tokens):
        if num_tokens < 0:
            raise ValueError(num_tokens)
        needed = -(-num_tokens // self.block_size)
        if needed > self.num_free:
            raise KVCacheExhausted(needed)
        taken = [self._free.pop() for _ in range(needed)]
        self._allocated.update(taken)
        return taken


@wrong("14.3", "zero-refused")
class RefusesNoTokens(After3):
    def allocate_for(self, num_tokens):
        if num_tokens <= 0:
            raise ValueError(num_tokens)
        return super().allocate_for(num_tokens)


@wrong("14.3", "zero-takes-one")
class AtLeastOne(After3):
    def allocate_for(self, num_tokens):
        return super().allocate_for(max(1, num_tokens))


@wrong("14.3", "no-list-for-none")
class NothingForNoTokens(After3):
    def allocate_for(self, num_tokens):
        return super().allocate_for(num_tokens) if num_tokens else None


@wrong("14.3", "negative-accepted")
class NoGuardAtTheDoor(After3):
    def allocate_for(self, num_tokens):
        return super().allocate_for(max(0, num_tokens))


@wrong("14.3", "wrong-error-type")
class AssertsAtTheDoor(After3):
    def allocate_for(self, num_tokens):
        assert num_tokens >= 0
        return super().allocate_for(num_tokens)


@wrong("14.3", "refuses-exact-fit")
class GreaterOrEqual(After3):
    def allocate_for(self, num_tokens):
        if num_tokens and -(-num_tokens // self.block_size) >= self.num_free:
            raise KVCacheExhausted("not enough")
        return super().allocate_for(num_tokens)


@wrong("14.3", "tokens-against-blocks")
class ComparesTokensWithBlocks(After3):
    def allocate_for(self, num_tokens):
        if num_tokens > self.num_free:
            raise KVCacheExhausted("not enough")
        return super().allocate_for(num_tokens)


@wrong("14.3", "refuses-what-fits")
class TheSignTheWrongWayRound(After3):
    def allocate_for(self, num_tokens):
        if -(-num_tokens // self.block_size) < self.num_free:
            raise KVCacheExhausted("not enough")
        return super().allocate_for(num_tokens)


@wrong("14.3", "partial")
class TakesUntilItFails(After3):
    def allocate_for(self, num_tokens):
        if num_tokens < 0:
            raise ValueError(num_tokens)
        return [self.allocate() for _ in range(-(-num_tokens // self.block_size))]


@wrong("14.3", "returns-what-there-is")
class TakesWhatThereIs(After3):
    def allocate_for(self, num_tokens):
        return super().allocate_for(min(num_tokens, self.num_free * self.block_size))


@wrong("14.3", "another-exception")
class RaisesValueErrorWhenEmpty(After3):
    def allocate_for(self, num_tokens):
        if num_tokens > self.num_free * self.block_size:
            raise ValueError("too many")
        return super().allocate_for(num_tokens)


@wrong("14.3", "order-changed")
class PutsThemBackInTheSameOrder(After3):
    def allocate_for(self, num_tokens):
        if num_tokens < 0:
            raise ValueError(num_tokens)
        taken = []
        try:
            for _ in range(-(-num_tokens // self.block_size)):
                taken.append(self.allocate())
        except KVCacheExhausted:
            for block in taken:
                self.free(block)
            raise
        return taken


# ---- 14.4: a whole sequence goes back
@wrong("14.4", "frees-everyone")
class FreesThePool(After3):
    def free_all(self, block_ids):
        for block in list(self._allocated):
            self.free(block)


@wrong("14.4", "peak-lowered")
class SetsThePeakAnew(After3):
    def free_all(self, block_ids):
        BlockAllocator.free_all(self, block_ids)
        self.peak_used = self.num_used


@wrong("14.4", "frees-nothing")
class UsesUpTheIterator(After3):
    def free_all(self, block_ids):
        block_ids = iter(block_ids)
        self._require_allocated(list(block_ids))
        for block in block_ids:
            self.free(block)


@wrong("14.4", "still-marked")
class OnlyPushesThem(After3):
    def free_all(self, block_ids):
        block_ids = list(block_ids)
        self._require_allocated(block_ids)
        self._free.extend(block_ids)


@wrong("14.4", "list-in-list")
class PushesTheListItself(After3):
    def free_all(self, block_ids):
        block_ids = list(block_ids)
        self._require_allocated(block_ids)
        self._free.append(block_ids)
        self._allocated.difference_update(block_ids)


@wrong("14.4", "sorted")
class InOrderOfTheirIds(After3):
    def free_all(self, block_ids):
        block_ids = sorted(block_ids)
        self._require_allocated(block_ids)
        for block in block_ids:
            self.free(block)


@wrong("14.4", "one-left-behind")
class LeavesTheLast(After3):
    def free_all(self, block_ids):
        block_ids = list(block_ids)
        self._require_allocated(block_ids)
        for i in range(len(block_ids) - 1):
            self.free(block_ids[i])


@wrong("14.4", "wrong-blocks-freed")
class ReturnsAfterTheFirstOne(After3):
    def free_all(self, block_ids):
        block_ids = list(block_ids)
        self._require_allocated(block_ids)
        for block in block_ids:
            self.free(block)
            return


@wrong("14.4", "reverse-order")
class FromTheEnd(After3):
    def free_all(self, block_ids):
        block_ids = list(block_ids)
        self._require_allocated(block_ids)
        for block in reversed(block_ids):
            self.free(block)


@wrong("14.4", "wrong-order")
class ThroughASet(After3):
    def free_all(self, block_ids):
        block_ids = list(block_ids)
        self._require_allocated(block_ids)
        for block in sorted(block_ids, key=lambda block: (block % 2, block)):
            self.free(block)


@wrong("14.4", "half-way")
class OneAfterTheOther(After3):
    def free_all(self, block_ids):
        for block in block_ids:
            self.free(block)


@wrong("14.4", "duplicate-moved-first")
class ChecksOneAtATimeAndThenFrees(After3):
    def free_all(self, block_ids):
        block_ids = list(block_ids)
        for block in block_ids:
            self._require_allocated([block])
        for block in block_ids:
            self.free(block)


@wrong("14.4", "duplicate-dropped")
class DropsDuplicates(After3):
    def free_all(self, block_ids):
        block_ids = list(dict.fromkeys(block_ids))
        self._require_allocated(block_ids)
        for block in block_ids:
            self.free(block)


@wrong("14.4", "skips-bad")
class SkipsWhatItDoesNotKnow(After3):
    def free_all(self, block_ids):
        for block in list(block_ids):
            if block in self._allocated:
                self.free(block)


@wrong("14.4", "pushes-bad")
class MovesTheListAsItIs(After3):
    def free_all(self, block_ids):
        self._allocated -= set(block_ids)
        self._free.extend(block_ids)


@wrong("14.4", "refuses-what-is-out")
class AsksTheGuardAfterwards(After3):
    def free_all(self, block_ids):
        block_ids = list(block_ids)
        for block in block_ids:
            self.free(block)
        self._require_allocated(block_ids)


@wrong("14.4", "unnamed-block")
class ChecksWithoutAName(After3):
    def free_all(self, block_ids):
        block_ids = list(block_ids)
        if len(set(block_ids)) < len(block_ids) or not set(block_ids) <= self._allocated:
            raise ValueError("bad list")
        for block in block_ids:
            self.free(block)


@wrong("14.4", "emptied-callers-list")
class PopsFromTheCallersList(After3):
    def free_all(self, block_ids):
        self._require_allocated(block_ids)
        while block_ids:
            self.free(block_ids.pop(0))


@wrong("14.4", "iterator-used-up")
class ReadsItTwice(After3):
    def free_all(self, block_ids):
        self._require_allocated(block_ids)
        for block in block_ids:
            self.free(block)


# ---- right answers of other styles
@right("14.1", "14.2", "14.3", "14.4")
class DequeAndFlags:
    """A deque as the stack, a flag per block, nothing of the reference's names."""

    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size, self.peak_used = num_blocks, block_size, 0
        self.stack = deque(range(num_blocks))
        self.out = [False] * num_blocks

    num_free = property(lambda self: len(self.stack))
    num_used = property(lambda self: sum(self.out))

    def allocate(self):
        try:
            block = self.stack.popleft()
        except IndexError:
            raise KVCacheExhausted("all blocks are in use") from None
        self.out[block] = True
        self.peak_used = max(self.peak_used, self.num_used)
        return block

    def free(self, block_id):
        self.free_all([block_id])

    def allocate_for(self, num_tokens):
        if num_tokens < 0:
            raise ValueError(f"{num_tokens} tokens")
        if math.ceil(num_tokens / self.block_size) > len(self.stack):
            raise KVCacheExhausted("too few")
        return [self.allocate() for _ in range(math.ceil(num_tokens / self.block_size))]

    def free_all(self, block_ids):
        block_ids = tuple(block_ids)
        for block, times in Counter(block_ids).items():
            if times > 1 or not 0 <= block < self.num_blocks or not self.out[block]:
                raise ValueError(f"block {block} cannot go back")
        for block in block_ids:
            self.out[block] = False
            self.stack.appendleft(block)


@right("14.1", "14.2", "14.3", "14.4")
class LinkedList:
    """The free blocks as a linked list in an array, as in C; `__slots__`; slices in place of loops."""

    __slots__ = ("block_size", "head", "next", "num_blocks", "num_free", "peak_used")
    USED, END = -2, -1

    def __init__(self, num_blocks, block_size):
        self.num_blocks = self.num_free = num_blocks
        self.block_size, self.head, self.peak_used = block_size, 0, 0
        self.next = [*range(1, num_blocks), self.END]

    @property
    def num_used(self):
        return self.num_blocks - self.num_free

    def allocate(self):
        if self.head == self.END:
            raise KVCacheExhausted("empty")
        block, self.head = self.head, self.next[self.head]
        self.next[block] = self.USED
        self.num_free -= 1
        self.peak_used = max(self.peak_used, self.num_used)
        return block

    def allocate_for(self, num_tokens):
        if num_tokens < 0:
            raise ValueError(num_tokens)
        needed = (num_tokens + self.block_size - 1) // self.block_size
        if needed > self.num_free:
            raise KVCacheExhausted(f"{needed} > {self.num_free}")
        return [self.allocate() for _ in range(needed)]

    def free(self, block_id):
        if block_id not in range(self.num_blocks) or self.next[block_id] != self.USED:
            raise ValueError(f"{block_id} is not out")
        self.next[block_id], self.head = self.head, block_id
        self.num_free += 1

    def _require_allocated(self, block_ids):
        for place, block in enumerate(block_ids):
            if block not in range(self.num_blocks) or self.next[block] != self.USED or block in block_ids[:place]:
                raise ValueError(f"{block} is not out, or named twice, in {block_ids}")

    def free_all(self, block_ids):
        block_ids = list(block_ids)
        self._require_allocated(block_ids)
        for block in block_ids:
            self.free(block)


@right("14.1", "14.2", "14.3", "14.4")
class SlicesOffTheStack(BlockAllocator):
    """Takes and returns whole slices of the stack, an extra argument with a default, another guard."""

    def __init__(self, num_blocks, block_size, name="pool"):
        super().__init__(num_blocks, block_size)
        self.name = name

    def allocate(self):
        return self.allocate_for(1)[0]

    def allocate_for(self, num_tokens):
        needed, rest = divmod(num_tokens, self.block_size)
        needed += rest > 0
        if num_tokens < 0:
            raise ValueError(f"{self.name}: {num_tokens}")
        if needed > len(self._free):
            raise KVCacheExhausted(f"{self.name}: {needed}")
        if needed == 0:
            return []
        taken = self._free[-needed:][::-1]
        del self._free[-needed:]
        self._allocated.update(taken)
        self.peak_used = max(self.peak_used, len(self._allocated))
        return taken

    def free_all(self, block_ids):
        block_ids = list(block_ids)
        if bad := [block for block in block_ids if block not in self._allocated or block_ids.count(block) > 1]:
            raise ValueError(f"{self.name}: {bad}")
        self._allocated.difference_update(block_ids)
        self._free.extend(block_ids)


@right("14.1")
class PlainListsWithoutAGuard:
    """Task 14.1 as a first try that works: two lists."""

    def __init__(self, num_blocks, block_size):
        self.free_blocks = list(range(num_blocks))
        self.used_blocks = []
        self.peak_used = 0

    num_free = property(lambda self: len(self.free_blocks))
    num_used = property(lambda self: len(self.used_blocks))

    def allocate(self):
        if len(self.free_blocks) == 0:
            raise KVCacheExhausted
        self.used_blocks.insert(0, self.free_blocks.pop(0))
        if self.num_used > self.peak_used:
            self.peak_used = self.num_used
        return self.used_blocks[0]

    def free(self, block_id):
        self.used_blocks.remove(block_id)
        self.free_blocks.insert(0, block_id)
