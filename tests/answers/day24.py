"""Day 24: slots, schedulers and engines that people write."""

from collections import deque

import numpy as np
import torch

import nanoserve
from nanoserve.prefill import PrefillCache, left_pad
from tests.answers import Right, Wrong

WRONG: list[Wrong] = []
ALIKE: list[Wrong] = []  # other ways into a slip that somebody is told already
RIGHT: list[Right] = []
reference = nanoserve.Scheduler


def wrong(task, slip):
    def keep(answer):
        WRONG.append(Wrong(task, slip, answer))
        return answer

    return keep


def alike(task, slip):
    def keep(answer):
        ALIKE.append(Wrong(task, slip, answer))
        return answer

    return keep


def right(task):
    def keep(answer):
        RIGHT.append(Right(task, answer))
        return answer

    return keep


# ---- 24.1: room for all, or for none
class Room(nanoserve.Slots):
    """The reference in pieces, each of which a wrong answer gets wrong."""

    def due(self, slot):
        return self._blocks_for(self.lengths[slot] + 1) - len(self.tables[slot].block_ids)

    def _blocks_due(self):
        return sum(self.due(slot) for slot in self.tables)

    def fits(self):
        return self.seq_len < self.max_len and self._blocks_due() <= self.allocator.num_free

    def grow(self, slot):
        self._grow(slot, self.lengths[slot] + 1)

    def reserve_step(self):
        if not self.fits():
            return False
        for slot in self.tables:
            self.grow(slot)
        return True


right("24.1")(Room)


@wrong("24.1", "a-token-early")
class WhenATokenFillsIt(Room):
    def due(self, slot):
        return int((self.lengths[slot] + 1) % self.allocator.block_size == 0)


@wrong("24.1", "a-token-late")
class WhenItIsPast(Room):
    def due(self, slot):
        return int(self.lengths[slot] % self.allocator.block_size == 1)


@wrong("24.1", "held-counted-too")
class AllItsBlocks(Room):
    def due(self, slot):
        return self._blocks_for(self.lengths[slot] + 1)


@wrong("24.1", "always-one")
class OneForEachToken(Room):
    def due(self, slot):
        return 1


@wrong("24.1", "due-not-returned")
class CountsInSilence(Room):
    def _blocks_due(self):
        sum(self.due(slot) for slot in self.tables)


@wrong("24.1", "other-due")
class NothingIsEverDue(Room):
    def due(self, slot):
        return 0


