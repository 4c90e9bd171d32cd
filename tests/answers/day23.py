"""Day 23: schedulers and engines that people write."""

from collections import deque
from itertools import takewhile

import numpy as np
import torch

import nanoserve
from tests.answers import Right, Wrong

WRONG: list[Wrong] = []
ALIKE: list[Wrong] = []  # other ways into a slip that somebody is told already
RIGHT: list[Right] = []
METHODS = {"23.1": "next_in_line", "23.2": "leave"}
reference = nanoserve.Scheduler


def scheduler_with(task, function):
    """A scheduler whose `next_in_line`, or `leave` beside the right `_release`, is this function."""
    release = {"_release": lambda self, request: reference._release(self, request)} if task == "23.2" else {}
    return type(function.__name__, (nanoserve.Scheduler,), {METHODS[task]: function} | release)


def wrong(task, slip):
    def keep(answer):
        made = answer if isinstance(answer, type) else scheduler_with(task, answer)
        WRONG.append(Wrong(task, slip, made))
        return answer

    return keep


def alike(task, slip):
    def keep(answer):
        ALIKE.append(Wrong(task, slip, answer if isinstance(answer, type) else scheduler_with(task, answer)))
        return answer

    return keep


def right(task):
    def keep(answer):
        RIGHT.append(Right(task, answer if isinstance(answer, type) else scheduler_with(task, answer)))
        return answer

    return keep


# ---- 23.1: who comes in
@wrong("23.1", "none-for-a-list")
def says_none_where_nobody_waits(self):
    return reference.next_in_line(self) or None


@wrong("23.1", "no-list")
def one_by_one(self):
    return (request for request in reference.next_in_line(self))


@wrong("23.1", "another-collection")
def in_a_set(self):
    return set(reference.next_in_line(self))


@alike("23.1", "another-collection")
def by_their_slots(self):
    return dict(zip(self.slots.free_slots(), reference.next_in_line(self), strict=False))


@alike("23.1", "another-collection")
def in_an_array(self):
    return np.array(reference.next_in_line(self), dtype=object)


@wrong("23.1", "the-line-itself")
def the_line_where_all_fit(self):
    batch = reference.next_in_line(self)
    return self.waiting if len(batch) == len(self.waiting) else batch


@wrong("23.1", "kept-from-before")
def a_batch_among_the_arguments(self, batch=[]):  # noqa: B006
    batch += reference.next_in_line(self)
    return batch


@wrong("23.1", "runs-already")
def all_that_are_here(self):
    batch = []
    for request in self.requests.values():
        if not self.slots.can_admit([r.stored_soon for r in [*batch, request]]):
            break
        batch.append(request)
    return batch


@wrong("23.1", "kept-on-the-scheduler")
def a_batch_of_the_schedulers(self):
    self.batch = getattr(self, "batch", [])
    for request in self.waiting:
        if not self.slots.can_admit([r.stored_soon for r in [*self.batch, request]]):
            break
        self.batch.append(request)
    return self.batch


@wrong("23.1", "somebody-from-nowhere")
def looks_without_asking(self):
    return reference.next_in_line(self) or [None]


@wrong("23.1", "one-at-a-time")
def only_the_first(self):
    return reference.next_in_line(self)[:1]


@wrong("23.1", "newest-first")
def takes_from_the_other_end(self):
    return reference.next_in_line(self)[::-1]


@wrong("23.1", "shortest-first")
def sorts_the_line(self):
    batch = []
    for request in sorted(self.waiting, key=lambda request: request.stored_soon):
        if not self.slots.can_admit([r.stored_soon for r in [*batch, request]]):
            break
        batch.append(request)
    return batch


@wrong("23.1", "by-their-ids")
def sorts_the_line_by_ids(self):
    return sorted(reference.next_in_line(self), key=lambda request: request.id)


@wrong("23.1", "line-turned")
def turns_the_line_as_it_looks(self):
    batch = []
    for _ in range(len(self.waiting)):
        request = self.waiting[0]
        self.waiting.rotate(-1)
        if not self.slots.can_admit([r.stored_soon for r in [*batch, request]]):
            break
        batch.append(request)
    return batch


@alike("23.1", "line-turned")
def makes_room_for_them(self):
    batch = reference.next_in_line(self)
    if len(batch) < len(self.waiting) and self.running:
        self.preempt(next(reversed(self.running.values())))
    return batch


