"""Task 19.3: each mechanism of a gather through the block table, alone."""

from collections.abc import Callable

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
from nanoserve.course.kernels.jobs import Window
from nanoserve.course.kernels.launch import Run
from nanoserve.course.kernels.trial import Outside, builds, close, numbers, tried, undefined
from nanoserve.course.probe import Probe

Giveaway = torch.Tensor | Callable[[torch.Tensor], bool]  # what gives a slip away: the rows, or what is true of them


def one_block(probe: Probe) -> None:
    """Two tokens in one block, which is not the pool's first."""
    keeps_its_pointers(probe, "pool_ptr", "table_ptr", "out_ptr")
    pool = _pool(4, 2, 4)
    flat = pool.view(-1, 4)
    slips = {
        "table-ignored": flat[:2],
        "id-for-slot": flat[3:5],
        "one-slot-for-all": flat[[6, 6]],
        "rows-overlap": torch.stack([pool.flatten()[slot : slot + 4] for slot in (6, 7)]),
        "first-number-for-all": flat[6:8, :1].expand(2, 4),
        "through-fp32": lambda rows: bool(((rows - flat[6:8]).abs() <= flat[6:8] / 128).all()),
    }

    def outside(access: Access) -> str:
        return {"table": "token-for-entry", "out": "stored-by-slot"}.get(access.tensor, "row-too-far")

    with (
        probe.on_error(ValueError, slip="shapes-do-not-meet", match="incompatible dimensions|to have shape"),
        raised(probe, "block-at-a-pointer"),
    ):
        run = _run(probe, pool, [3], 2, 2, 2, 4, outside)
    slips[unwritten(run, "out")] = undefined(2, 4)
    _equal(probe, run.tensors["out"], flat[6:8], "wrong-rows", slips)


def the_compiler_takes_it(probe: Probe) -> None:
    """The compiler, which takes less than the interpreter, takes the kernel."""
    table = torch.zeros(2, dtype=torch.int32)
    constants = {"DIM": 3, "DIM_PAD": 4, "TILE": 4}
    slips = {"power of 2": "no-power-of-two"} | REFUSED
    builds(probe, torch.zeros(4, 2, 3), table, torch.zeros(4, 3), 4, 2, **constants, slips=slips)


def blocks_that_lie_scattered(probe: Probe) -> None:
    """Four tokens in two blocks of 2."""
    pool = _pool(8, 2, 4)
    flat = pool.view(-1, 4)
    slips = {
        "offset-not-reduced": flat[[4, 5, 2, 3]],
        "one-entry-for-all": flat[[4, 5, 4, 5]],
        "counted-on": flat[[4, 5, 6, 7]],
        "one-slot-for-all": flat[[4, 4, 0, 0]],
    }
    _gathered(probe, pool, [2, 0], 4, 4, "wrong-rows", slips, "token-for-entry")


def the_last_tile_ends_with_the_sequence(probe: Probe) -> None:
    """Nine tokens for three programs of 4; then eight for two, where each has four of its own."""
    pool = _pool(8, 2, 4)
    rows = pool.view(-1, 4)[[4, 5, 0, 1, 2, 3, 12, 13, 8]]

    def outside(access: Access) -> str:
        slips = {"table": "table-not-masked", "out": masked_by_and(probe) or "tokens-not-masked"}
        return slips.get(access.tensor, "row-too-far")

    run = _run(probe, pool, [2, 0, 1, 6, 4], 9, 4, 2, 4, outside)
    slips = {
        "one-program-only" if writers(run) == {0} else "no-program-id": torch.cat([rows[:4], undefined(5, 4)]),
        "not-times-tile": torch.cat([rows[:6], undefined(3, 4)]),
    }
    if _first_row(run, 1) == 2:
        slips["times-the-block-size"] = torch.cat([rows[:8], undefined(1, 4)])
    _equal(probe, run.tensors["out"], rows, "wrong-tile", slips)
    run = _run(probe, pool, [2, 0, 1, 6], 8, 4, 2, 4, outside)
    _equal(probe, run.tensors["out"], rows[:8], "wrong-tile", {})
    fails_unless_dealt_out(probe, run)


