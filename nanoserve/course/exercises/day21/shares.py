"""Task 21.1: how programs share a sequence, one mechanism each."""

import re
from math import ceil
from random import Random

import torch

from nanoserve.course.exercises.day19.misuses import NO_PYTHON, no_triton, returned
from nanoserve.course.kernels.launch import try_launch
from nanoserve.course.kernels.package import pack
from nanoserve.course.kernels.reference import KernelReference
from nanoserve.course.kernels.trial import builds, tried
from nanoserve.course.probe import Probe

# The kernel that walks over shares, and what it calls the learner's function.
DRIVER = {"driver": KernelReference(f"{__package__}.drivers", "shares_kernel"), "calls": "my_tokens"}
REFUSED = NO_PYTHON | {
    "must all be ints": "not-whole-numbers",
    "global variable": "plain-global",
    "": "not-compiled",
}
Share = tuple[int, int]


def shares_of(my_tokens: object, num_tokens: int, splits: int, tile: int) -> list[range]:
    """The tokens of each program's share, as this `my_tokens` deals them out.

    Raises:
        Exception: what it raised.
    """
    lens, shares, tiles = _arguments([num_tokens], 1, splits)
    run = try_launch(
        DRIVER["driver"], (1, 1, splits), (lens, shares, tiles), {"TILE": tile}, others={DRIVER["calls"]: my_tokens}
    )
    if run.error is not None:
        raise run.error
    return [range(first, end) for first, end in run.tensors["shares"][0, 0].tolist()]


def one_program_has_it_all(probe: Probe) -> None:
    """One program has the whole sequence."""
    sources = (function.source for function in pack(probe.subject).functions.values())
    pythons = any(re.search(r"(?<![.\w])(math|np|numpy)\.", source) for source in sources)
    slips = {
        "end-in-tiles": [(0, 5)],
        "end-of-the-last-tile": [(0, 20)],
        "rounded-by-python" if pythons else "tail-left-out": [(0, 16)],
        "one-tile-each": [(0, 4)],
        "last-token-left-out": [(0, 17)],
    }
    with (
        returned(probe, DRIVER["driver"].__name__, none="not-a-pair", other="not-a-pair"),
        probe.on_error(TypeError, slip="division-of-a-float", match="unexpected type fp"),
        no_triton(probe),
    ):
        _shared(probe, 18, 1, [(0, 18)], "wrong-share", slips)


def the_compiler_takes_it(probe: Probe) -> None:
    """The compiler, which takes less than the interpreter, takes the function."""
    lens, shares, tiles = _arguments([9], 1, 2)
    builds(probe, lens.int(), shares, tiles, TILE=4, slips=REFUSED, **DRIVER)


def two_programs_share_it(probe: Probe) -> None:
    """Two programs share sixteen tokens, in every row of the grid."""
    run = _tried(probe, *_arguments([16] * 5, 4, 2), 4)
    different = (run != run[0, 0]).flatten(2).any(2).nonzero().tolist()
    if different:
        batch, head = different[0]
        first, other = (_told(_pairs(run[place])) for place in ((0, 0), (batch, head)))
        came = f"{first} for sequence 0, head 0, and {other} for sequence {batch}, head {head}"
        probe.fail("the same shares for sequences of one length, and for every head", came, "another-axis")
    if _pairs(run[0, 0]) == [(0, 4), (4, 8)]:  # a share of four programs, or of five
        probe.fail(_told([(0, 8), (8, 16)]), _told(_pairs(run[0, 0])), "counts-another-axis")
    slips = {
        "no-program-id": [(0, 16), (0, 16)],
        "first-share-for-all": [(0, 8), (0, 8)],
        "length-for-the-end": [(0, 8), (8, 8)],
    }
    _shared(probe, 16, 2, [(0, 8), (8, 16)], "wrong-share", slips)