@alike("23.1", "requests-changed")
def forgets_who_does_not_fit(self):
    batch = reference.next_in_line(self)
    for request in list(self.waiting)[len(batch) :]:
        self.requests.pop(request.id, None)
    return batch


@wrong("23.1", "line-is-no-deque")
def makes_a_list_of_the_line(self):
    self.waiting = list(self.waiting)
    return reference.next_in_line(self)


@wrong("23.1", "requests-changed")
def calls_them_running(self):
    batch = reference.next_in_line(self)
    for request in batch:
        request.state = "running"
    return batch


@wrong("23.1", "running-changed")
def forgets_those_that_run(self):
    batch = reference.next_in_line(self)
    self.running.clear()
    return batch


@wrong("23.1", "slots-changed")
def reserves_for_those_that_run(self):
    self.slots.reserve_step()
    return reference.next_in_line(self)


@wrong("23.1", "so-many-at-most")
def four_at_most(self):
    return reference.next_in_line(self)[:4]


@wrong("23.1", "ids-for-requests")
def names_them(self):
    return [request.id for request in reference.next_in_line(self)]


@wrong("23.1", "other-requests")
def asks_for_the_rest(self):
    return reference.next_in_line(self)[1:]


@wrong("23.1", "takes-them-out")
def pops_as_it_goes(self):
    batch = reference.next_in_line(self)
    for _ in batch:
        self.waiting.popleft()
    return batch


