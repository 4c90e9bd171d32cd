"""Task 20.1: each mechanism of an address, alone. Addresses are compared as numbers: nothing is loaded from them."""

from collections.abc import Callable
from math import prod

import torch

from nanoserve.course.exercises.day19.misuses import NO_PYTHON, no_triton, returned
from nanoserve.course.kernels.reference import KernelReference
from nanoserve.course.kernels.trial import builds, tried
from nanoserve.course.probe import Probe

DRIVER = KernelReference(f"{__package__}.drivers", "token_offsets_driver")
CALLS = "token_offsets"
REFUSED = NO_PYTHON | {
    "global variable": "plain-global",
    "Boolean value": "if-on-a-vector",
    "": "not-compiled",
}


def one_block(probe: Probe) -> None:
    """Two tokens in one block, which is not the pool's first."""
    slips = {
        "index-for-id": [0, 4],
        "stride-forgotten": [3, 7],
        "token-forgotten": [24, 24],
        "slot-for-offset": [6, 7],
        "strides-swapped": [12, 20],
        "bytes": [96, 112],
        "address-for-id": lambda came: came[0] > 2**40,
    }
    _offsets(probe, [3], 2, 2, (8, 4), "wrong-offsets", slips)


def the_compiler_takes_it(probe: Probe) -> None:
    """The compiler, which takes less than the interpreter, takes the function."""
    table, out = torch.zeros(2, dtype=torch.int32), torch.zeros(4, dtype=torch.int64)
    builds(probe, table, out, 0, 4, 2, 8, 4, TILE=4, slips=REFUSED, driver=DRIVER, calls=CALLS)


def blocks_that_lie_scattered(probe: Probe) -> None:
    """A tile over two blocks, and the tile after it."""
    slips = {
        "offset-not-reduced": [24, 28, 8, 12],
        "counted-on": [24, 28, 32, 36],
        "one-entry-for-all": [24, 28, 24, 28],
    }
    _offsets(probe, [3, 0], 4, 2, (8, 4), "wrong-offsets", slips)
    _offsets(probe, [1, 5, 5, 3, 5], 10, 2, (8, 4), "wrong-tile", {}, first=6)


def the_same_in_every_program(probe: Probe) -> None:
    """Eight programs, in a grid of 2 x 2 x 2, ask for the same tokens of the same table."""
    _offsets(probe, [3, 0, 1], 6, 2, (8, 4), "program-counted", {}, reads="program-counted", grid=(2, 2, 2))


def the_last_tile_is_not_full(probe: Probe) -> None:
    """Five tokens: the last three lanes of the second tile hold none."""
    _offsets(probe, [3, 0, 1], 5, 2, (8, 4), "wrong-tile", {}, reads="table-not-masked", first=4)


def a_block_of_any_size(probe: Probe) -> None:
    """Blocks of 3 tokens, and of 16."""
    _offsets(probe, [2, 0, 3], 7, 3, (12, 4), "size-written-in", {}, reads="size-written-in", tile=8)
    _offsets(probe, [2], 4, 16, (64, 4), "size-written-in", {}, reads="size-written-in")


def blocks_of_all_layers_together(probe: Probe) -> None:
    """A pool in which a block of this layer is followed by the same block of other layers."""
    _offsets(probe, [2, 1], 4, 2, (24, 4), "stride-from-the-size", {})


def a_pool_beyond_int32(probe: Probe) -> None:
    """A pool of more than 2**31 elements."""
    stride = 2**20 + 64
    right = [2100 * stride, 2100 * stride + 64, 7 * stride, 7 * stride + 64]
    floats = torch.tensor(right, dtype=torch.float32).long().tolist()
    _offsets(probe, [2100, 7], 4, 2, (stride, 64), "int32", {"counted-in-floats": floats})


def any_sizes(probe: Probe) -> None:
    """Tables, blocks and strides of many sizes."""
    draw = torch.Generator().manual_seed(20)
    for tokens, size, strides, tile in [(1, 1, (64, 64), 1), (33, 4, (3072, 192), 64), (20, 24, (5000, 80), 32)]:
        table = torch.randperm(40, generator=draw)[: -(-tokens // size)].tolist()
        _offsets(probe, table, tokens, size, strides, "other-sizes", {}, tile=tile)


def _offsets(
    probe: Probe,
    table: list[int],
    num_tokens: int,
    block_size: int,
    strides: tuple[int, int],
    slip: str,
    slips: dict[str, list[int] | Callable[[list[int]], bool]],
    reads: str = "token-for-entry",
    first: int = 0,
    tile: int = 4,
    grid: tuple[int, ...] = (1,),
) -> None:
    """One case: the offsets of the held tokens, in the first program to which others came."""
    tile = min(tile, 1 << (num_tokens - 1).bit_length())
    probe.calls.append(f"table = {table}, tokens {first} to {min(first + tile, num_tokens) - 1}")
    sizes = (first, num_tokens, block_size, *strides)
    out, ids = torch.zeros(prod(grid), tile, dtype=torch.int64), torch.tensor(table, dtype=torch.int32)
    with returned(probe, DRIVER.__name__, none="no-return", other="other-return"), no_triton(probe):
        run = tried(
            probe, grid, ids, out, *sizes, TILE=tile, race=slip, reads=reads, writes=slip, driver=DRIVER, calls=CALLS
        )
    tokens = range(first, min(first + tile, num_tokens))
    right = [table[token // block_size] * strides[0] + token % block_size * strides[1] for token in tokens]
    rows = [row[: len(right)] for row in run.tensors["out"].tolist()]

    def same(came: list[int], other: list[int] | Callable[[list[int]], bool]) -> bool:
        return other(came) if callable(other) else came == other

    probe.equal(next((row for row in rows if row != right), right), right, slip, slips, same=same)
