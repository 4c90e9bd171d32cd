"""Task 19.1: each mechanism of a copy, alone."""

import torch

from nanoserve.course.exercises.day19.misuses import (
    REFUSED,
    fails_unless_dealt_out,
    keeps_its_pointers,
    masked_by_and,
    only_writes,
    raised,
    unwritten,
    writers,
)
from nanoserve.course.kernels.accesses import Access
from nanoserve.course.kernels.launch import Run
from nanoserve.course.kernels.trial import Outside, builds, close, numbers, tried, undefined
from nanoserve.course.probe import Probe

NAN = torch.nan


def one_program_copies_its_block(probe: Probe) -> None:
    """One program, and just as many elements as its block has."""
    keeps_its_pointers(probe, "x_ptr", "y_ptr")
    x, y = torch.arange(10.0, 18.0), undefined(8)

    def outside(access: Access) -> str:
        return "bytes" if len(access.elements) > 1 and not (access.elements % 4).any() else "beyond-the-block"

    with (
        raised(probe, "scalar-pointer"),
        probe.on_error(AssertionError, slip="place-for-value", match="cannot cast"),  # a pointer to a number
    ):
        run = tried(
            probe,
            (1,),
            x,
            y,
            8,
            BLOCK=8,
            race="lanes-in-one-place",
            reads=outside,
            writes=outside,
        )
    if not close(run.tensors["x"], x):
        probe.fail(f"x = {numbers(x)}", f"x = {numbers(run.tensors['x'])}", "wrong-way-round")
    slips = {
        unwritten(run, "y"): undefined(8),
        "place-for-value": torch.arange(8.0),
        "one-value-for-all": torch.full((8,), 10.0),
        "one-element": torch.tensor([10.0, *[NAN] * 7]),
        "last-left-out": torch.tensor([*x[:-1], NAN]),
        "bytes": torch.tensor([10.0, *[NAN] * 3, 14.0, *[NAN] * 3]),
    }
    _equal(probe, run.tensors["y"], x, "wrong-copy", slips)


def the_compiler_takes_it(probe: Probe) -> None:
    """The compiler, which takes less than the interpreter, takes the kernel."""
    builds(probe, torch.zeros(8), torch.zeros(8), 8, BLOCK=8, slips=REFUSED)


def each_program_has_a_part_of_its_own(probe: Probe) -> None:
    """Two programs with a block each."""
    x = torch.arange(10.0, 26.0)
    run = _tried(probe, 2, 8, x, race="stores-in-one-place", outside="too-far")
    first, rest = x[:8], [NAN] * 8
    slips = {
        "one-program-only" if writers(run) == {0} else "no-program-id": torch.tensor([*first, *rest]),
        "not-times-block": torch.tensor([*x[:9], *rest[1:]]),
        "nothing-stored": undefined(16),
        "loads-from-one-place": torch.tensor([*first, *first]),
    }
    _equal(probe, run.tensors["y"], x, "wrong-part", slips)
    fails_unless_dealt_out(probe, run)


def fewer_elements_than_a_block_has(probe: Probe) -> None:
    """Five elements, and a block of 8."""
    x = torch.arange(10.0, 15.0)

    def outside(access: Access) -> str:
        if access.elements.max() == 5:
            return "one-past-the-end"
        return masked_by_and(probe) or ("load-not-masked" if access.kind == "read" else "store-not-masked")

    slips = {"last-left-out": torch.tensor([*x[:-1], NAN]), "whole-blocks-only": undefined(5)}
    _copied(probe, 1, 8, x, "wrong-end", slips, race="wrong-end", outside=outside)


def the_last_block_is_cut_where_the_elements_end(probe: Probe) -> None:
    """Nineteen elements: two whole blocks and a part of one."""
    x = torch.arange(10.0, 29.0)
    _copied(probe, 3, 8, x, "wrong-end", {}, race="wrong-end", outside="lanes-compared")


def programs_past_the_end_do_nothing(probe: Probe) -> None:
    """More programs than there is work for."""
    _copied(probe, 3, 8, torch.arange(10.0, 13.0), "wrong-end", {}, race="wrong-end", outside="lanes-compared")


def a_block_of_any_size(probe: Probe) -> None:
    """Ten elements in blocks of 4, and in blocks of 16."""
    x = torch.arange(10.0, 20.0)
    for programs, block in [(3, 4), (1, 16)]:
        _copied(probe, programs, block, x, "size-written-in", {}, race="size-written-in", outside="size-written-in")


def other_numbers_than_fp32(probe: Probe) -> None:
    """Integers too large for fp32, and halves."""
    for x in (torch.tensor([2**53 + 1, 7, -1]), torch.tensor([0.5, 3.0, -65504.0], dtype=torch.float16)):
        run = tried(
            probe, (1,), x, torch.zeros_like(x), 3, BLOCK=4, race="wrong-end", reads="wrong-end", writes="wrong-end"
        )
        probe.equal(run.tensors["y"].tolist(), x.tolist(), "through-fp32")


def _copied(
    probe: Probe,
    programs: int,
    block: int,
    x: torch.Tensor,
    slip: str,
    slips: dict[str, torch.Tensor],
    race: str,
    outside: Outside,
) -> None:
    _equal(probe, _tried(probe, programs, block, x, race, outside).tensors["y"], x, slip, slips)


def _tried(probe: Probe, programs: int, block: int, x: torch.Tensor, race: str, outside: Outside) -> Run:
    y = undefined(len(x))
    run = tried(probe, (programs,), x, y, len(x), BLOCK=block, race=race, reads=outside, writes=outside)
    only_writes(probe, run, "y")
    return run


def _equal(probe: Probe, came: torch.Tensor, expected: torch.Tensor, slip: str, slips: dict[str, torch.Tensor]) -> None:
    probe.equal(came, expected, slip, slips, same=close, told=lambda y: f"y = {numbers(y)}")