@wrong("24.1", "due-is-no-int")
class InFloats(Room):
    def due(self, slot):
        blocks = -(-(self.lengths[slot] + 1) // float(self.allocator.block_size))
        return blocks - len(self.tables[slot].block_ids)


@alike("24.1", "due-is-no-int")
class InATensor(Room):
    def _blocks_due(self):
        return torch.tensor([self.due(slot) for slot in self.tables], dtype=torch.long).sum()


@alike("24.1", "due-is-no-int")
class NobodyAddsThem(Room):
    def _blocks_due(self):
        return (self.due(slot) for slot in self.tables)


@wrong("24.1", "slots-counted-through")
class CountsTheSlotsThrough(Room):
    def reserve_step(self):
        if room := self.fits():
            for slot in range(len(self.tables)):
                self.grow(slot)
        return room


@alike("24.1", "slots-counted-through")
class GrowsTheFirstTwo(Room):
    def grow(self, slot):
        if slot in list(self.tables)[:2]:
            super().grow(slot)


@wrong("24.1", "not-block-for-block")
class ComparesWithTokens(Room):
    def fits(self):
        room = self.allocator.num_free * self.allocator.block_size
        return self.seq_len < self.max_len and self._blocks_due() <= room


@wrong("24.1", "size-written-down")
class BlocksOfFour(Room):
    def due(self, slot):
        return -(-(self.lengths[slot] + 1) // 4) - len(self.tables[slot].block_ids)


@wrong("24.1", "grows-by-a-step")
class GrowsByOne(Room):
    def grow(self, slot):
        self._grow(slot, 1)


@alike("24.1", "not-true-itself")
class AnswersInNumPy(Room):
    def reserve_step(self):
        return np.bool_(super().reserve_step())


@alike("24.1", "not-false-itself")
class SaysNoInNumPy(Room):
    def reserve_step(self):
        return super().reserve_step() or np.False_


@alike("24.1", "no-with-room")
class SaysWhatIsDue(Room):
    def reserve_step(self):
        return super().reserve_step() and self._blocks_due()


@alike("24.1", "due-twice")
class ByTheTablesTokens(Room):
    def due(self, slot):
        table = self.tables[slot]
        return self._blocks_for(table.num_tokens + 1) - len(table.block_ids)


@alike("24.1", "due-twice")
class KeepsTheCount(Room):
    def _blocks_due(self):
        self.kept = getattr(self, "kept", None) or super()._blocks_due()
        return self.kept


@wrong("24.1", "tokens-pooled")
class OneSumForAll(Room):
    def _blocks_due(self):
        held = sum(len(table.block_ids) for table in self.tables.values())
        return self._blocks_for(sum(self.lengths) + len(self.tables)) - held


@wrong("24.1", "longest-only")
class TheLongest(Room):
    def _blocks_due(self):
        return self.due(max(self.tables, key=lambda slot: self.lengths[slot]))


@wrong("24.1", "whether-and-not-how-many")
class WhetherAny(Room):
    def _blocks_due(self):
        return any(self.due(slot) for slot in self.tables)


@wrong("24.1", "other-sum")
class TheOldestTwice(Room):
    def _blocks_due(self):
        first, *others = self.tables
        return self.due(first) * (2 if others else 1) + sum(map(self.due, others))


@wrong("24.1", "idle-has-no-table")
class EverySlotsTable(Room):
    def _blocks_due(self):
        return sum(self.due(slot) for slot in range(self.num_slots))


@wrong("24.1", "idle-counted")
class EverySlotsLength(Room):
    def _blocks_due(self):
        held = sum(len(table.block_ids) for table in self.tables.values())
        return sum(self._blocks_for(length + 1) for length in self.lengths) - held


@wrong("24.1", "nothing-said")
class SaysNothing(Room):
    def reserve_step(self):
        return None if super().reserve_step() else False


@wrong("24.1", "no-with-room")
class TurnedRound(Room):
    def reserve_step(self):
        return not super().reserve_step()


@wrong("24.1", "nothing-taken")
class OnlyAsks(Room):
    def reserve_step(self):
        return self.fits()


@wrong("24.1", "a-block-each")
class GrowsByABlock(Room):
    def grow(self, slot):
        self._grow(slot, self.lengths[slot] + self.allocator.block_size)


@wrong("24.1", "other-blocks")
class GrowsByTwoBlocks(Room):
    def grow(self, slot):
        if self.due(slot):
            self._grow(slot, self.lengths[slot] + 1 + self.allocator.block_size)


@wrong("24.1", "keeps-one-back")
class OneInReserve(Room):
    def fits(self):
        due = self._blocks_due()
        return self.seq_len < self.max_len and (not due or due < self.allocator.num_free)


@wrong("24.1", "full-pool-refused")
class OneForEachSequence(Room):
    def fits(self):
        return self.seq_len < self.max_len and len(self.tables) <= self.allocator.num_free


@wrong("24.1", "never-asks")
class JustGrows(Room):
    def fits(self):
        return True


@wrong("24.1", "no-is-not-said")
class FallsOffTheEnd(Room):
    def reserve_step(self):
        return super().reserve_step() or None


@wrong("24.1", "yes-without-room")
class YesToEverything(Room):
    def reserve_step(self):
        super().reserve_step()
        return True


@wrong("24.1", "each-asked-alone")
class AsksForEach(Room):
    def fits(self):
        return self.seq_len < self.max_len and all(self.due(slot) <= self.allocator.num_free for slot in self.tables)


@wrong("24.1", "yes-to-some")
class AsManyAsThereAre(Room):
    def fits(self):
        return self.seq_len < self.max_len and (not self._blocks_due() or self.allocator.num_free > 0)

    def grow(self, slot):
        if self.due(slot) <= self.allocator.num_free:
            super().grow(slot)


@wrong("24.1", "taken-for-some")
class TriesAndSees(Room):
    def reserve_step(self):
        if self.seq_len == self.max_len:
            return False
        try:
            for slot in self.tables:
                self.grow(slot)
        except nanoserve.KVCacheExhausted:
            return False
        return True


@wrong("24.1", "taken-again")
class OneMoreEachTime(Room):
    def grow(self, slot):
        self.tables[slot].append(1)


@wrong("24.1", "due-twice")
class ByTheRemainder(Room):
    def due(self, slot):
        return int(self.lengths[slot] % self.allocator.block_size == 0)


@wrong("24.1", "counted-too-early")
class AdvancesToo(Room):
    def reserve_step(self):
        there_was_room = super().reserve_step()
        if there_was_room and max(self.lengths) > 4:
            self.advance()
        return there_was_room


@wrong("24.1", "past-its-row")
class BlocksAlone(Room):
    def fits(self):
        return self._blocks_due() <= self.allocator.num_free


@wrong("24.1", "a-token-short")
class ATokenBeforeTheEnd(Room):
    def fits(self):
        return self.seq_len + 1 < self.max_len and self._blocks_due() <= self.allocator.num_free


@wrong("24.1", "device-not-told")
class ByTheTable(Room):
    def grow(self, slot):
        table = self.tables[slot]
        table.append(self.lengths[slot] + 1 - table.num_tokens)


@wrong("24.1", "longest-for-all")
class AllAsTheLongest(Room):
    def due(self, slot):
        return self._blocks_for(self.seq_len + 1) - len(self.tables[slot].block_ids)


@wrong("24.1", "taken-by-counting")
class CountsAndTakes(Room):
    def _blocks_due(self):
        blocks = super()._blocks_due()
        if blocks <= self.allocator.num_free:
            for slot in self.tables:
                self.grow(slot)
        return blocks


@wrong("24.1", "lengths-by-place")
class SideBySide(Room):
    def _blocks_due(self):
        pairs = zip(self.lengths, self.tables.values(), strict=False)
        return sum(self._blocks_for(length + 1) - len(table.block_ids) for length, table in pairs)


@wrong("24.1", "not-true-itself")
class AnswersInNumbers(Room):
    def reserve_step(self):
        return int(super().reserve_step())


@wrong("24.1", "not-false-itself")
class ZeroForNo(Room):
    def reserve_step(self):
        return super().reserve_step() or 0


@wrong("24.1", "not-for-all")
class ReturnsInTheLoop(Room):
    def reserve_step(self):
        if not self.fits():
            return False
        for slot in self.tables:
            self.grow(slot)
            return True
        return True


@alike("24.1", "not-for-all")
class BreaksTheLoop(Room):
    def reserve_step(self):
        if not self.fits():
            return False
        for slot in self.tables:
            self.grow(slot)
            break
        return True


@alike("24.1", "not-for-all")
class GrowsTheFirst(Room):
    def reserve_step(self):
        if not self.fits():
            return False
        for slot in list(self.tables)[:1]:
            self.grow(slot)
        return True


@wrong("24.1", "idle-refused")
class NobodyIsRefused(Room):
    def fits(self):
        return bool(self.tables) and super().fits()


@wrong("24.1", "longest-of-none")
class TheLongestThatRuns(Room):
    def fits(self):
        longest = max(self.lengths[slot] for slot in self.tables)
        return longest < self.max_len and self._blocks_due() <= self.allocator.num_free


@alike("24.1", "never-asks")
class AsksForTheUsed(Room):
    def fits(self):
        return self.seq_len < self.max_len and self._blocks_due() <= self.allocator.num_used


@alike("24.1", "never-asks")
class AsksForThePool(Room):
    def fits(self):
        return self.seq_len < self.max_len and self._blocks_due() <= self.allocator.num_blocks


@alike("24.1", "never-asks")
class BothReasonsAtOnce(Room):
    def fits(self):
        return not (self.seq_len == self.max_len and self._blocks_due() > self.allocator.num_free)


@wrong("24.1", "raised-for-no")
class RaisesForNo(Room):
    def reserve_step(self):
        if not self.fits():
            raise nanoserve.KVCacheExhausted("no room for another token")
        return super().reserve_step()


@wrong("24.1", "given-away")
class RollsBackByRelease(Room):
    def reserve_step(self):
        grown = []
        try:
            for slot in self.tables:
                self.grow(slot)
                grown.append(slot)
        except nanoserve.KVCacheExhausted:
            for slot in grown:
                self.release(slot)
            return False
        return True


@alike("24.1", "counted-too-early")
class CountsAndGrows(Room):
    def grow(self, slot):
        self.lengths[slot] += 1
        self._grow(slot, self.lengths[slot])


@alike("24.1", "nothing-taken")
class OnlyCountsTheTokens(Room):
    def grow(self, slot):
        self.lengths[slot] += 1


@wrong("24.1", "one-length-asked")
class TheFirstSlotsEnd(Room):
    def fits(self):
        return self.lengths[0] != self.max_len and self._blocks_due() <= self.allocator.num_free


@alike("24.1", "one-length-asked")
class TheLastTablesEnd(Room):
    def fits(self):
        last = next(reversed(self.tables), 0)
        return self.lengths[last] != self.max_len and self._blocks_due() <= self.allocator.num_free


@wrong("24.1", "end-asked-in-the-loop")
class AsksEachForItsEnd(Room):
    def reserve_step(self):
        if self._blocks_due() > self.allocator.num_free:
            return False
        for slot in self.tables:
            if self.lengths[slot] == self.max_len:
                return False
            self.grow(slot)
        return True


@alike("24.1", "end-asked-in-the-loop")
class AsksBothInTheLoop(Room):
    def reserve_step(self):
        for slot in self.tables:
            if self.lengths[slot] == self.max_len or self._blocks_due() > self.allocator.num_free:
                return False
            self.grow(slot)
        return True


@wrong("24.1", "end-asked-too-late")
class AsksForTheEndAtTheEnd(Room):
    def reserve_step(self):
        if self._blocks_due() > self.allocator.num_free:
            return False
        for slot in self.tables:
            self.grow(slot)
        return self.seq_len < self.max_len


@right("24.1")
class AsItReads(nanoserve.Slots):
    """The rule in words: a sequence whose blocks are full to the last place needs another."""

    def _blocks_due(self):
        size = self.allocator.block_size
        full = [slot for slot, table in self.tables.items() if self.lengths[slot] == size * len(table.block_ids)]
        return len(full)

    def reserve_step(self):
        row_is_full = any(length >= self.max_len for length in self.lengths)
        there_is_room = not row_is_full and self.allocator.num_free >= self._blocks_due()
        if there_is_room:
            for slot, length in enumerate(self.lengths):
                if slot in self.tables:
                    self._grow(slot, length + 1)
        return there_is_room


@right("24.1")
class GrowsWhoMust(nanoserve.Slots):
    """Grows only those for whom a block is due."""

    def _due(self):
        return {
            slot: -(-(self.lengths[slot] + 1) // self.allocator.block_size) - len(table.block_ids)
            for slot, table in self.tables.items()
        }

    def _blocks_due(self):
        return sum(self._due().values())

    def reserve_step(self):
        due = self._due()
        if self.seq_len >= self.max_len or sum(due.values()) > self.allocator.num_free:
            return False
        for slot in [slot for slot, blocks in due.items() if blocks]:
            self._grow(slot, self.lengths[slot] + 1)
        return True


# ---- 24.2: the newest gives way
class Gives(nanoserve.Scheduler):
    """The reference in pieces."""

    def victim(self):
        return next(reversed(self.running.values()))

    def make_room(self):
        while not self.slots.reserve_step():
            self.preempt(self.victim())

    def release(self, request):
        self._release(request)

    def line_up(self, request):
        self.waiting.appendleft(request)

    def count(self):
        self.preemptions += 1

    def preempt(self, request):
        self.release(request)
        request.state = "waiting"
        self.line_up(request)
        self.count()


right("24.2")(Gives)


@wrong("24.2", "slot-forgotten-first")
class ForgetsTheSlot(Gives):
    def release(self, request):
        del self.running[request.slot]
        request.slot = None
        self.slots.release(request.slot)


@wrong("24.2", "nothing-released")
class StopsAndKeepsAll(Gives):
    def release(self, request):
        del self.running[request.slot]
        request.slot = None


@wrong("24.2", "blocks-kept")
class DropsTheTable(Gives):
    def release(self, request):
        self.slots.tables.pop(request.slot)
        del self.running[request.slot]
        request.slot = None


@wrong("24.2", "other-released")
class EmptiesAll(Gives):
    def release(self, request):
        self.slots.free()
        del self.running[request.slot]
        request.slot = None


@wrong("24.2", "still-running")
class ReleasesTheSlotAlone(Gives):
    def release(self, request):
        self.slots.release(request.slot)
        request.slot = None


@wrong("24.2", "others-stopped")
class ClearsTheRunning(Gives):
    def release(self, request):
        super().release(request)
        self.running.clear()


@wrong("24.2", "at-the-back")
class ToTheBack(Gives):
    def line_up(self, request):
        self.waiting.append(request)


@wrong("24.2", "in-no-line")
class Forgets(Gives):
    def line_up(self, request):
        pass


@wrong("24.2", "other-line")
class ANewLine(Gives):
    def line_up(self, request):
        self.waiting = deque([request])


@wrong("24.2", "still-called-running")
class KeepsTheState(Gives):
    def preempt(self, request):
        super().preempt(request)
        request.state = "running"


@wrong("24.2", "called-preempted")
class AStateOfItsOwn(Gives):
    def preempt(self, request):
        super().preempt(request)
        request.state = "preempted"


@wrong("24.2", "called-gone")
class AbortsIt(Gives):
    def preempt(self, request):
        super().preempt(request)
        request.state = "aborted"


@wrong("24.2", "slot-kept")
class RemembersItsSlot(Gives):
    def release(self, request):
        slot = request.slot
        super().release(request)
        request.slot = slot


@wrong("24.2", "forgotten")
class LeavesAndComesBack(Gives):
    def release(self, request):
        self.leave(request, "aborted")


@wrong("24.2", "text-thrown-away")
class ThrowsTheTextAway(Gives):
    def release(self, request):
        super().release(request)
        request.tokens.clear()


@wrong("24.2", "text-in-the-prompt")
class MovesTheText(Gives):
    def release(self, request):
        super().release(request)
        request.run.prompt.extend(request.tokens)
        request.tokens = []


@wrong("24.2", "text-changed")
class DropsTheNewestToken(Gives):
    def release(self, request):
        super().release(request)
        request.tokens[-1] -= 1


@wrong("24.2", "not-counted")
class CountsNothing(Gives):
    def count(self):
        pass


@wrong("24.2", "other-count")
class CountsTwice(Gives):
    def count(self):
        self.preemptions += 2


@wrong("24.2", "taken-out-first")
class PopsTheNewest(Gives):
    def victim(self):
        return self.running.popitem()[1]


@wrong("24.2", "nobody-left-to-go")
class AsksBeforeTheLoop(Gives):
    def make_room(self):
        there_is_room = self.slots.reserve_step()
        while not there_is_room:
            self.preempt(self.victim())


@alike("24.2", "nobody-left-to-go")
class TheConditionTurnedRound(Gives):
    def make_room(self):
        while self.slots.reserve_step():
            self.preempt([*self.running.values()][-1])


@wrong("24.2", "asks-for-another-number")
class AsksForTheRest(Gives):
    def release(self, request):
        super().release(request)
        request.run = request.run._replace(max_new_tokens=request.run.max_new_tokens - len(request.tokens))


@wrong("24.2", "without-need")
class PreemptsThenAsks(Gives):
    def make_room(self):
        self.preempt(self.victim())
        super().make_room()


@wrong("24.2", "never-reserves")
class OnlyCounts(Gives):
    def make_room(self):
        while self.slots._blocks_due() > self.slots.allocator.num_free:
            self.preempt(self.victim())


@wrong("24.2", "oldest-goes")
class TheOldest(Gives):
    def victim(self):
        return next(iter(self.running.values()))


@wrong("24.2", "highest-slot-goes")
class TheHighestSlot(Gives):
    def victim(self):
        return self.running[max(self.running)]


@wrong("24.2", "lowest-slot-goes")
class TheLowestSlot(Gives):
    def victim(self):
        return self.running[min(self.running)]


@wrong("24.2", "biggest-goes")
class TheBiggest(Gives):
    def victim(self):
        return max(self.running.values(), key=lambda request: self.slots.lengths[request.slot])


@wrong("24.2", "all-go")
class Everybody(Gives):
    def make_room(self):
        while not self.slots.reserve_step():
            for request in reversed(list(self.running.values())):
                self.preempt(request)


@wrong("24.2", "nobody-goes")
class AsksOnly(Gives):
    def make_room(self):
        self.slots.reserve_step()


@wrong("24.2", "other-victim")
class TwoAtATime(Gives):
    def make_room(self):
        while not self.slots.reserve_step():
            self.preempt(self.victim())
            self.preempt(self.victim())


@wrong("24.2", "not-asked-again")
class AsksOnce(Gives):
    def make_room(self):
        if not self.slots.reserve_step():
            self.preempt(self.victim())


@wrong("24.2", "one-only")
class OneAndNoMore(Gives):
    def make_room(self):
        if not self.slots.reserve_step():
            self.preempt(self.victim())
            self.slots.reserve_step()


@wrong("24.2", "too-many-go")
class AsManyAsBlocksAreMissing(Gives):
    def make_room(self):
        missing = self.slots._blocks_due() - self.slots.allocator.num_free
        for _ in range(missing):
            self.preempt(self.victim())
        self.slots.reserve_step()


@wrong("24.2", "newest-first")
class BehindTheOtherVictims(Gives):
    def line_up(self, request):
        self.waiting.insert(sum(bool(other.tokens) for other in self.waiting), request)


@wrong("24.2", "line-mixed")
class TurnsTheLineRound(Gives):
    def make_room(self):
        super().make_room()
        self.waiting.reverse()


@wrong("24.2", "last-one-kept")
class KeepsOne(Gives):
    def make_room(self):
        while not self.slots.reserve_step() and len(self.running) > 1:
            self.preempt(self.victim())


@wrong("24.2", "counted-again")
class CountsInBothPlaces(Gives):
    def make_room(self):
        while not self.slots.reserve_step():
            self.preempt(self.victim())
            self.preemptions += 1


@wrong("24.2", "line-is-no-deque")
class ALineOfItsOwn(Gives):
    def line_up(self, request):
        self.waiting = [request, *self.waiting]


@wrong("24.2", "counts-from-the-start")
class SetsTheCount(Gives):
    def count(self):
        self.preemptions = 1


@wrong("24.2", "last-id-goes")
class TheLastId(Gives):
    def victim(self):
        return max(self.running.values(), key=lambda request: request.id)


@alike("24.2", "lowest-slot-goes")
class TheFirstId(Gives):
    def victim(self):
        return min(self.running.values(), key=lambda request: request.id)


@wrong("24.2", "shortest-goes")
class TheShortest(Gives):
    def victim(self):
        return min(reversed(self.running.values()), key=lambda request: len(request.token_ids))


@alike("24.2", "shortest-goes")
class WhoHasSaidTheLeast(Gives):
    def victim(self):
        return min(reversed(self.running.values()), key=lambda request: len(request.tokens))


@wrong("24.2", "only-so-many-tries")
class ThreeTries(Gives):
    def make_room(self):
        for _ in range(3):
            if self.slots.reserve_step():
                break
            self.preempt(self.victim())


@wrong("24.2", "by-their-ids")
class SortsTheLine(Gives):
    def make_room(self):
        super().make_room()
        self.waiting = deque(sorted(self.waiting, key=lambda request: request.id))


@wrong("24.2", "preempted-by-hand")
class PreemptsInPlace(Gives):
    def make_room(self):
        while not self.slots.reserve_step():
            newest = self.victim()
            self._release(newest)
            self.waiting.appendleft(newest)
            self.preemptions += 1


@right("24.2")
class FromTheEndOfAList(nanoserve.Scheduler):
    def make_room(self):
        there_is_room = self.slots.reserve_step()
        while not there_is_room:
            self.preempt(list(self.running.values())[-1])
            there_is_room = self.slots.reserve_step()

    def preempt(self, request):
        slot, request.slot, request.state = request.slot, None, "waiting"
        self.running.pop(slot)
        self.slots.release(slot)
        self.waiting.insert(0, request)
        self.preemptions = self.preemptions + 1


@right("24.2")
class AgainByItself(Gives):
    def make_room(self):
        if not self.slots.reserve_step():
            *_, newest = self.running.values()
            self.preempt(newest)
            self.make_room()


@right("24.2")
class NewestToOldest(nanoserve.Scheduler):
    def make_room(self):
        for request in reversed(list(self.running.values())):
            if self.slots.reserve_step():
                return
            self.preempt(request)

    def preempt(self, request):
        self.preemptions += 1
        self.waiting = deque([request, *self.waiting])
        self._release(request)
        request.state = "waiting"


# ---- 24.3: come in, or come back
class Admits(nanoserve.Engine):
    """The reference in pieces."""

    def texts(self, batch):
        return [request.token_ids for request in batch]

    def pads(self, pad_lens):
        return pad_lens

    def tokens(self, batch, logits):
        return self._choose(batch, logits[:, -1])

    def store(self, slots, prefill, pad_lens):
        self.slots.admit(slots, prefill, pad_lens)

    def count(self, batch):
        self._recomputed += sum(len(request.token_ids) - 1 for request in batch if request.tokens)

    def accept(self, batch, tokens):
        self._accept(batch, tokens)

    def prefilled(self, batch):
        input_ids, pad_lens = left_pad(self.texts(batch))
        prefill = PrefillCache(self.pads(pad_lens))
        return self.model(input_ids.to(self.model.device), prefill), prefill, pad_lens

    def _admit(self):
        batch = self.scheduler.next_in_line()
        if not batch:
            return
        logits, prefill, pad_lens = self.prefilled(batch)
        tokens = self.tokens(batch, logits)
        slots = self.slots.free_slots()[: len(batch)]
        self.store(slots, prefill, pad_lens)
        self.scheduler.start(batch, slots)
        self.count(batch)
        self.accept(batch, tokens)


right("24.3")(Admits)


@wrong("24.3", "nobody-prefilled")
class NeverAsksWhether(Admits):
    def _admit(self):
        left_pad(self.texts(self.scheduler.next_in_line()))
        super()._admit()


@wrong("24.3", "token-lost")
class DropsTheToken(Admits):
    def accept(self, batch, tokens):
        pass


@wrong("24.3", "other-first-token")
class FromTheOtherEnd(Admits):
    def tokens(self, batch, logits):
        return self._choose(batch, logits[:, -1].flip(-1))


@wrong("24.3", "not-started")
class NeverStarts(Admits):
    def _admit(self):
        batch = self.scheduler.next_in_line()
        if batch:
            logits, prefill, pad_lens = self.prefilled(batch)
            self.slots.admit(self.slots.free_slots()[: len(batch)], prefill, pad_lens)
            self._accept(batch, self.tokens(batch, logits))


@wrong("24.3", "not-admitted")
class NeverStores(Admits):
    def store(self, slots, prefill, pad_lens):
        pass


@wrong("24.3", "rows-mixed")
class TurnsTheRows(Admits):
    def tokens(self, batch, logits):
        return super().tokens(batch, logits)[::-1]


@wrong("24.3", "pads-not-told")
class KeepsThePadsSecret(Admits):
    def pads(self, pad_lens):
        return [0] * len(pad_lens)


@wrong("24.3", "a-prefill-each")
class OneAfterTheOther(Admits):
    def _admit(self):
        for request in self.scheduler.next_in_line():
            logits, prefill, pad_lens = self.prefilled([request])
            tokens = self.tokens([request], logits)
            slots = self.slots.free_slots()[:1]
            self.store(slots, prefill, pad_lens)
            self.scheduler.start([request], slots)
            self.count([request])
            self.accept([request], tokens)


@wrong("24.3", "pads-stored")
class StoresThePads(Admits):
    def store(self, slots, prefill, pad_lens):
        super().store(slots, prefill, [0] * len(pad_lens))


@wrong("24.3", "other-lengths")
class StoresTheRowsTurned(Admits):
    def store(self, slots, prefill, pad_lens):
        super().store(slots[::-1], prefill, pad_lens)


@wrong("24.3", "starts-again")
class ThePromptAlone(Admits):
    def texts(self, batch):
        return [request.run.prompt for request in batch]


@wrong("24.3", "text-streamed-twice")
class BeginsAnew(Admits):
    def texts(self, batch):
        for request in batch:
            request.tokens.clear()
        return super().texts(batch)


@wrong("24.3", "newest-left-out")
class AllButTheNewest(Admits):
    def texts(self, batch):
        return [request.token_ids[:-1] if request.tokens else request.token_ids for request in batch]


@wrong("24.3", "no-next-token")
class OnlyMemory(Admits):
    def accept(self, batch, tokens):
        new = [pair for pair in zip(batch, tokens, strict=True) if not pair[0].tokens]
        if new:
            self._accept(*zip(*new, strict=True))


@wrong("24.3", "other-next-token")
class OneTokenAgain(Admits):
    def accept(self, batch, tokens):
        super().accept(batch, [t + 1 if r.tokens else t for r, t in zip(batch, tokens, strict=True)])


@wrong("24.3", "prompt-lost")
class TheTextAlone(Admits):
    def texts(self, batch):
        return [request.tokens or request.run.prompt for request in batch]


@wrong("24.3", "other-stored")
class WithoutTheFirst(Admits):
    def texts(self, batch):
        return [request.token_ids[1:] if request.tokens else request.token_ids for request in batch]


@wrong("24.3", "first-time-counted")
class CountsEveryPrefill(Admits):
    def count(self, batch):
        self._recomputed += sum(len(request.token_ids) - 1 for request in batch)


@wrong("24.3", "recompute-not-counted")
class CountsNoRecompute(Admits):
    def count(self, batch):
        pass


@wrong("24.3", "newest-counted-too")
class CountsTheNewest(Admits):
    def count(self, batch):
        self._recomputed += sum(len(request.token_ids) for request in batch if request.tokens)


@wrong("24.3", "prompt-not-counted")
class CountsTheTextAlone(Admits):
    def count(self, batch):
        self._recomputed += sum(len(request.tokens) - 1 for request in batch if request.tokens)


@wrong("24.3", "other-recompute")
class CountsHeads(Admits):
    def count(self, batch):
        self._recomputed += sum(bool(request.tokens) for request in batch)


@wrong("24.3", "not-each-counted")
class CountsTheLongest(Admits):
    def count(self, batch):
        self._recomputed += max((len(request.token_ids) - 1 for request in batch if request.tokens), default=0)


@wrong("24.3", "recomputed-as-new")
class CountsThemAsNew(Admits):
    def count(self, batch):
        super().count(batch)
        self._tokens += sum(len(request.tokens) for request in batch)


@wrong("24.3", "together-mixed")
class NewOnesFirst(Admits):
    def tokens(self, batch, logits):
        tokens = super().tokens(batch, logits)
        return tokens if len({bool(request.tokens) for request in batch}) == 1 else tokens[::-1]


@wrong("24.3", "all-or-nobody-counted")
class TheFirstDecides(Admits):
    def count(self, batch):
        if batch[0].tokens:
            self._recomputed += sum(len(request.token_ids) - 1 for request in batch)


@wrong("24.3", "second-time-wrong")
class CountsOnItsOldText(Admits):
    def texts(self, batch):
        for request in batch:
            request.old = getattr(request, "old", None) or request.token_ids if request.tokens else None
        return [request.old or request.token_ids for request in batch]


@wrong("24.3", "prompt-grows")
class AddsToThePrompt(Admits):
    def texts(self, batch):
        texts = super().texts(batch)
        for request in batch:
            request.run.prompt.extend(request.tokens)
        return texts

    def count(self, batch):
        self._recomputed += sum(len(request.run.prompt) - 1 for request in batch if request.tokens)


@wrong("24.3", "accepted-before-started")
class AcceptsFirst(Admits):
    def store(self, slots, prefill, pad_lens):
        super().store(slots, prefill, pad_lens)
        self._accept(self.scheduler.next_batch, self.chosen)

    def tokens(self, batch, logits):
        self.scheduler.next_batch, self.chosen = batch, super().tokens(batch, logits)
        return self.chosen

    def count(self, batch):
        self._recomputed += sum(len(request.token_ids) - 2 for request in batch if len(request.tokens) > 1)

    def accept(self, batch, tokens):
        pass


@wrong("24.3", "complete-and-still-there")
class AppendsByItself(Admits):
    def accept(self, batch, tokens):
        for request, token in zip(batch, tokens, strict=True):
            request.tokens.append(token)
            self._tokens += 1


@wrong("24.3", "others-left")
class AllLeaveWithTheFirst(Admits):
    def accept(self, batch, tokens):
        super().accept(batch, tokens)
        if batch[0].is_complete:
            for request in batch[1:]:
                self.scheduler.leave(request, "finished")


@wrong("24.3", "always-the-likeliest")
class TheArgmax(Admits):
    def tokens(self, batch, logits):
        return logits[:, -1].argmax(-1).tolist()


@wrong("24.3", "another-draw")
class DrawsTwice(Admits):
    def tokens(self, batch, logits):
        for request, row in zip(batch, logits[:, -1], strict=True):
            request.run.next_token(row)
        return super().tokens(batch, logits)


@wrong("24.3", "draws-again")
class DrawsForTheOldOnesToo(Admits):
    def tokens(self, batch, logits):
        for request, row in zip(batch, logits[:, -1], strict=True):
            for _ in request.tokens:
                request.run.next_token(row)
        return super().tokens(batch, logits)


@wrong("24.3", "failure-swallowed")
class GoesOnAfterAnError(Admits):
    def _admit(self):
        try:
            super()._admit()
        except RuntimeError:
            print("the prefill failed")


@wrong("24.3", "started-too-early")
class StartsFirst(Admits):
    def _admit(self):
        batch = self.scheduler.next_in_line()
        if not batch:
            return
        slots = self.slots.free_slots()[: len(batch)]
        self.scheduler.start(batch, slots)
        logits, prefill, pad_lens = self.prefilled(batch)
        tokens = self.tokens(batch, logits)
        self.store(slots, prefill, pad_lens)
        self.count(batch)
        self.accept(batch, tokens)


@wrong("24.3", "counted-before-it-happened")
class CountsFirst(Admits):
    def texts(self, batch):
        super().count(batch)
        return super().texts(batch)

    def count(self, batch):
        pass


@wrong("24.3", "out-of-the-line-too-early")
class PopsTheLineFirst(Admits):
    def prefilled(self, batch):
        for _ in batch:
            self.scheduler.waiting.popleft()
        prefilled = super().prefilled(batch)
        self.scheduler.waiting.extendleft(reversed(batch))
        return prefilled


@wrong("24.3", "not-as-before")
class StartsAndCountsFirst(StartsFirst):
    def texts(self, batch):
        Admits.count(self, batch)
        return super().texts(batch)

    def count(self, batch):
        pass


@wrong("24.3", "called-running-too-early")
class CallsThemRunningFirst(Admits):
    def texts(self, batch):
        for request in batch:
            request.state = "running"
        return super().texts(batch)


@wrong("24.3", "others-released")
class FreesTheSlots(Admits):
    def store(self, slots, prefill, pad_lens):
        try:
            super().store(slots, prefill, pad_lens)
        except RuntimeError:
            for slot in list(self.slots.tables):
                self.slots.release(slot)
            raise


@wrong("24.3", "lost-in-the-failure")
class DropsATokenOnError(Admits):
    def prefilled(self, batch):
        try:
            return super().prefilled(batch)
        except RuntimeError:
            for request in batch:
                request.tokens.pop()
            raise


@wrong("24.3", "choice-swallowed")
class NobodyWhoCannotChoose(Admits):
    def _admit(self):
        try:
            super()._admit()
        except RuntimeError as error:
            if "prefill" in str(error):
                raise


@wrong("24.3", "stored-before-the-choice")
class ChoosesLast(Admits):
    def _admit(self):
        batch = self.scheduler.next_in_line()
        if not batch:
            return
        logits, prefill, pad_lens = self.prefilled(batch)
        slots = self.slots.free_slots()[: len(batch)]
        self.store(slots, prefill, pad_lens)
        tokens = self.tokens(batch, logits)
        self.scheduler.start(batch, slots)
        self.count(batch)
        self.accept(batch, tokens)


@wrong("24.3", "store-swallowed")
class NobodyWhoCannotBeStored(Admits):
    def store(self, slots, prefill, pad_lens):
        try:
            super().store(slots, prefill, pad_lens)
        except RuntimeError:
            print("no memory")


@wrong("24.3", "started-before-stored")
class StartsAndThenStores(Admits):
    def _admit(self):
        batch = self.scheduler.next_in_line()
        if not batch:
            return
        logits, prefill, pad_lens = self.prefilled(batch)
        tokens = self.tokens(batch, logits)
        slots = self.slots.free_slots()[: len(batch)]
        self.scheduler.start(batch, slots)
        self.store(slots, prefill, pad_lens)
        self.count(batch)
        self.accept(batch, tokens)


class Batches(Admits):
    """The reference, with a batch and slots to be got wrong."""

    def batch(self):
        return self.scheduler.next_in_line()

    def seats(self, batch):
        return self.slots.free_slots()[: len(batch)]

    def begin(self, batch, slots):
        self.scheduler.start(batch, slots)

    def _admit(self):
        batch = self.batch()
        if not batch:
            return
        logits, prefill, pad_lens = self.prefilled(batch)
        tokens = self.tokens(batch, logits)
        slots = self.seats(batch)
        self.store(slots, prefill, pad_lens)
        self.begin(batch, slots)
        self.count(batch)
        self.accept(batch, tokens)


@wrong("24.3", "nobody-comes-in")
class DoesNothing(Admits):
    def _admit(self):
        pass


@alike("24.3", "nobody-comes-in")
class GoesWhenSomebodyWaits(Admits):
    def _admit(self):
        if self.scheduler.next_in_line():
            return


@wrong("24.3", "other-positions-asked")
class AsksForAllPositions(Admits):
    def tokens(self, batch, logits):
        width = max(map(len, self.texts(batch)))
        return self._choose(batch, logits[:, width - 1, :])


@wrong("24.3", "ids-of-another-type")
class FloatIds(Admits):
    def prefilled(self, batch):
        input_ids, pad_lens = left_pad(self.texts(batch))
        prefill = PrefillCache(pad_lens)
        return self.model(input_ids.float(), prefill), prefill, pad_lens


@wrong("24.3", "more-slots-than-requests")
class AllFreeSlots(Batches):
    def seats(self, batch):
        return self.slots.free_slots()


@wrong("24.3", "decoded-too")
class DecodesToo(Admits):
    def accept(self, batch, tokens):
        super().accept(batch, tokens)
        self._decode()


@wrong("24.3", "advanced-too")
class CountsTheNewToken(Admits):
    def accept(self, batch, tokens):
        super().accept(batch, tokens)
        self.slots.advance()


@wrong("24.3", "ordered-by-id")
class SortsTheBatch(Batches):
    def batch(self):
        return sorted(super().batch(), key=lambda request: request.id)


@wrong("24.3", "prefilled-again")
class OnceMoreForTheLogits(Admits):
    def prefilled(self, batch):
        super().prefilled(batch)
        return super().prefilled(batch)


@wrong("24.3", "one-rule-for-all")
class TheFirstsRule(Admits):
    def tokens(self, batch, logits):
        return [batch[0].run.next_token(row) for row in logits[:, -1]]


@wrong("24.3", "newest-cut-off")
class AllButTheLastId(Admits):
    def texts(self, batch):
        return [request.token_ids[:-1] for request in batch]


@wrong("24.3", "handed-out-twice")
class AppendsAndAccepts(Admits):
    def accept(self, batch, tokens):
        for request, token in zip(batch, tokens, strict=True):
            request.tokens.append(token)
        super().accept(batch, tokens)


@wrong("24.3", "started-by-hand")
class StartsByHand(Batches):
    def begin(self, batch, slots):
        for slot, request in zip(slots, batch, strict=True):
            self.scheduler.waiting.popleft()
            self.scheduler.running[slot] = request
            request.state = "running"


@alike("24.3", "started-by-hand")
class StaysInLine(Batches):
    def begin(self, batch, slots):
        for slot, request in zip(slots, batch, strict=True):
            self.scheduler.running[slot] = request
            request.slot, request.state = slot, "running"


@wrong("24.3", "counted-as-a-step")
class CountsAStep(Admits):
    def count(self, batch):
        super().count(batch)
        self._steps += 1


@wrong("24.3", "not-all-come-in")
class OneAtATime(Batches):
    def batch(self):
        return super().batch()[:1]


@wrong("24.3", "order-turned")
class TheLastFirst(Batches):
    def batch(self):
        return super().batch()[::-1]


@wrong("24.3", "padded-behind")
class PadsBehind(Admits):
    def prefilled(self, batch):
        texts = self.texts(batch)
        longest = max(map(len, texts))
        pad_lens = [longest - len(text) for text in texts]
        ids = torch.tensor([text + [0] * pads for text, pads in zip(texts, pad_lens, strict=True)])
        prefill = PrefillCache(pad_lens)
        return self.model(ids, prefill), prefill, pad_lens


@wrong("24.3", "whole-line")
class TheWholeLine(Batches):
    def batch(self):
        return list(self.scheduler.waiting)


@wrong("24.3", "slot-is-taken")
class FromSlotZero(Batches):
    def seats(self, batch):
        return list(range(len(batch)))


@wrong("24.3", "counted-after-the-token")
class CountsLast(Admits):
    def count(self, batch):
        pass

    def accept(self, batch, tokens):
        super().accept(batch, tokens)
        super().count(batch)


@wrong("24.3", "pads-counted")
class CountsTheWidth(Admits):
    def count(self, batch):
        width = max(len(request.token_ids) for request in batch)
        self._recomputed += sum(width - 1 for request in batch if request.tokens)


@wrong("24.3", "first-time-forgotten")
class SetsTheCounter(Admits):
    def count(self, batch):
        self._recomputed = sum(len(request.token_ids) - 1 for request in batch if request.tokens)


@right("24.3")
class FromTheHighestSlot(Batches):
    def seats(self, batch):
        return self.slots.free_slots()[-len(batch) :]


@right("24.3")
class InPlainSteps(nanoserve.Engine):
    """Another order where the order is free, and each request looked at by itself."""

    def _admit(self):
        coming = self.scheduler.next_in_line()
        if len(coming) == 0:
            return
        again = sum(len(r.run.prompt) + len(r.tokens) - 1 for r in coming if len(r.tokens) > 0)
        ids, pads = left_pad([r.run.prompt + r.tokens for r in coming])
        cache = PrefillCache(pads)
        rows = self.model(ids.to(self.model.device), cache)[:, -1]
        chosen = [request.run.next_token(row) for request, row in zip(coming, rows.cpu(), strict=True)]
        free = list(self.slots.free_slots())
        seats = [free[place] for place in range(len(coming))]
        self.slots.admit(seats, cache, pads)
        self._recomputed += again
        self.scheduler.start(coming, seats)
        self._accept(coming, chosen)


@right("24.3")
class PaddedByHand(nanoserve.Engine):
    def _admit(self):
        batch = self.scheduler.next_in_line()
        if batch:
            texts = [request.token_ids for request in batch]
            longest = max(map(len, texts))
            pads = [longest - len(text) for text in texts]
            ids = torch.zeros(len(batch), longest, dtype=torch.long, device=self.model.device)
            for row, text in enumerate(texts):
                ids[row, pads[row] :] = torch.tensor(text)
            prefill = PrefillCache(pads)
            tokens = self._choose(batch, self.model(ids, prefill)[:, -1])
            slots = [slot for slot in range(self.slots.num_slots) if slot not in self.slots.tables][: len(batch)]
            self.slots.admit(slots, prefill, pads)
            self.scheduler.start(batch, slots)
            for request in batch:
                self._recomputed += len(request.token_ids) - 1 if request.tokens else 0
            self._accept(batch, tokens)
