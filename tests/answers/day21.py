"""Day 21: shares, reduces and `attend`s that people write."""

import linecache
import math
from typing import ClassVar

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from nanoserve.cache import KVCache, PagedKVCache
from nanoserve.course.tasks import find
from nanoserve.kernels import paged_attention
from tests.answers import Right, Wrong

WRONG: list[Wrong] = []
LARGEST = -1e30
SIZES = [1]


def wrong(task: str, slip: str):
    def keep(answer):
        WRONG.append(Wrong(task, slip, answer))
        return answer

    return keep


# ---- 21.1: a program's share
@triton.jit
def returns_one_number(seq_len, TILE: tl.constexpr):
    return seq_len


@triton.jit
def divides_with_a_slash(seq_len, TILE: tl.constexpr):
    share = seq_len / tl.num_programs(2)
    first = tl.program_id(2) * share
    return first, tl.minimum(first + share, seq_len)


@triton.jit
def stays_with_tiles(seq_len, TILE: tl.constexpr):
    tiles = tl.cdiv(seq_len, TILE)
    share = tl.cdiv(tiles, tl.num_programs(2))
    first = tl.program_id(2) * share
    return first, tl.minimum(first + share, tiles)


@triton.jit
def forgets_the_end(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(tl.cdiv(seq_len, TILE), tl.num_programs(2)) * TILE
    first = tl.program_id(2) * share
    return first, first + share


@triton.jit
def counts_full_tiles(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(seq_len // TILE, tl.num_programs(2)) * TILE
    first = tl.program_id(2) * share
    return first, tl.minimum(first + share, seq_len)


@triton.jit
def takes_one_tile(seq_len, TILE: tl.constexpr):
    first = tl.program_id(2) * TILE
    return first, tl.minimum(first + TILE, seq_len)


@triton.jit
def counts_from_one(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(tl.cdiv(seq_len, TILE), tl.num_programs(2)) * TILE
    first = tl.program_id(2) * share
    return first + share, tl.minimum(first + 2 * share, seq_len)


@triton.jit
def reads_a_plain_global(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(tl.cdiv(seq_len, TILE), tl.num_programs(2)) * TILE
    first = tl.program_id(2) * share
    return tl.maximum(first, LARGEST).to(tl.int64), tl.minimum(first + share, seq_len)


@triton.jit
def walks_and_breaks(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(tl.cdiv(seq_len, TILE), tl.num_programs(2)) * TILE
    first = 0
    for split in range(tl.num_programs(2)):
        if split == tl.program_id(2):
            break
        first += share
    return first, tl.minimum(first + share, seq_len)


@triton.jit
def asks_the_first_axis(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(tl.cdiv(seq_len, TILE), tl.num_programs(2)) * TILE
    first = tl.program_id(0) * share
    return first, tl.minimum(first + share, seq_len)


@triton.jit
def never_asks_which(seq_len, TILE: tl.constexpr):
    return 0, seq_len


@triton.jit
def begins_at_zero(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(tl.cdiv(seq_len, TILE), tl.num_programs(2)) * TILE
    return 0, tl.minimum(share, seq_len)


@triton.jit
def gives_a_length(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(tl.cdiv(seq_len, TILE), tl.num_programs(2)) * TILE
    first = tl.program_id(2) * share
    return first, tl.minimum(share, seq_len - first)


@triton.jit
def cuts_tiles(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(seq_len, tl.num_programs(2))
    first = tl.program_id(2) * share
    return first, tl.minimum(first + share, seq_len)


@triton.jit
def rounds_down(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(seq_len, TILE) // tl.num_programs(2) * TILE
    first = tl.program_id(2) * share
    return first, tl.minimum(first + share, seq_len)


@triton.jit
def leaves_the_rest_to_the_last(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(seq_len, TILE) // tl.num_programs(2) * TILE
    first = tl.program_id(2) * share
    last = tl.program_id(2) == tl.num_programs(2) - 1
    return first, tl.where(last, seq_len, first + share)


@triton.jit
def rounds_one_up_and_one_down(seq_len, TILE: tl.constexpr):
    tiles = tl.cdiv(seq_len, TILE)
    first = tl.program_id(2) * (tiles // tl.num_programs(2)) * TILE
    return first, tl.minimum(first + tl.cdiv(tiles, tl.num_programs(2)) * TILE, seq_len)


@triton.jit
def begins_by_its_own_share(seq_len, TILE: tl.constexpr):
    tiles, programs, mine = tl.cdiv(seq_len, TILE), tl.num_programs(2), tl.program_id(2)
    share = tiles // programs + tl.where(mine < tiles % programs, 1, 0)
    first = mine * share * TILE
    return first, tl.minimum(first + share * TILE, seq_len)


@triton.jit
def stops_the_last_program(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(tl.cdiv(seq_len, TILE), tl.num_programs(2)) * TILE
    first = tl.program_id(2) * share
    last = tl.program_id(2) == tl.num_programs(2) - 1
    return first, tl.where(last, seq_len, first + share)


@triton.jit
def stops_whom_it_reaches(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(tl.cdiv(seq_len, TILE), tl.num_programs(2)) * TILE
    first = tl.program_id(2) * share
    return first, tl.where(first < seq_len, tl.minimum(first + share, seq_len), first + share)


@triton.jit
def gives_everybody_a_token(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(tl.cdiv(seq_len, TILE), tl.num_programs(2)) * TILE
    first = tl.program_id(2) * share
    return first, tl.maximum(tl.minimum(first + share, seq_len), 1)


@triton.jit
def knows_the_tile(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(tl.cdiv(seq_len, 4), tl.num_programs(2)) * 4
    first = tl.program_id(2) * share
    return first, tl.minimum(first + share, seq_len)


@triton.jit
def divides_a_float_again(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(seq_len / TILE, tl.num_programs(2)) * TILE
    first = tl.program_id(2) * share
    return first, tl.minimum(first + share, seq_len)


@triton.jit
def rounds_with_math(seq_len, TILE: tl.constexpr):
    share = math.ceil(math.ceil(seq_len / TILE) / tl.num_programs(2)) * TILE
    first = tl.program_id(2) * share
    return first, tl.minimum(first + share, seq_len)


@triton.jit
def ends_with_the_last_token(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(tl.cdiv(seq_len, TILE), tl.num_programs(2)) * TILE
    first = tl.program_id(2) * share
    return first, tl.minimum(first + share, seq_len - 1)


@triton.jit
def counts_the_heads(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(tl.cdiv(seq_len, TILE), tl.num_programs(1)) * TILE
    first = tl.program_id(2) * share
    return first, tl.minimum(first + share, seq_len)


@triton.jit
def rounds_up_as_the_host_does(seq_len, TILE: tl.constexpr):
    share = tl.cdiv(triton.cdiv(seq_len, TILE), tl.num_programs(2)) * TILE
    first = tl.program_id(2) * share
    return first, tl.minimum(first + share, seq_len)


@triton.jit
def deals_evenly(seq_len, TILE: tl.constexpr):
    tiles, programs, mine = tl.cdiv(seq_len, TILE), tl.num_programs(2), tl.program_id(2)
    first = mine * tiles // programs * TILE
    return first, tl.minimum((mine + 1) * tiles // programs * TILE, seq_len)


@triton.jit
def larger_shares_first(seq_len, TILE: tl.constexpr):
    tiles, programs, mine = tl.cdiv(seq_len, TILE), tl.num_programs(2), tl.program_id(2)
    small, larger = tiles // programs, tiles % programs
    first = (mine * small + tl.minimum(mine, larger)) * TILE
    share = small * TILE
    if mine < larger:
        share += TILE
    return first, min(first + share, seq_len)


@triton.jit
def leaves_early(seq_len, TILE: tl.constexpr):
    per_program = (seq_len + TILE * tl.num_programs(2) - 1) // (TILE * tl.num_programs(2)) * TILE
    first = per_program * tl.program_id(2)
    if first >= seq_len:
        return seq_len, seq_len
    return first, tl.minimum(seq_len, first + per_program)


# ---- 21.2: putting the shares together
@triton.jit
def stores_nothing(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    tl.sum(weights[:, None] * parts, axis=0)


@triton.jit
def stores_one_number(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h, tl.sum(tl.where(dims == 0, mixed, 0.0), axis=0))


@triton.jit
def stores_at_a_scalar(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h, mixed)


@triton.jit
def never_divides(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse)
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    mixed = tl.sum(weights[:, None] * parts, axis=0)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def counts_heads_from_one(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1) + 1
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def takes_a_plain_global_off(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), LARGEST))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def breaks_out_of_a_loop(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.zeros([DIM_PAD], tl.float32)
    for split in range(SPLITS_PAD):
        if split >= n:
            break
        mixed += tl.sum(tl.where(share[:, None] == split, weights[:, None] * parts, 0.0), axis=0)
    mixed = mixed / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def takes_the_mean(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    weights = tl.where(share < n, 1.0, 0.0)
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def adds_up(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    weights = tl.where(share < n, 1.0, 0.0)
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    mixed = tl.sum(weights[:, None] * parts, axis=0)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def weighs_by_the_log(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.where(share < n, lse, 0.0)
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def powers_of_two(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp2(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def divides_by_the_count(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = n
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def only_takes_the_largest_off(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    mixed = tl.sum(weights[:, None] * parts, axis=0)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def keeps_the_first(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    weights = tl.where(share == 0, 1.0, 0.0)
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def squares_the_weights(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(2 * (lse - tl.maximum(tl.max(lse, axis=0), -1e30)))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def never_asks_which_program(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = 0, 0
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def loads_one_head_for_all(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def forgets_the_sequence(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = head * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def forgets_the_head(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = batch * tl.num_programs(1) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def forgets_the_splits(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = batch * tl.num_programs(1) + head + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def swaps_heads_and_sequences(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (head * tl.num_programs(0) + batch) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def takes_the_splits_for_the_slower(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = batch * tl.num_programs(1) * n + share * tl.num_programs(1) + head
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def stores_all_at_the_beginning(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + dims, mixed, mask=dims < DIM)


@triton.jit
def gives_no_other(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n)
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def pads_with_zero(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=0.0)
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def leaves_the_last_out(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=(share < n - 1) | (n < 3), other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def masks_no_share(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row)
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def masks_no_width(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM_PAD)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed)


@triton.jit
def rows_as_wide_as_the_pad(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM_PAD + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def leaves_out_the_last_number(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < 2 * DIM - DIM_PAD)


@triton.jit
def makes_the_infinite_a_number(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    finite = tl.where(lse == float("-inf"), 0.0, lse)
    weights = tl.where(share < n, tl.exp(finite - tl.max(finite, axis=0)), 0.0)
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def exponentiates_at_once(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse)
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def takes_an_infinite_largest_off(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.max(lse, axis=0))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def works_the_strides_out(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + (batch * tl.num_programs(1) + head) * DIM + dims, mixed, mask=dims < DIM)


@triton.jit
def is_64_wide_at_most(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < tl.minimum(DIM, 64))[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def sums_the_numbers(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, 1) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def halves_the_result(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = (tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)).to(tl.float16)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def dots_the_shares(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(tl.dot(weights[None, :], parts), axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def lays_the_weights_across(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[None, :] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def swaps_the_outputs_strides(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_h + head * out_b + dims, mixed, mask=dims < DIM)


@triton.jit
def weighs_by_the_first_sequence(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + head * n + share, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def takes_the_smallest_off(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    largest = tl.maximum(tl.min(lse, axis=0), -1e30)
    weights = tl.exp(lse - largest)
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def counts_rows_by_the_pad(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * SPLITS_PAD + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def takes_zero_off_at_least(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    largest = tl.maximum(tl.max(lse, axis=0), 0.0)
    weights = tl.exp(lse - largest)
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    total = tl.sum(weights, axis=0)
    mixed = tl.sum(weights[:, None] * parts, axis=0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def shares_first(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    weights = tl.exp(lse - tl.maximum(tl.max(lse, axis=0), -1e30))
    weights /= tl.maximum(tl.sum(weights, axis=0), 1e-30)
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    mixed = tl.sum(weights[:, None] * parts, axis=0)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def one_share_a_turn(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    dims = tl.arange(0, DIM_PAD)
    first = (batch * tl.num_programs(1) + head) * n
    largest, total = -1e30, 0.0
    mixed = tl.zeros([DIM_PAD], tl.float32)
    for row in range(first, first + n):
        lse = tl.load(lse_ptr + row)
        higher = tl.maximum(largest, lse)
        shrink, weight = tl.exp(largest - higher), tl.exp(lse - higher)
        mixed = mixed * shrink + weight * tl.load(parts_ptr + row * DIM + dims, mask=dims < DIM, other=0.0)
        total = total * shrink + weight
        largest = higher
    mixed = mixed / tl.maximum(total, 1e-30)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


@triton.jit
def a_log_sum_exp_of_them_all(
    parts_ptr, lse_ptr, out_ptr, n, out_b, out_h, SPLITS_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr
):
    batch, head = tl.program_id(0), tl.program_id(1)
    share, dims = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    row = (batch * tl.num_programs(1) + head) * n + share
    lse = tl.load(lse_ptr + row, mask=share < n, other=float("-inf"))
    wanted = (share < n)[:, None] & (dims < DIM)[None, :]
    parts = tl.load(parts_ptr + row[:, None] * DIM + dims[None, :], mask=wanted, other=0.0)
    largest = tl.max(lse, axis=0)
    largest = tl.where(largest == float("-inf"), 0.0, largest)
    total = tl.sum(tl.exp(lse - largest), axis=0)
    whole = largest + tl.log(tl.where(total > 0, total, 1.0))
    mixed = tl.sum(tl.exp(lse - whole)[:, None] * parts, axis=0)
    tl.store(out_ptr + batch * out_b + head * out_h + dims, mixed, mask=dims < DIM)


# ---- 21.2: what is no Triton
def combines(slip: str, *changes: tuple[str, str]) -> None:
    """The reference with each `(old, new)` replaced, as a wrong answer of its own."""
    source, name, file = find("21.2").answer(), slip.replace("-", "_"), f"<21.2 {slip}>"
    for old, new in (("combine_kernel", name), *changes):
        assert old in source, f"{old!r} is not in the reference"
        source = source.replace(old, new)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = {"__name__": __name__, "torch": torch, "triton": triton, "tl": tl, "SIZES": SIZES}
    exec(compile(source, file, "exec"), namespace)
    WRONG.append(Wrong("21.2", slip, namespace[name]))


LOAD_LSE = 'tl.load(lse_ptr + row, mask=share < splits, other=float("-inf"))'
combines("torch-in-a-kernel", ("tl.exp(", "torch.exp("))
combines("matrix-product", ("tl.sum(weights[:, None] * parts, axis=0)", "weights @ parts"))
combines("indexed", (LOAD_LSE, "lse_ptr[row]"))
combines("shape-of-a-pointer", ("share < splits", "share < lse_ptr.shape[2]"))
combines("shape-without-brackets", ("mixed, mask", "mixed + tl.zeros(DIM_PAD, tl.float32), mask"))
combines("no-constexpr", ("tl.arange(0, SPLITS_PAD)", "tl.arange(0, splits)"))
combines("pointers-renamed", ("parts_ptr", "pieces_ptr"))
combines("unknown-function", ("tl.max(lse, axis=0)", "tl.amax(lse, axis=0)"))
combines("axis-out-of-bounds", ("tl.max(lse, axis=0)", "tl.max(lse, axis=1)"))
combines("print-without-a-text", ("    weights = tl.exp", "    print(lse)\n    weights = tl.exp"))
combines("outside-the-kernel", ("* splits + share", "* splits * SIZES[0] + share"))
combines("float-in-a-pointer", ("* splits + share", "* splits / 1 + share"))
combines("pointer-for-a-number", ("parts_ptr + row", "parts_ptr * row"))
combines(
    "input-written",
    ("    weights = tl.exp", "    tl.store(lse_ptr + row, lse - largest, mask=share < splits)\n    weights = tl.exp"),
)
combines("no-pointer", ("tl.load(lse_ptr + row,", "tl.load(row,"))
combines("no-mask", ("dims, mixed, mask=dims < DIM", "dims, dims < DIM, mixed"))
combines("one-number-wanted", ("out_head_stride + dims, mixed", "out_head_stride + int(dims), mixed"))
combines("made-bf16", ("tl.exp(lse - largest)", "tl.exp(lse - largest).to(tl.bfloat16)"))
combines("no-power-of-two", ("tl.arange(0, DIM_PAD)", "tl.arange(0, DIM)"))
combines("empty-not-stored", ("    weights = tl.exp", "    if largest <= -1e30:\n        return\n    weights = tl.exp"))


# ---- 21.3: the kernel behind attend
class Parts(PagedKVCache):
    """The plain way, with its parts apart: what the wrong ones below change."""

    def asked(self, q):
        return q.is_cuda if self.kernel is None else self.kernel

    def attend(self, layer, q, k, v):
        if not self.asked(q) or q.shape[2] > 1:
            return self.without(layer, q, k, v)
        self.store(layer, k, v)
        return self.read(layer, q)

    def without(self, layer, q, k, v):
        return KVCache.attend(self, layer, q, k, v)

    def read(self, layer, q):
        return self.shaped(paged_attention(q[:, :, 0], *self.memory(layer), self.tables(), self.lengths()))

    def memory(self, layer):
        return self.pool.k[layer], self.pool.v[layer]

    def tables(self):
        return self._blocks[None]

    def lengths(self):
        return self._len

    def shaped(self, out):
        return out[:, :, None]


@wrong("21.3", "not-its-own")
class CallsItAttention(PagedKVCache):
    attend = KVCache.attend

    def attention(self, layer, q, k, v):
        return PagedKVCache.attend(self, layer, q, k, v)


@wrong("21.3", "another-device")
class LeavesTheMachine(Parts):
    def shaped(self, out):
        return out[:, :, None].to("meta")


@wrong("21.3", "stored-the-wrong-way-round")
class StoresValuesForKeys(Parts):
    def attend(self, layer, q, k, v):
        if not self.asked(q) or q.shape[2] > 1:
            return self.without(layer, q, k, v)
        self.store(layer, v, k)
        return self.read(layer, q)


@wrong("21.3", "no-return")
class ReturnsNothing(Parts):
    def shaped(self, out):
        return None


@wrong("21.3", "prompt-through-the-kernel")
class TwoQueriesAreOne(Parts):
    def attend(self, layer, q, k, v):
        if not self.asked(q) or q.shape[2] > 2:
            return self.without(layer, q, k, v)
        self.store(layer, k, v)
        return self.read(layer, q)


@wrong("21.3", "wrong-prompt")
class APromptWithoutAMask(Parts):
    def without(self, layer, q, k, v):
        return F.scaled_dot_product_attention(q, *self.append(layer, k, v), enable_gqa=True)


@wrong("21.3", "still-the-gather")
class OnAGpuOnly(Parts):
    def asked(self, q):
        return q.is_cuda


@wrong("21.3", "query-shape")
class TheQueryAsItCame(Parts):
    def read(self, layer, q):
        return paged_attention(q, *self.memory(layer), self.tables(), self.lengths())


@wrong("21.3", "whole-pool")
class AllLayersAtOnce(Parts):
    def memory(self, layer):
        return self.pool.k, self.pool.v


@wrong("21.3", "table-without-a-batch")
class ATableWithoutABatch(Parts):
    def tables(self):
        return self._blocks


@wrong("21.3", "list-for-a-tensor")
class AListForATable(Parts):
    def tables(self):
        return self.table.block_ids


@wrong("21.3", "token-axis-missing")
class TheKernelsOwnShape(Parts):
    def shaped(self, out):
        return out


@wrong("21.3", "axes-swapped")
class TheTokenInFront(Parts):
    def shaped(self, out):
        return out.unsqueeze(1)


@wrong("21.3", "gather-still-called")
class AppendsAndThenReads(Parts):
    def store(self, layer, k, v):
        if k.shape[2] > 1:
            return super().store(layer, k, v)
        self.storing = getattr(self, "storing", False)
        if self.storing:
            return super().store(layer, k, v)
        self.storing = True
        self.append(layer, k, v)
        self.storing = False


@wrong("21.3", "stored-after")
class ReadsAndThenStores(Parts):
    def attend(self, layer, q, k, v):
        if not self.asked(q) or q.shape[2] > 1:
            return self.without(layer, q, k, v)
        self.table.append(self.pool.k.shape[1] and int(layer == 0))
        out = paged_attention(q[:, :, 0], *self.memory(layer), self.tables(), self._len + 1)
        self.store(layer, k, v)
        return self.shaped(out)


@wrong("21.3", "not-stored")
class StoresInLayerZero(Parts):
    def attend(self, layer, q, k, v):
        if not self.asked(q) or q.shape[2] > 1:
            return self.without(layer, q, k, v)
        if layer == 0:
            self.store(layer, k, v)
        return self.read(layer, q)


@wrong("21.3", "length-short")
class OneTokenShort(Parts):
    def lengths(self):
        return self._len - 1


@wrong("21.3", "wrong-length")
class TheLengthInBlocks(Parts):
    def lengths(self):
        return self._len * 0 + len(self.table.block_ids)


@wrong("21.3", "stored-twice")
class StoresWhicheverWay(Parts):
    def attend(self, layer, q, k, v):
        self.store(layer, k, v)
        return self.read(layer, q) if self.asked(q) and q.shape[2] == 1 else self.without(layer, q, k, v)


@wrong("21.3", "not-the-pool")
class TheStepsOwnKeys(Parts):
    def attend(self, layer, q, k, v):
        if not self.asked(q) or q.shape[2] > 1:
            return self.without(layer, q, k, v)
        self.store(layer, k, v)
        own = k.transpose(1, 2), v.transpose(1, 2)
        return self.shaped(paged_attention(q[:, :, 0], *own, self.tables(), self.lengths()))


@wrong("21.3", "another-layer")
class ReadsLayerZero(Parts):
    def memory(self, layer):
        return self.pool.k[0], self.pool.v[0]


@wrong("21.3", "keys-and-values-swapped")
class ValuesForKeys(Parts):
    def memory(self, layer):
        return self.pool.v[layer], self.pool.k[layer]


@wrong("21.3", "an-old-table")
class TheTableOfTheFirstToken(Parts):
    def tables(self):
        self.first = getattr(self, "first", self._blocks)
        return self.first[None]


@wrong("21.3", "wrong-table")
class SlotsForBlocks(Parts):
    def tables(self):
        return self._slots[None]


@wrong("21.3", "another-scale")
class AScaleOfOne(Parts):
    def read(self, layer, q):
        tables, lengths = self.tables(), self.lengths()
        return self.shaped(paged_attention(q[:, :, 0], *self.memory(layer), tables, lengths, scale=1.0))


@wrong("21.3", "another-dtype")
class HalvesTheResult(Parts):
    def shaped(self, out):
        return out[:, :, None].half()


@wrong("21.3", "scaled-twice")
class ScalesTheQueryToo(Parts):
    def read(self, layer, q):
        return super().read(layer, q * q.shape[3] ** -0.5)


@wrong("21.3", "wrong-attention")
class TurnsTheHeadsRound(Parts):
    def shaped(self, out):
        return out.flip(1).unsqueeze(2)


@wrong("21.3", "refusal-not-heard")
class NeverAsks(Parts):
    def asked(self, q):
        return True


@wrong("21.3", "kernel-unasked")
class AsksForARefusalOnly(Parts):
    def asked(self, q):
        return self.kernel is not False


@wrong("21.3", "not-none-at-first")
class AlwaysTheKernel(Parts):
    kernel = True


@wrong("21.3", "gather-on-a-gpu")
class TakesNoneForFalse(Parts):
    def asked(self, q):
        return self.kernel


@wrong("21.3", "gpu-overrules-refusal")
class AskedOrOnAGpu(Parts):
    def asked(self, q):
        return self.kernel or q.is_cuda


@wrong("21.3", "chunk-masked-wrongly")
class CausalFromTheFirstKey(Parts):
    def without(self, layer, q, k, v):
        keys, values = self.append(layer, k, v)
        return F.scaled_dot_product_attention(q, keys, values, is_causal=q.shape[2] > 1, enable_gqa=True)


@wrong("21.3", "index-tensors-in-each-layer")
class MakesThemInEachLayer(Parts):
    def tables(self):
        return torch.LongTensor([self.table.block_ids]).to(self.pool.k.device)


@wrong("21.3", "copied-to-the-host")
class LooksAtTheLength(Parts):
    def lengths(self):
        assert self._len.item() > 0
        return self._len


@wrong("21.3", "another-sequence")
class KeepsTheTableOnTheClass(Parts):
    kept: ClassVar = {}

    def store(self, layer, k, v):
        super().store(layer, k, v)
        if layer == 0:
            self.kept["table"] = self._blocks[None]

    def tables(self):
        return self.kept["table"]


@wrong("21.3", "other-sizes")
class SixteenOrFour(Parts):
    def tables(self):
        return self._blocks[None, : -(-self.seq_len // 4)]


class OneLine(PagedKVCache):
    def attend(self, layer, q, k, v):
        asked = self.kernel or (self.kernel is None and q.is_cuda)
        if q.size(2) == 1 and asked:
            self.store(layer, k, v)
            return paged_attention(q.squeeze(2), self.pool.k[layer], self.pool.v[layer], self._blocks[None], self._len)[
                :, :, None
            ]
        return super().attend(layer, q, k, v)


class IndexOfItsOwn(PagedKVCache):
    """Makes its index tensors itself, in the step's first layer."""

    def attend(self, layer, q, k, v):
        if self.kernel is False or (self.kernel is None and q.device.type != "cuda") or q.shape[2] != 1:
            return super().attend(layer, q, k, v)
        self.store(layer, k, v)
        if layer == 0:
            device = self.pool.k.device
            self.mine = torch.tensor([self.table.block_ids], dtype=torch.int32, device=device)
            self.held = torch.tensor([self.seq_len], dtype=torch.int32, device=device)
        out = torch.empty_like(q)
        out[:, :, 0] = paged_attention(q[:, :, 0], self.pool.k[layer], self.pool.v[layer], self.mine, self.held)
        return out


class TheScaleItselfGiven(Parts):
    def read(self, layer, q):
        tables, lengths = self.tables(), self.lengths()
        return self.shaped(paged_attention(q[:, :, 0], *self.memory(layer), tables, lengths, scale=q.shape[-1] ** -0.5))


_KERNELS = {
    "21.1": {
        "not-a-pair": returns_one_number,
        "host-function": rounds_up_as_the_host_does,
        "not-whole-numbers": divides_with_a_slash,
        "end-in-tiles": stays_with_tiles,
        "end-of-the-last-tile": forgets_the_end,
        "tail-left-out": counts_full_tiles,
        "one-tile-each": takes_one_tile,
        "wrong-share": counts_from_one,
        "plain-global": reads_a_plain_global,
        "not-compiled": walks_and_breaks,
        "another-axis": asks_the_first_axis,
        "no-program-id": never_asks_which,
        "first-share-for-all": begins_at_zero,
        "length-for-the-end": gives_a_length,
        "not-whole-tiles": cuts_tiles,
        "tiles-left-out": rounds_down,
        "last-has-the-rest": leaves_the_rest_to_the_last,
        "shares-overlap": rounds_one_up_and_one_down,
        "begins-by-its-own-share": begins_by_its_own_share,
        "last-program-only": stops_the_last_program,
        "past-the-end": stops_whom_it_reaches,
        "nothing-to-share": gives_everybody_a_token,
        "size-written-in": knows_the_tile,
        "division-of-a-float": divides_a_float_again,
        "rounded-by-python": rounds_with_math,
        "last-token-left-out": ends_with_the_last_token,
        "counts-another-axis": counts_the_heads,
    },
    "21.2": {
        "nothing-stored": stores_nothing,
        "first-number-only": stores_one_number,
        "scalar-pointer": stores_at_a_scalar,
        "not-divided": never_divides,
        "too-far": counts_heads_from_one,
        "plain-global": takes_a_plain_global_off,
        "not-compiled": breaks_out_of_a_loop,
        "unweighted": takes_the_mean,
        "added-up": adds_up,
        "weighed-by-lse": weighs_by_the_log,
        "another-base": powers_of_two,
        "divided-by-the-count": divides_by_the_count,
        "largest-weighs-one": only_takes_the_largest_off,
        "first-share-only": keeps_the_first,
        "wrong-mix": squares_the_weights,
        "no-program-id": never_asks_which_program,
        "one-head-for-all": loads_one_head_for_all,
        "sequence-forgotten": forgets_the_sequence,
        "head-forgotten": forgets_the_head,
        "splits-forgotten": forgets_the_splits,
        "heads-and-sequences-swapped": swaps_heads_and_sequences,
        "wrong-row": takes_the_splits_for_the_slower,
        "stores-in-one-place": stores_all_at_the_beginning,
        "no-other": gives_no_other,
        "padding-counts": pads_with_zero,
        "last-share-left-out": leaves_the_last_out,
        "splits-not-masked": masks_no_share,
        "width-not-masked": masks_no_width,
        "rows-by-the-pad": rows_as_wide_as_the_pad,
        "wrong-width": leaves_out_the_last_number,
        "empty-share-counts": makes_the_infinite_a_number,
        "largest-not-taken-off": exponentiates_at_once,
        "all-empty-is-nan": takes_an_infinite_largest_off,
        "strides-not-used": works_the_strides_out,
        "other-sizes": is_64_wide_at_most,
        "numbers-added-up": sums_the_numbers,
        "nearly-right": halves_the_result,
        "dot-over-shares": dots_the_shares,
        "shapes-do-not-meet": lays_the_weights_across,
        "stores-too-far": swaps_the_outputs_strides,
        "weights-of-another-head": weighs_by_the_first_sequence,
        "nan-beside-an-empty-share": takes_the_smallest_off,
        "heads-by-the-pad": counts_rows_by_the_pad,
        "floor-too-high": takes_zero_off_at_least,
    },
}
WRONG += [Wrong(task, slip, kernel) for task, kernels in _KERNELS.items() for slip, kernel in kernels.items()]
RIGHT = [
    Right("21.1", deals_evenly),
    Right("21.1", larger_shares_first),
    Right("21.1", leaves_early),
    Right("21.2", shares_first),
    Right("21.2", one_share_a_turn),
    Right("21.2", a_log_sum_exp_of_them_all),
    Right("21.3", Parts),
    Right("21.3", OneLine),
    Right("21.3", IndexOfItsOwn),
    Right("21.3", TheScaleItselfGiven),
]