def shares_are_whole_tiles(probe: Probe) -> None:
    """Five tiles for two programs, and seven for four."""
    slips = {
        "not-whole-tiles": [(0, 10), (10, 20)],
        "tiles-left-out": [(0, 8), (8, 16)],
        "shares-overlap": [(0, 12), (8, 20)],
        "begins-by-its-own-share": [(0, 12), (8, 16)],
    }
    _shared(probe, 20, 2, [(0, 12), (12, 20)], "wrong-share", slips)
    slips = {"last-has-the-rest": [(0, 4), (4, 8), (8, 12), (12, 28)]}
    _shared(probe, 28, 4, [(0, 8), (8, 16), (16, 24), (24, 28)], "wrong-share", slips)


def it_ends_with_the_sequence(probe: Probe) -> None:
    """The sequence ends within a tile."""
    _shared(probe, 9, 2, [(0, 8), (8, 9)], "wrong-share", {})


def programs_past_the_end_have_nothing(probe: Probe) -> None:
    """More programs than tiles, and a sequence without a token."""
    slips = {"last-program-only": [(0, 4), (4, 8), (8, 12), (12, 16)]}
    _shared(probe, 9, 5, [(0, 4), (4, 8), (8, 9), (12, 9), (16, 9)], "past-the-end", slips)
    _shared(probe, 0, 2, [(0, 0), (0, 0)], "nothing-to-share", {})


def any_length_any_tile(probe: Probe) -> None:
    """Tiles and programs of any number."""
    rng = Random(21)
    for tile in (1, 16, 128):
        splits, tokens = rng.randrange(1, 9), rng.randrange(1, 1000)
        _shared(probe, tokens, splits, _dealt(tokens, splits, tile), "size-written-in", {}, tile=tile)


def _shared(
    probe: Probe,
    tokens: int,
    splits: int,
    expected: list[Share],
    slip: str,
    slips: dict[str, list[Share]],
    tile: int = 4,
) -> None:
    """One case: each token has one program, the shares are whole tiles, and none is longer than it need be."""
    lens, shares, tiles = _arguments([tokens], 1, splits)
    came = _pairs(_tried(probe, lens, shares, tiles, tile)[0, 0])
    most = max(end - first for first, end in expected)

    def same(one: list[Share], other: list[Share]) -> bool:
        if other is expected:
            return _fair(one, tokens, tile, most)
        return _held(one) == _held(other)

    probe.equal(came, expected, slip, slips, same=same, told=_told)


def _fair(shares: list[Share], tokens: int, tile: int, most: int) -> bool:
    """Whether these shares are as good as any: there is more than one way to deal seven tiles out to four."""
    held = _held(shares)
    whole = all(first % tile == 0 and (end % tile == 0 or end == tokens) for first, end in held)
    dealt = [token for first, end in held for token in range(first, end)]
    return whole and sorted(dealt) == list(range(tokens)) and all(end - first <= most for first, end in held)


def _held(shares: list[Share]) -> list[Share]:
    return [(first, end) for first, end in shares if first < end]


def _dealt(tokens: int, splits: int, tile: int) -> list[Share]:
    share = ceil(ceil(tokens / tile) / splits) * tile
    return [(split * share, min(split * share + share, tokens)) for split in range(splits)]


def _tried(probe: Probe, lens: torch.Tensor, shares: torch.Tensor, tiles: torch.Tensor, tile: int) -> torch.Tensor:
    slips = {"race": "wrong-share", "reads": "wrong-share", "writes": "wrong-share"}
    run = tried(probe, tuple(tiles.shape), lens, shares, tiles, TILE=tile, **DRIVER, **slips)
    probe.calls[-1] = f"my_tokens({lens[0]}, TILE={tile}), in each program of the grid {tuple(tiles.shape)}"
    return run.tensors["shares"]


def _arguments(lens: list[int], heads: int, splits: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    shape = len(lens), heads, splits
    return torch.tensor(lens), torch.full((*shape, 2), -1), torch.full(shape, -1)


def _pairs(shares: torch.Tensor) -> list[Share]:
    return [tuple(pair) for pair in shares.tolist()]


def _told(shares: list[Share]) -> str:
    return ", ".join(f"[{first}, {end})" if first < end else "nothing" for first, end in shares)