def a_width_that_is_no_power_of_two(probe: Probe) -> None:
    """Rows of 3 numbers, in tiles 4 wide; then with the pool's last row among them."""
    pool = _pool(8, 2, 3)
    flat = torch.cat([pool.flatten(), undefined(80)])
    slips = {"rows-by-the-pad": torch.stack([flat[4 * slot : 4 * slot + 3] for slot in (4, 5, 0, 1)])}

    def outside(access: Access) -> str:
        if access.tensor == "pool":
            return "load-not-masked-by-width"
        return unmasked if 3 in access.elements else "rows-by-the-pad"

    unmasked = masked_by_and(probe) or "width-not-masked"
    _gathered(probe, pool, [2, 0], 4, 4, "wrong-width", slips, outside, race=unmasked)
    _gathered(probe, pool, [2, 7], 4, 4, "wrong-width", {}, outside, race=unmasked)


def a_block_of_any_size(probe: Probe) -> None:
    """Blocks of 3 tokens, and of 5."""
    for size in (3, 5):
        _gathered(probe, _pool(4, size, 4), [2, 0, 3], 7, 4, "size-written-in", {}, "size-written-in")


def a_pool_beyond_int32(probe: Probe) -> None:
    """A pool of more than 2**31 numbers, of which only the last block is there."""
    block, size = 2**19, 2**12
    window = Window(_pool(1, size, 3), block * size * 3)
    run = _run(probe, window, [block], 2, 2, size, 3, "int32")
    _equal(probe, run.tensors["out"], window.tensor[0, :2], "int32", {})


def agrees_with_torch_indexing(probe: Probe) -> None:
    """Sequences of many lengths and widths, in fp16 too."""
    generator = torch.Generator().manual_seed(19)
    for tokens, size, dim, tile in [(1, 1, 1, 1), (9, 4, 80, 8), (33, 16, 5, 16), (20, 7, 64, 32)]:
        pool = torch.randn(12, size, dim, generator=generator).half()
        table = torch.randperm(12, generator=generator)[: -(-tokens // size)].tolist()
        _gathered(probe, pool, table, tokens, tile, "other-sizes", {}, "other-sizes")


def _gathered(
    probe: Probe,
    pool: torch.Tensor,
    table: list[int],
    tokens: int,
    tile: int,
    slip: str,
    slips: dict[str, Giveaway],
    outside: Outside,
    race: str = "programs-overlap",
) -> None:
    size, dim = pool.shape[1:]
    run = _run(probe, pool, table, tokens, tile, size, dim, outside, race)
    slots = [table[token // size] * size + token % size for token in range(tokens)]
    _equal(probe, run.tensors["out"], pool.view(-1, dim)[slots], slip, slips)


def _run(
    probe: Probe,
    pool: torch.Tensor | Window,
    table: list[int],
    tokens: int,
    tile: int,
    size: int,
    dim: int,
    outside: Outside,
    race: str = "programs-overlap",
) -> Run:
    probe.calls.append(f"table = {table}")
    dtype = (pool.tensor if isinstance(pool, Window) else pool).dtype
    run = tried(
        probe,
        (-(-tokens // tile),),
        pool,
        torch.tensor(table, dtype=torch.int32),
        undefined(tokens, dim, dtype=dtype),
        tokens,
        size,
        DIM=dim,
        DIM_PAD=1 << (dim - 1).bit_length(),
        TILE=tile,
        race=race,
        reads=outside,
        writes=outside,
    )
    only_writes(probe, run, "out")
    return run


def _first_row(run: Run, program: int) -> int:
    """The first row of `out`, of four numbers, that a program wrote; -1 if it wrote none."""
    stores = (access for access in run.accesses if access.kind == "write" and access.program[0] == program)
    return min((int(access.elements.min()) // 4 for access in stores if access.elements.size), default=-1)


def _equal(probe: Probe, came: torch.Tensor, expected: torch.Tensor, slip: str, slips: dict[str, Giveaway]) -> None:
    """One case: these rows; of a difference, the first row is told."""

    def told(rows: torch.Tensor) -> str:
        wrong = [not close(one, other) for one, other in zip(came, expected, strict=True)].index(True)
        return f"out[{wrong}] = {numbers(rows[wrong][:8])}"

    probe.equal(came, expected, slip, slips, same=_fits, told=told)


def _fits(came: torch.Tensor, giveaway: Giveaway) -> bool:
    return giveaway(came) if callable(giveaway) else close(came, giveaway)


def _pool(num_blocks: int, block_size: int, dim: int) -> torch.Tensor:
    """A pool whose numbers say where they lie: number d of slot s is s + d / 10."""
    slots = torch.arange(num_blocks * block_size).unsqueeze(1)
    return (slots + torch.arange(dim) / 10).view(num_blocks, block_size, dim)
