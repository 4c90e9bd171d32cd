"""Stages of task 22.3: an admission that fails half-way has not happened."""

from nanoserve.course.exercises.day22.scene import admission, admit, new_slots
from nanoserve.course.exercises.day22.standing import as_it_was, failing, standing
from nanoserve.course.probe import Probe, named


def an_error_half_way_leaves_nothing(probe: Probe) -> None:
    """an error half-way leaves everything as it was"""
    error = MemoryError("the device is full")
    _fails(probe, "allocate_for", "asks for its blocks", error, "error-swallowed", "half-of-them-are-in")


def an_error_while_storing_leaves_nothing(probe: Probe) -> None:
    """an error while a prompt is stored leaves everything as it was, too"""
    error = MemoryError("the device is full")
    _fails(probe, "_store_prompt", "is stored", error, "error-swallowed", "half-of-them-are-stored")


def ctrl_c_half_way_leaves_nothing(probe: Probe) -> None:
    """so does Ctrl-C"""
    _fails(probe, "allocate_for", "asks for its blocks", KeyboardInterrupt(), "ctrl-c-swallowed", "ctrl-c-leaves-half")


def _fails(probe: Probe, method: str, when: str, error: BaseException, swallowed: str, kept: str) -> None:
    """The second of three rows fails in `method`."""
    slots = new_slots(probe, 4)
    admit(probe, slots, [1], [0], 6)
    before = standing(slots)
    line, call, *arguments = admission(probe, slots, [2, 0, 3], [3, 0, 1], 8)[1:]
    told = f"{line} → {type(error).__name__} when the second row {when}"
    came = None
    with failing(slots.allocator if method == "allocate_for" else slots, method, error) as failed:
        try:
            call(*arguments)
        except NotImplementedError:
            raise
        except BaseException as caught:
            came = caught
            if failed and came is not error:
                probe.calls.append(told)
                probe.fail(type(error).__name__, named(came), _of_the_clean_up(came))
    if not failed:  # it takes its blocks, or stores, in a way of its own
        return
    probe.calls.append(told)
    if came is None:
        probe.fail(type(error).__name__, "no error", swallowed)
    idle = {"free_slots()": [0, 2, 3]}
    as_it_was(probe, slots, before, kept, {"all-of-them-are-out": {"free_slots()": [0, 1, 2, 3]}, "left-behind": idle})


def _of_the_clean_up(error: BaseException) -> str:
    """The slip of another error than the one that came half-way."""
    if isinstance(error, KeyError):
        return "clean-up-raises"
    return "clean-up-has-a-slip" if isinstance(error, NameError | AttributeError | TypeError) else "error-replaced"