def blocks_for(self, requests):
    size = self.slots.allocator.block_size
    return sum(-(-request.stored_soon // size) for request in requests)


@wrong("23.1", "slots-ignored")
def counts_blocks_only(self):
    batch = []
    for request in self.waiting:
        if blocks_for(self, [*batch, request]) > self.slots.allocator.num_free:
            break
        batch.append(request)
    return batch


@wrong("23.1", "all-or-nobody")
def all_of_them_or_none(self):
    return list(self.waiting) if self.slots.can_admit([r.stored_soon for r in self.waiting]) else []


@wrong("23.1", "one-too-many")
def adds_before_it_asks(self):
    batch = []
    for request in self.waiting:
        batch.append(request)
        if not self.slots.can_admit([r.stored_soon for r in batch]):
            break
    return batch


@wrong("23.1", "waits-for-all")
def a_new_batch_when_all_are_done(self):
    return [] if self.running else reference.next_in_line(self)


@wrong("23.1", "counts-taken-slots")
def counts_every_slot(self):
    batch = []
    for request in self.waiting:
        if len(batch) == self.slots.num_slots:
            break
        if blocks_for(self, [*batch, request]) > self.slots.allocator.num_free:
            break
        batch.append(request)
    return batch


@wrong("23.1", "last-slot-left")
def keeps_a_slot_in_reserve(self):
    free = len(self.slots.free_slots())
    return reference.next_in_line(self)[: free - 1 if self.running else free]


@wrong("23.1", "blocks-ignored")
def counts_slots_only(self):
    return list(self.waiting)[: len(self.slots.free_slots())]


@wrong("23.1", "one-length-for-all")
def asks_with_the_newest_length(self):
    batch = []
    for request in self.waiting:
        if not self.slots.can_admit([request.stored_soon] * (len(batch) + 1)):
            break
        batch.append(request)
    return batch


@alike("23.1", "running-changed")
def turns_those_that_run(self):
    self.running = dict(reversed(self.running.items()))
    return reference.next_in_line(self)


@wrong("23.1", "each-as-if-alone")
def asks_for_each_alone(self):
    fitting = takewhile(lambda request: self.slots.can_admit([request.stored_soon]), self.waiting)
    return list(fitting)[: len(self.slots.free_slots())]


@wrong("23.1", "next-blocks-forgotten")
def counts_what_is_free_now(self):
    free, batch = self.slots.allocator.num_free, []
    for request in list(self.waiting)[: len(self.slots.free_slots())]:
        free -= blocks_for(self, [request])
        if free < 0:
            break
        batch.append(request)
    return batch


@wrong("23.1", "overtakes")
def goes_on_past_who_does_not_fit(self):
    batch = []
    for request in self.waiting:
        if self.slots.can_admit([r.stored_soon for r in [*batch, request]]):
            batch.append(request)
    return batch


def by_length(self, length):
    batch = []
    for request in self.waiting:
        if not self.slots.can_admit([length(r) for r in [*batch, request]]):
            break
        batch.append(request)
    return batch


@wrong("23.1", "prompt-only")
def asks_for_the_prompt(self):
    return by_length(self, lambda request: len(request.run.prompt))


@wrong("23.1", "reserves-it-all")
def asks_for_the_most(self):
    return by_length(self, lambda request: request.most_stored)


@wrong("23.1", "a-token-nobody-decodes")
def always_one_more(self):
    return by_length(self, lambda request: len(request.token_ids) + 1)


@wrong("23.1", "tokens-forgotten")
def counts_the_prompt_and_one(self):
    return by_length(self, lambda request: min(len(request.run.prompt) + 1, request.most_stored))


@right("23.1")
def the_longest_beginning(self):
    line = list(self.waiting)
    fits = [n for n in range(len(line) + 1) if self.slots.can_admit([r.stored_soon for r in line[:n]])]
    return line[: max(fits)] if fits else []


@right("23.1")
def with_indices_and_a_list_of_lengths(self):
    lengths, count = [], 0
    while count < len(self.waiting):
        lengths.append(self.waiting[count].stored_soon)
        if not self.slots.can_admit(lengths):
            break
        count += 1
    return deque(list(self.waiting)[:count])


@right("23.1")
def one_more_as_long_as_it_goes(self, count=0):
    line = list(self.waiting)
    if count == len(line) or not self.slots.can_admit([r.stored_soon for r in line[: count + 1]]):
        return tuple(line[:count])
    return one_more_as_long_as_it_goes(self, count + 1)


@right("23.1")
def by_counting_what_is_free(self):
    size, free = self.slots.allocator.block_size, self.slots.allocator.num_free
    for slot, table in self.slots.tables.items():  # what those who run will need for their next tokens
        free -= -(-(self.slots.lengths[slot] + 1) // size) - len(table.block_ids)
    batch = []
    for request in list(self.waiting)[: len(self.slots.free_slots())]:
        free -= -(-request.stored_soon // size)
        if free < 0:
            return batch
        batch.append(request)
    return batch


# ---- 23.2: who leaves
@wrong("23.2", "slot-cleared-first")
def forgets_the_slot_too_early(self, request, state):
    if request.slot is None:
        self.waiting.remove(request)
    else:
        del self.running[request.slot]
        request.slot = None
        self.slots.release(request.slot)
    request.state = state
    del self.requests[request.id]


@wrong("23.2", "taken-for-waiting")
def takes_slot_0_for_none(self, request, state):
    if request.slot:
        self._release(request)
    else:
        self.waiting.remove(request)
    request.state = state
    del self.requests[request.id]


@wrong("23.2", "state-stays")
def keeps_the_state(self, request, state):
    before = request.state
    reference.leave(self, request, state)
    request.state = before


@wrong("23.2", "slot-stays")
def keeps_the_number_of_the_slot(self, request, state):
    slot = request.slot
    reference.leave(self, request, state)
    request.slot = slot


@wrong("23.2", "still-running")
def leaves_it_among_the_running(self, request, state):
    slot = request.slot
    reference.leave(self, request, state)
    if slot is not None:
        self.running[slot] = request


@wrong("23.2", "other-running")
def clears_the_running(self, request, state):
    reference.leave(self, request, state)
    self.running.clear()


@wrong("23.2", "others-forgotten")
def forgets_everybody(self, request, state):
    reference.leave(self, request, state)
    self.requests.clear()


@wrong("23.2", "not-in-the-line")
def looks_for_the_id(self, request, state):
    if request.slot is None:
        self.waiting.remove(request.id)
    reference.leave(self, request, state)


@wrong("23.2", "line-is-no-deque")
def a_list_without_it(self, request, state):
    waits = request.slot is None
    reference.leave(self, request, state)
    if waits:
        self.waiting = [other for other in self.waiting if other is not request]


@wrong("23.2", "prompt-changed")
def clears_the_prompt(self, request, state):
    reference.leave(self, request, state)
    request.run.prompt.clear()


@wrong("23.2", "still-known")
def keeps_its_id(self, request, state):
    reference.leave(self, request, state)
    self.requests[request.id] = request


def leave_after(free):
    """All that `leave` does, with `free(slots, slot)` in the place of the release."""

    def leave(self, request, state):
        if request.slot is None:
            self.waiting.remove(request)
        else:
            free(self.slots, request.slot)
            del self.running[request.slot]
            request.slot = None
        request.state = state
        del self.requests[request.id]

    return leave


def keep_as(name, task, slip, function):
    function.__name__ = name
    wrong(task, slip)(function)


keep_as("forgets_the_memory", "23.2", "never-released", leave_after(lambda slots, slot: None))
keep_as("frees_the_slot_alone", "23.2", "blocks-stay", leave_after(lambda slots, slot: slots.tables.pop(slot)))
keep_as(
    "frees_the_blocks_alone", "23.2", "slot-stays-taken", leave_after(lambda slots, slot: slots.tables[slot].free())
)
keep_as("pops_the_table", "23.2", "length-stays", leave_after(lambda slots, slot: slots.tables.pop(slot).free()))
keep_as("frees_all_slots", "23.2", "too-much-released", leave_after(lambda slots, slot: slots.free()))


@wrong("23.2", "another-is-released")
def releases_the_newest(self, request, state):
    reference.leave(self, request, state)
    if request.id == "A":
        self.slots.seat(0, 6)
        self.slots.release(2)


@wrong("23.2", "line-changed")
def lets_the_next_one_out_of_the_line(self, request, state):
    reference.leave(self, request, state)
    if state == "finished" and self.waiting:
        self.waiting.popleft()


@wrong("23.2", "no-slot-to-release")
def knows_runners_only(self, request, state):
    self.slots.release(request.slot)
    del self.running[request.slot]
    request.slot = None
    request.state = state
    del self.requests[request.id]


@wrong("23.2", "still-waiting")
def leaves_it_in_the_line(self, request, state):
    if request.slot is not None:
        self._release(request)
    request.state = state
    del self.requests[request.id]


@wrong("23.2", "first-in-line-leaves")
def pops_the_first(self, request, state):
    if request.slot is None:
        self.waiting.popleft()
    else:
        self._release(request)
    request.state = state
    del self.requests[request.id]


@wrong("23.2", "last-in-line-leaves")
def pops_the_last(self, request, state):
    if request.slot is None:
        self.waiting.pop()
    else:
        self._release(request)
    request.state = state
    del self.requests[request.id]


@wrong("23.2", "line-put-together-again")
def lines_up_the_rest(self, request, state):
    waits = request.slot is None
    reference.leave(self, request, state)
    if waits:
        rest = list(self.waiting)
        self.waiting.clear()
        self.waiting.extendleft(rest)


@wrong("23.2", "other-line")
def clears_the_line(self, request, state):
    waited = request.slot is None
    reference.leave(self, request, state)
    if waited:
        self.waiting.clear()


@wrong("23.2", "always-finished")
def knows_one_state(self, request, state):
    reference.leave(self, request, "finished")


@wrong("23.2", "only-when-finished")
def releases_who_is_finished(self, request, state):
    if request.slot is None:
        self.waiting.remove(request)
    elif state == "finished":
        self._release(request)
    request.state = state
    del self.requests[request.id]


@wrong("23.2", "text-thrown-away")
def clears_the_tokens(self, request, state):
    reference.leave(self, request, state)
    request.tokens.clear()


class LeavesByItself(nanoserve.Scheduler):
    """All is in `leave`."""

    leave = leave_after(lambda slots, slot: slots.release(slot))


@wrong("23.2", "release-does-nothing")
class NothingToRelease(LeavesByItself):
    def _release(self, request):
        pass


@wrong("23.2", "release-half-done")
class ReleasesTheSlotOnly(LeavesByItself):
    def _release(self, request):
        self.slots.release(request.slot)


@wrong("23.2", "release-takes-a-request")
class ReleasesASlot(nanoserve.Scheduler):
    def leave(self, request, state):
        if request.slot is None:
            self.waiting.remove(request)
        else:
            self._release(request.slot)
        request.state = state
        del self.requests[request.id]

    def _release(self, slot):
        self.slots.release(slot)
        self.running.pop(slot).slot = None


@wrong("23.2", "release-counts")
class CountsWhoLeaves(LeavesByItself):
    def _release(self, request):
        super()._release(request)
        self.preemptions += 1


@wrong("23.2", "release-too-much")
class ForgetsTheRequest(LeavesByItself):
    def _release(self, request):
        super()._release(request)
        del self.requests[request.id]


@right("23.2")
def by_its_state(self, request, state):
    if request.state == "running":
        self.slots.release(request.slot)
        self.running.pop(request.slot)
    else:
        self.waiting = deque(other for other in self.waiting if other is not request)
    request.slot, request.state = None, state
    self.requests.pop(request.id)


@right("23.2")
def by_looking_for_it(self, request, state):
    self.requests = {key: other for key, other in self.requests.items() if other is not request}
    for slot in [slot for slot, other in self.running.items() if other is request]:
        del self.running[slot]
        self.slots.release(slot)
    if request in self.waiting:
        self.waiting.remove(request)
    request.state = state
    request.slot = None


@right("23.2")
def tries_the_line_first(self, request, state):
    try:
        self.waiting.remove(request)
    except ValueError:
        self._release(request)
    request.state = state
    self.requests.pop(request.id)


@right("23.2")
class TwoMethods(nanoserve.Scheduler):
    """As the reference, with the order of things turned round."""

    def leave(self, request, state):
        self.requests.pop(request.id)
        request.state = state
        (self.waiting.remove if request.slot is None else self._release)(request)

    def _release(self, request):
        slot, request.slot = request.slot, None
        self.running.pop(slot)
        self.slots.release(slot)


# ---- 23.3: one step for all
class Step(nanoserve.Engine):
    """The reference's step in pieces, each of which a wrong answer gets wrong."""

    def ids(self, running):
        ids = [0] * self.slots.num_slots
        for slot, request in running.items():
            ids[slot] = self.fed(request)
        return torch.tensor(ids).unsqueeze(1)

    def fed(self, request):
        return request.tokens[-1]

    def rows(self, logits, running):
        return logits[list(running), -1]

    def chosen(self, batch, rows):
        return self._choose(batch, rows)

    def count(self):
        self.slots.advance()
        self._steps += 1

    def complete(self, request):
        return request.is_complete

    def out(self, request):
        self.scheduler.leave(request, "finished")
        self._finished.append(request)

    def _decode(self):
        running = self.scheduler.running
        logits = self.model(self.ids(running), self.slots)
        batch = list(running.values())
        tokens = self.chosen(batch, self.rows(logits, running))
        self.count()
        self._accept(batch, tokens)

    def _accept(self, batch, tokens):
        for request, token in zip(batch, tokens, strict=True):
            request.tokens.append(token)
            self._tokens += 1
            if self.complete(request):
                self.out(request)


right("23.3")(Step)


@wrong("23.3", "no-time-axis")
class AVectorOfIds(Step):
    def ids(self, running):
        return super().ids(running).squeeze(1)


@wrong("23.3", "one-row-for-all")
class AllInOneRow(Step):
    def ids(self, running):
        return super().ids(running).T


@wrong("23.3", "a-row-a-request")
class ARowForEachWhoRuns(Step):
    def ids(self, running):
        return torch.tensor([[request.tokens[-1]] for request in running.values()])

    def rows(self, logits, running):
        return logits[:, -1]


@wrong("23.3", "rows-of-idle-slots")
class EveryRow(Step):
    def rows(self, logits, running):
        return logits[:, -1]


@alike("23.3", "rows-of-idle-slots")
class WalksAGeneratorTwice(Step):
    def _decode(self):
        running = self.scheduler.running
        logits = self.model(self.ids(running), self.slots)
        batch = (request for request in running.values())
        tokens = self.chosen(batch, self.rows(logits, running))
        self.count()
        self._accept(batch, tokens)


@wrong("23.3", "ids-of-another-type")
class FloatIds(Step):
    def ids(self, running):
        return super().ids(running).float()


@alike("23.3", "ids-of-another-type")
class AListOfIds(Step):
    def ids(self, running):
        return super().ids(running).tolist()


@wrong("23.3", "floats-for-ids")
class KeepsFloats(Step):
    def fed(self, request):
        return int(request.tokens[-1])

    def _accept(self, batch, tokens):
        super()._accept(batch, list(map(float, tokens)))


@wrong("23.3", "model-runs-again")
class APassForEach(Step):
    def rows(self, logits, running):
        return torch.stack([self.model(self.ids(running), self.slots)[slot, -1] for slot in running])


@wrong("23.3", "another-cache")
class OverACacheOfItsOwn(Step):
    def _decode(self):
        running = self.scheduler.running
        logits = self.model(self.ids(running), nanoserve.PrefillCache([0] * self.slots.num_slots))
        batch = list(running.values())
        tokens = self.chosen(batch, self.rows(logits, running))
        self.count()
        self._accept(batch, tokens)


@wrong("23.3", "largest-token-fed")
class FeedsTheLargest(Step):
    def fed(self, request):
        return max(request.tokens)


@wrong("23.3", "not-the-newest")
class TakesZeroForNone(Step):
    def fed(self, request):
        return request.tokens[-1] or 1


@wrong("23.3", "waiting-changed")
class EmptiesTheLine(Step):
    def count(self):
        super().count()
        self.scheduler.waiting.clear()


@alike("23.3", "waiting-changed")
class TurnsTheLine(Step):
    def count(self):
        super().count()
        self.scheduler.waiting.rotate(1)


@wrong("23.3", "leaves-by-id")
class LeavesById(Step):
    def out(self, request):
        self.scheduler.leave(request.id, "finished")


@wrong("23.3", "told-no-more")
class BeginsTheListAnew(Step):
    def count(self):
        super().count()
        self._finished = []


@alike("23.3", "others-leave-too")
class AllLeaveWithTheFirst(Step):
    def _accept(self, batch, tokens):
        super()._accept(batch, tokens)
        if len(self.scheduler.running) < len(batch):
            for request in list(self.scheduler.running.values()):
                self.out(request)


@alike("23.3", "no-first-token")
class AcceptsNothing(Step):
    def _accept(self, batch, tokens):
        pass


@wrong("23.3", "no-first-token")
class ReturnsInTheLoop(Step):
    def _accept(self, batch, tokens):
        for request, token in zip(batch, tokens, strict=True):
            request.tokens.append(token)
            self._tokens += 1
            if not self.complete(request):
                return
            self.out(request)


@wrong("23.3", "running-sorted")
class SortsTheRunning(Step):
    def _decode(self):
        self.scheduler.running = dict(sorted(self.scheduler.running.items()))
        super()._decode()


@alike("23.3", "advanced-twice")
class AdvancesInTheLoop(Step):
    def count(self):
        self._steps += 1
        for _ in self.scheduler.running:
            self.slots.advance()


@wrong("23.3", "tensors-for-ids")
class KeepsTensors(Step):
    def _accept(self, batch, tokens):
        super()._accept(batch, torch.tensor(tokens))


@wrong("23.3", "token-not-kept")
class ForgetsToAccept(Step):
    def _decode(self):
        running = self.scheduler.running
        self.chosen(list(running.values()), self.rows(self.model(self.ids(running), self.slots), running))
        self.count()


@wrong("23.3", "leaves-too-early")
class TurnedRound(Step):
    def complete(self, request):
        return not request.is_complete


@wrong("23.3", "prompt-grows")
class AddsToThePrompt(Step):
    def _accept(self, batch, tokens):
        for request, token in zip(batch, tokens, strict=True):
            request.run.prompt.append(token)
        super()._accept(batch, tokens)


@wrong("23.3", "prompt-fed-again")
class FeedsThePrompt(Step):
    def fed(self, request):
        return request.run.prompt[-1]


@wrong("23.3", "a-row-of-logits")
class FeedsOnlyZeros(Step):
    def ids(self, running):
        return torch.zeros(self.slots.num_slots, 1, dtype=torch.long)


@wrong("23.3", "other-second-token")
class CountsFromTheOtherEnd(Step):
    def rows(self, logits, running):
        return logits[list(running), -1].flip(-1)


@wrong("23.3", "first-token-fed")
class FeedsTheFirstToken(Step):
    def fed(self, request):
        return request.tokens[0]


@wrong("23.3", "other-third-token")
class FeedsByParity(Step):
    def fed(self, request):
        return request.tokens[-1] if len(request.tokens) == 1 else request.tokens[-1] + 1


@wrong("23.3", "logits-by-place")
class TheFirstRows(Step):
    def rows(self, logits, running):
        return logits[: len(running), -1]


@wrong("23.3", "tokens-by-place")
class FillsFromTheTop(Step):
    def ids(self, running):
        fed = [self.fed(request) for request in running.values()]
        return torch.tensor(fed + [0] * (self.slots.num_slots - len(fed))).unsqueeze(1)


@wrong("23.3", "rows-mixed")
class TheNewestFirst(Step):
    def rows(self, logits, running):
        return logits[list(reversed(running)), -1]


@wrong("23.3", "two-orders")
class RowsBySlotAndRequestsByAge(Step):
    def rows(self, logits, running):
        return logits[sorted(running), -1]


@wrong("23.3", "slots-by-age")
class OnlyTheOldOnes(Step):
    def _decode(self):
        running = dict(sorted(self.scheduler.running.items()))
        logits = self.model(self.ids(running), self.slots)
        batch = list(running.values())
        tokens = self.chosen(batch, self.rows(logits, self.scheduler.running))
        self.count()
        self._accept(batch, tokens)


@wrong("23.3", "not-advanced")
class NeverAdvances(Step):
    def count(self):
        self._steps += 1


@wrong("23.3", "advanced-twice")
class AdvancesForEach(Step):
    def count(self):
        super().count()
        self.slots.advance()


@wrong("23.3", "other-lengths")
class CountsByHand(Step):
    def count(self):
        self.slots.lengths = [length + 1 for length in self.slots.lengths]
        self._steps += 1


@wrong("23.3", "a-step-late")
class LooksBeforeItAppends(Step):
    def _accept(self, batch, tokens):
        for request, token in zip(batch, tokens, strict=True):
            if request.is_complete:
                self.out(request)
                continue
            request.tokens.append(token)
            self._tokens += 1


@wrong("23.3", "never-leaves")
class NobodyLeaves(Step):
    def complete(self, request):
        return False


@wrong("23.3", "leaves-as-aborted")
class AbortsWhoIsComplete(Step):
    def out(self, request):
        self.scheduler.leave(request, "aborted")
        self._finished.append(request)


@wrong("23.3", "token-after-the-end")
class OneTokenTooMany(Step):
    def out(self, request):
        super().out(request)
        if len(request.tokens) > 1:
            request.tokens.append(0)


@wrong("23.3", "slot-not-given-back")
class OnlyTheState(Step):
    def out(self, request):
        request.state = "finished"
        del self.scheduler.requests[request.id]
        if request.slot is not None:
            del self.scheduler.running[request.slot]
        self._finished.append(request)


@wrong("23.3", "still-among-those-that-run")
class ReleasesTheSlotAlone(Step):
    def out(self, request):
        self.slots.release(request.slot)
        request.state = "finished"
        self._finished.append(request)


@wrong("23.3", "goes-on-after-its-prompt")
class LooksAfterTheDecodeStep(Step):
    def _decode(self):
        super()._decode()
        for request in list(self.scheduler.running.values()):
            if request.is_complete:
                self.out(request)

    def _accept(self, batch, tokens):
        for request, token in zip(batch, tokens, strict=True):
            request.tokens.append(token)
            self._tokens += 1


@wrong("23.3", "ids-told")
class TellsTheId(Step):
    def out(self, request):
        self.scheduler.leave(request, "finished")
        self._finished.append(request.id)


@wrong("23.3", "finished-not-told")
class LeavesInSilence(Step):
    def out(self, request):
        self.scheduler.leave(request, "finished")


@wrong("23.3", "all-told")
class TellsOfAll(Step):
    def _accept(self, batch, tokens):
        super()._accept(batch, tokens)
        if self._finished:
            self._finished = list(batch)


@wrong("23.3", "others-told")
class TellsTwice(Step):
    def out(self, request):
        super().out(request)
        self._finished.append(request)


@wrong("23.3", "eos-ignored")
class CountsOnly(Step):
    def complete(self, request):
        return len(request.tokens) == request.run.max_new_tokens


@wrong("23.3", "other-end")
class DropsTheEos(Step):
    def out(self, request):
        super().out(request)
        if request.tokens[-1] in request.run.eos:
            request.tokens.pop()


@wrong("23.3", "eos-not-the-end")
class AbortsAtAnEos(Step):
    def out(self, request):
        self.scheduler.leave(request, "aborted" if request.tokens[-1] in request.run.eos else "finished")
        self._finished.append(request)


@wrong("23.3", "changed-while-walking")
class WalksOverTheRunning(Step):
    def _decode(self):
        running = self.scheduler.running
        logits = self.model(self.ids(running), self.slots)
        self.count()
        for slot, request in running.items():
            self._accept([request], self._choose([request], logits[slot]))


@wrong("23.3", "one-leaves-a-step")
class OneLeavesAtATime(Step):
    def _accept(self, batch, tokens):
        left = False
        for request, token in zip(batch, tokens, strict=True):
            request.tokens.append(token)
            self._tokens += 1
            if request.is_complete and not left:
                self.out(request)
                left = True


@wrong("23.3", "others-leave-too")
class TheRestLeavesToo(Step):
    def _accept(self, batch, tokens):
        super()._accept(batch, tokens)
        if len(self._finished) > 1:
            for request in list(self.scheduler.running.values()):
                self.out(request)


@wrong("23.3", "last-one-told-only")
class KeepsTheLast(Step):
    def out(self, request):
        self.scheduler.leave(request, "finished")
        self._finished = [request]


@wrong("23.3", "first-one-told-only")
class KeepsTheFirst(Step):
    def out(self, request):
        self.scheduler.leave(request, "finished")
        self._finished = self._finished or [request]


@wrong("23.3", "always-the-likeliest")
class TheArgmax(Step):
    def chosen(self, batch, rows):
        return rows.argmax(-1).tolist()


@wrong("23.3", "another-rule")
class TheOldestsRule(Step):
    def chosen(self, batch, rows):
        return [batch[-1].run.next_token(row) for row in rows]


@wrong("23.3", "steps-not-counted")
class CountsNoSteps(Step):
    def count(self):
        self.slots.advance()


@wrong("23.3", "tokens-not-counted")
class CountsNoTokens(Step):
    def _accept(self, batch, tokens):
        super()._accept(batch, tokens)
        self._tokens = 0


@wrong("23.3", "prefills-counted-only")
class CountsPromptsTokens(Step):
    def _decode(self):
        tokens = self._tokens
        super()._decode()
        self._tokens = tokens


@wrong("23.3", "idle-slots-counted")
class CountsIdleSlots(Step):
    def _decode(self):
        super()._decode()
        self._tokens += len(self.slots.free_slots())


@wrong("23.3", "each-token-a-step")
class CountsEachAsAStep(Step):
    def count(self):
        super().count()
        self._steps += len(self.scheduler.running) - 1


@wrong("23.3", "other-counts")
class CountsTextsForTokens(Step):
    def _accept(self, batch, tokens):
        super()._accept(batch, tokens)
        self._tokens = sum(len(request.tokens) for request in batch) + 1


@wrong("23.3", "failure-swallowed")
class GoesOnAfterAnError(Step):
    def _decode(self):
        try:
            super()._decode()
        except RuntimeError:
            print("the step failed")


@wrong("23.3", "advanced-too-early")
class AdvancesFirst(Step):
    def _decode(self):
        self.slots.advance()
        super()._decode()

    def count(self):
        self._steps += 1


@wrong("23.3", "step-counted-too-early")
class CountsTheStepFirst(Step):
    def _decode(self):
        self._steps += 1
        super()._decode()

    def count(self):
        self.slots.advance()


@wrong("23.3", "counted-too-early")
class CountsBothFirst(Step):
    def _decode(self):
        self._steps += 1
        self.slots.advance()
        super()._decode()

    def count(self):
        pass


@wrong("23.3", "lost-in-the-failure")
class DropsWhoFailed(Step):
    def _decode(self):
        try:
            super()._decode()
        except RuntimeError:
            for request in self.scheduler.running.values():
                request.tokens.pop()
            raise


@right("23.3")
class AllSlotsInOneList(nanoserve.Engine):
    """A list of who sits where, idle slots as None; nobody is told apart before the end."""

    def _decode(self):
        seats = [self.scheduler.running.get(slot) for slot in range(self.slots.num_slots)]
        ids = [[request.tokens[-1] if request else 0] for request in seats]
        rows = self.model(torch.tensor(ids, device=self.slots.device), self.slots)[:, 0].cpu()
        taken = [(request, request.run.next_token(row)) for request, row in zip(seats, rows, strict=True) if request]
        self.slots.advance()
        self._steps += 1
        self._accept(*zip(*taken, strict=True))

    def _accept(self, batch, tokens):
        self._tokens += len(batch)
        for request, token in zip(batch, tokens, strict=True):
            request.tokens += [token]
        done = [request for request in batch if request.is_complete]
        for request in done:
            self.scheduler.leave(request, "finished")
        self._finished.extend(done)


@right("23.3")
class OneTensorFilledInPlace(nanoserve.Engine):
    def _decode(self):
        slots, batch = zip(*self.scheduler.running.items(), strict=True)
        ids = torch.zeros(self.slots.num_slots, 1, dtype=torch.long)
        ids[list(slots), 0] = torch.tensor([request.tokens[-1] for request in batch])
        logits = self.model(ids.to(self.model.device), self.slots)
        tokens = self._choose(batch, torch.stack([logits[slot, -1] for slot in slots]))
        self._steps += 1
        self.slots.advance()
        self._accept(batch, tokens)

    def _accept(self, batch, tokens):
        for place, request in enumerate(batch):
            request.tokens.append(tokens[place])
        for request in filter(lambda request: request.is_complete, batch):
            self._finished += [request]
            self.scheduler.leave(request, "finished")
        self._tokens += len(tokens)
