"""Day 19: copies, sums and gathers that people write as Triton kernels."""

import torch
import triton
import triton.language as tl

from tests.answers import Right, Wrong

BLOCK_SIZE = 8
SIZES = [8]


@triton.jit
def not_started(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Copy x to y."""
    raise NotImplementedError


# ---- 19.1: the copy
@triton.jit
def stores_nothing(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.load(x_ptr + at, mask=at < n)


@triton.jit
def stores_the_place(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, at, mask=at < n)


@triton.jit
def copies_one_element(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0)
    tl.store(y_ptr + at, tl.load(x_ptr + at))


@triton.jit
def copies_y_to_x(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(y_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def counts_from_one(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) + 1
    tl.store(y_ptr + at, tl.load(x_ptr + at))


@triton.jit
def loads_the_first_for_all(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr), mask=at < n)


@triton.jit
def stores_a_block_at_a_scalar(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr, tl.load(x_ptr + at, mask=at < n))


@triton.jit
def stores_at_the_lanes_of_zero(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at * 0, tl.load(x_ptr + at, mask=at < n))


@triton.jit
def indexes_like_a_tensor(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, x_ptr[at])


@triton.jit
def asks_if_of_a_vector(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if at < n:
        tl.store(y_ptr + at, tl.load(x_ptr + at))


@triton.jit
def reads_a_plain_global(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def breaks_out_of_a_loop(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    for lane in range(BLOCK):
        at = tl.program_id(0) * BLOCK + lane
        if at >= n:
            break
        tl.store(y_ptr + at, tl.load(x_ptr + at))


@triton.jit
def never_asks_which_program(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def forgets_times_block(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def stores_from_the_beginning(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def loads_from_the_beginning(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + tl.arange(0, BLOCK), mask=at < n), mask=at < n)


@triton.jit
def a_part_is_n_long(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at))


@triton.jit
def masks_nothing(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at))


@triton.jit
def masks_the_load_alone(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n))


@triton.jit
def lets_n_through(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at <= n), mask=at <= n)


@triton.jit
def ends_one_early(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n - tl.minimum(n % BLOCK, 1)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)


@triton.jit
def copies_whole_blocks(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n // BLOCK * BLOCK
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)


@triton.jit
def compares_lanes(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    at = tl.program_id(0) * BLOCK + lanes
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=lanes < n), mask=lanes < n)


@triton.jit
def knows_the_block(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * 8 + tl.arange(0, 8)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def each_program_copies_all(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    for at in range(n):
        tl.store(y_ptr + at, tl.load(x_ptr + at))


@triton.jit
def forgets_constexpr(x_ptr, y_ptr, n, BLOCK):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def takes_the_lanes_from_torch(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + torch.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def compares_in_a_chain(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = 0 <= at < n
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)


@triton.jit
def goes_through_fp32(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n).to(tl.float32), mask=at < n)


@triton.jit
def mirrors_each_block(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    back = tl.program_id(0) * BLOCK + BLOCK - 1 - tl.arange(0, BLOCK)
    tl.store(y_ptr + back, tl.load(x_ptr + at, mask=at < n), mask=back < n)


@triton.jit
def stores_the_parts_backwards(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    at = tl.program_id(0) * BLOCK + lanes
    to = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK + lanes
    tl.store(y_ptr + to, tl.load(x_ptr + at, mask=at < n), mask=to < n)


@triton.jit
def stores_what_is_left_over_at_the_end(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.minimum(at, n - 1), tl.load(x_ptr + at, mask=at < n, other=0.0))


@triton.jit
def program_zero_copies_all(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    if tl.program_id(0) == 0:
        for start in range(0, n, BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def compares_with_the_block(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < BLOCK), mask=at < BLOCK)


@triton.jit
def every_other_program(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK) * tl.num_programs(0) + tl.program_id(0)
    tl.store(y_ptr + at, tl.load(x_ptr + at, at < n), at < n)


@triton.jit
def lane_by_lane(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    for lane in range(BLOCK):
        at = tl.program_id(0) * BLOCK + lane
        if at < n:
            tl.store(y_ptr + at, tl.load(x_ptr + at))


@triton.jit
def moves_the_pointers(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    lanes = tl.arange(0, BLOCK)
    inside = lanes < n - start
    tl.store(y_ptr + start + lanes, tl.load(x_ptr + start + lanes, mask=inside, other=0), mask=inside)


@triton.jit
def multiplies_matrices(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) @ tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def asks_a_pointer_for_its_shape(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < x_ptr.shape[0]
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)


@triton.jit
def gives_the_place_for_a_mask(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr, at), mask=at < n)


@triton.jit
def counts_bytes(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at * 4, tl.load(x_ptr + at * 4, mask=at < n), mask=at < n)


@triton.jit
def misspells_arange(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arrange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def prints_without_a_text(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    print(at)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def stores_pointers_at_values(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(tl.load(x_ptr + at, mask=at < n), y_ptr + at, mask=at < n)


@triton.jit
def gives_the_values_for_a_mask(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, at < n, tl.load(x_ptr + at, mask=at < n))


@triton.jit
def reads_a_list_of_the_notebooks(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * SIZES[0] + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def calls_them_source_and_target(source, target, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, mask=at < n), mask=at < n)


@triton.jit
def joins_two_masks_with_and(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (at < n) and (at >= 0)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)


@triton.jit
def adds_to_what_is_there(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def assigns_to_a_pointer(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y_ptr[at] = tl.load(x_ptr + at, mask=at < n)


@triton.jit
def rounds_up_as_the_host_does(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (at < n) & (tl.program_id(0) < triton.cdiv(n, BLOCK))
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)


# ---- 19.2: the sum of each row
@triton.jit
def loads_one_element_a_turn(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row, total = tl.program_id(0), 0.0
    for at in range(columns):
        total += tl.load(x_ptr + row * row_stride + at).to(tl.float32)
    tl.store(out_ptr + row, total)


@triton.jit
def sums_in_bf16(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0)
        total += x * tl.full([BLOCK], 1.0, tl.bfloat16)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total))


@triton.jit
def divides_for_the_turns(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for turn in range(columns / BLOCK):
        at = turn * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total))


@triton.jit
def sums_over_axis_one(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total, axis=1))


@triton.jit
def gives_a_shape_without_brackets(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    total = tl.zeros(BLOCK, tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total))


@triton.jit
def stores_by_the_stride(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + row * row_stride, tl.sum(x))


@triton.jit
def counts_whole_blocks(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for block in range(columns // BLOCK):
        at = block * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total))


@triton.jit
def sums_and_stores_nothing(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    tl.sum(tl.load(x_ptr + tl.arange(0, BLOCK)))


@triton.jit
def stores_the_row(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0) + lanes, tl.load(x_ptr + tl.program_id(0) * row_stride + lanes))


@triton.jit
def takes_the_mean(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x) / columns)


@triton.jit
def loads_one_element(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.program_id(0), tl.load(x_ptr + tl.program_id(0) * row_stride))


@triton.jit
def begins_at_column_one(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    at = 1 + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + tl.program_id(0) * row_stride + at)))


@triton.jit
def total_begins_as_an_int(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    total = 0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0))
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def sums_the_first_row_for_all(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + at, mask=at < columns, other=0.0)))


@triton.jit
def stores_all_sums_at_zero(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0)
    tl.store(out_ptr, tl.sum(x))


@triton.jit
def multiplies_the_row_twice(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * row_stride * columns + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


@triton.jit
def a_row_without_a_mask(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * row_stride + tl.arange(0, BLOCK))
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


@triton.jit
def a_row_without_other(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


@triton.jit
def a_column_too_many(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at <= columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


@triton.jit
def a_column_too_few(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    mask = at < columns - tl.minimum(columns % BLOCK, 1)
    x = tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=mask, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


@triton.jit
def rows_of_a_block(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


@triton.jit
def rows_of_their_columns(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * columns + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


@triton.jit
def one_block_of_a_row(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


@triton.jit
def keeps_the_last_block(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total = tl.sum(tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0))
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def never_adds_the_start(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    total = 0.0
    for _ in range(0, columns, BLOCK):
        at = tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0))
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def rounds_the_turns_down(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    total = 0.0
    for turn in range(tl.maximum(columns // BLOCK, 1)):
        at = turn * BLOCK + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0))
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def steps_by_one(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, columns):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0))
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def masks_before_the_loop(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = 0.0
    for start in range(0, columns, BLOCK):
        x = tl.load(x_ptr + tl.program_id(0) * row_stride + start + lanes, mask=lanes < columns, other=0.0)
        total += tl.sum(x)
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def sums_in_its_own_type(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], x_ptr.dtype.element_ty)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total))


@triton.jit
def sums_each_block_in_its_own_type(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0))
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def forgets_the_last_sum(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def takes_the_largest(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.max(x))


@triton.jit
def rows_one_element_apart(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


@triton.jit
def skips_every_other_block(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, columns, 2 * BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0))
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def sums_what_is_above_zero(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0)
        total += tl.sum(tl.maximum(x, 0.0).to(tl.float32))
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def each_program_sums_all_rows(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    for row in range(tl.num_programs(0)):
        total = tl.zeros([BLOCK], tl.float32)
        for start in range(0, columns, BLOCK):
            at = start + tl.arange(0, BLOCK)
            total += tl.load(x_ptr + row * row_stride + at, mask=at < columns, other=0.0)
        tl.store(out_ptr + row, tl.sum(total))


@triton.jit
def program_zero_sums_all_rows(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    if tl.program_id(0) == 0:
        for row in range(tl.num_programs(0)):
            total = tl.zeros([BLOCK], tl.float32)
            for start in range(0, columns, BLOCK):
                at = start + tl.arange(0, BLOCK)
                total += tl.load(x_ptr + row * row_stride + at, mask=at < columns, other=0.0)
            tl.store(out_ptr + row, tl.sum(total))


@triton.jit
def adds_to_the_output(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.atomic_add(out_ptr + row, tl.sum(tl.load(x_ptr + row * row_stride + at, mask=at < columns, other=0.0)))


@triton.jit
def sums_with_python(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x_ptr + tl.program_id(0) * row_stride + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + tl.program_id(0), sum(row))


@triton.jit
def sums_whole_numbers(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.int32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * row_stride + at, mask=at < columns, other=0.0).to(tl.int32)
    tl.store(out_ptr + row, tl.sum(total))


@triton.jit
def masks_places_in_the_matrix(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = row * row_stride + start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(total))


@triton.jit
def masks_by_the_stride(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * row_stride + at, mask=at < row_stride, other=0.0)
    tl.store(out_ptr + row, tl.sum(total))


@triton.jit
def a_sum_a_turn(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row_ptr = x_ptr + tl.program_id(0) * row_stride
    total = 0.0
    for turn in range(tl.cdiv(columns, BLOCK)):
        at = turn * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(row_ptr + at, mask=at < columns)
        total += tl.sum(tl.where(at < columns, x, 0.0).to(tl.float32), axis=0)
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def a_while_loop(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    start = 0
    while start < columns:
        total += tl.load(x_ptr + tl.program_id(0) * row_stride + start + at, mask=start + at < columns, other=0)
        start += BLOCK
    tl.store(out_ptr + tl.program_id(0), tl.sum(total, axis=0))


# ---- 19.3: the gather
@triton.jit
def fetches_and_stores_nothing(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.load(table_ptr + tokens // size, mask=tokens < n, other=0)


@triton.jit
def never_asks_the_table(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    places = tokens[:, None] * DIM + dims[None, :]
    tl.store(out_ptr + places, tl.load(pool_ptr + places, mask=mask), mask=mask)


@triton.jit
def takes_the_id_for_a_slot(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def looks_up_by_token(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def adds_the_position(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def forgets_the_offset(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    slots = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64) * size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def a_block_a_program(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    slots = tl.load(table_ptr + tl.program_id(0)).to(tl.int64) * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def counts_on_from_the_first_block(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    slots = tl.load(table_ptr).to(tl.int64) * size + tokens
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def forgets_the_width(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def breaks_at_the_end(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    dims = tl.arange(0, DIM_PAD)
    for lane in range(TILE):
        token = tl.program_id(0) * TILE + lane
        if token >= n:
            break
        slot = tl.load(table_ptr + token // size).to(tl.int64) * size + token % size
        row = tl.load(pool_ptr + slot * DIM + dims, mask=dims < DIM)
        tl.store(out_ptr + token * DIM + dims, row, mask=dims < DIM)


@triton.jit
def always_the_first_tile(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def masks_no_lookup(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    slots = tl.load(table_ptr + tokens // size).to(tl.int64) * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def masks_the_width_alone(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=(dims < DIM)[None, :])
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=(dims < DIM)[None, :])


@triton.jit
def masks_the_tokens_alone(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=(tokens < n)[:, None])
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=(tokens < n)[:, None])


@triton.jit
def rows_as_wide_as_the_pad(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM_PAD + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM_PAD + dims[None, :], rows, mask=mask)


@triton.jit
def knows_the_block_size(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // 2, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * 2 + tokens % 2
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def widens_too_late(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0)
    rows_at = ((ids * size + tokens % size) * DIM).to(tl.int64)
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + rows_at[:, None] + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def turns_each_block_round(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + size - 1 - tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def forgets_times_tile(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def ends_one_token_early(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n - tl.minimum(n % TILE, 1))[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def leaves_out_the_last_number(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < 2 * DIM - DIM_PAD)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def stores_each_tile_at_the_top(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tl.arange(0, TILE)[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def is_64_wide_at_most(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < tl.minimum(DIM, 64))[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def each_program_fetches_all(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    dims = tl.arange(0, DIM_PAD)
    for start in range(0, n, TILE):
        tokens = start + tl.arange(0, TILE)
        ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
        slots = ids * size + tokens % size
        mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
        rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
        tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def is_as_wide_as_a_row(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def joins_masks_without_brackets(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = tokens[:, None] < n & dims[None, :] < DIM
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def joins_masks_with_and(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] and (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def stores_a_tile_at_a_pointer(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr, rows, mask=mask)


@triton.jit
def program_zero_fetches_all(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    if tl.program_id(0) == 0:
        dims = tl.arange(0, DIM_PAD)
        for start in range(0, n, TILE):
            tokens = start + tl.arange(0, TILE)
            ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
            slots = ids * size + tokens % size
            mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
            rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
            tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def compares_with_the_tile(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens, dims = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < TILE)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def stores_by_slot(pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr):
    tokens, dims = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + slots[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def multiplies_by_the_width_twice(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens, dims = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def loads_one_number_a_row(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens, dims = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM, mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def rounds_the_rows(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens, dims = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows.to(tl.float16), mask=mask)


@triton.jit
def masks_the_store_alone(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens, dims = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :])
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def never_loads_the_ids(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens, dims = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, DIM_PAD)
    ids = table_ptr + tokens // size
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def divides_with_a_slash(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens, dims = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens / size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def lays_the_slots_across(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens, dims = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[None, :] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def begins_a_block_further(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens, dims = tl.program_id(0) * size + tl.arange(0, TILE), tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(out_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def writes_into_the_pool(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens, dims = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, DIM_PAD)
    ids = tl.load(table_ptr + tokens // size, mask=tokens < n, other=0).to(tl.int64)
    slots = ids * size + tokens % size
    mask = (tokens < n)[:, None] & (dims < DIM)[None, :]
    rows = tl.load(pool_ptr + slots[:, None] * DIM + dims[None, :], mask=mask)
    tl.store(pool_ptr + tokens[:, None] * DIM + dims[None, :], rows, mask=mask)


@triton.jit
def row_by_row(pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr):
    dims = tl.arange(0, DIM_PAD)
    for lane in range(TILE):
        token = tl.program_id(0) * TILE + lane
        if token < n:
            block_id = tl.load(table_ptr + token // size).to(tl.int64)
            row_ptr = pool_ptr + (block_id * size + token % size) * DIM
            tl.store(out_ptr + token * DIM + dims, tl.load(row_ptr + dims, mask=dims < DIM), mask=dims < DIM)


@triton.jit
def block_and_row_strides(
    pool_ptr, table_ptr, out_ptr, n, size, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr
):
    tokens = tl.program_id(0) * TILE + tl.arange(0, TILE)[:, None]
    dims = tl.arange(0, DIM_PAD)[None, :]
    held = (tokens < n) & (dims < DIM)
    entries = tl.where(tokens < n, tokens, 0) // size
    block_ptrs = pool_ptr + tl.load(table_ptr + entries).to(tl.int64) * (size * DIM)
    rows = tl.load(block_ptrs + (tokens % size) * DIM + dims, mask=held, other=0.0)
    tl.store(out_ptr + tokens * DIM + dims, rows, mask=held)


_WRONG = {
    "19.1": {
        "unknown-function": misspells_arange,
        "print-without-a-text": prints_without_a_text,
        "no-pointer": stores_pointers_at_values,
        "no-mask": gives_the_values_for_a_mask,
        "outside-the-kernel": reads_a_list_of_the_notebooks,
        "pointers-renamed": calls_them_source_and_target,
        "and-between-masks": joins_two_masks_with_and,
        "added-to-the-output": adds_to_what_is_there,
        "one-number-wanted": assigns_to_a_pointer,
        "host-function": rounds_up_as_the_host_does,
        "matrix-product": multiplies_matrices,
        "shape-of-a-pointer": asks_a_pointer_for_its_shape,
        "block-for-a-mask": gives_the_place_for_a_mask,
        "bytes": counts_bytes,
        "nothing-stored": stores_nothing,
        "place-for-value": stores_the_place,
        "one-element": copies_one_element,
        "wrong-way-round": copies_y_to_x,
        "beyond-the-block": counts_from_one,
        "one-value-for-all": loads_the_first_for_all,
        "scalar-pointer": stores_a_block_at_a_scalar,
        "lanes-in-one-place": stores_at_the_lanes_of_zero,
        "indexed": indexes_like_a_tensor,
        "if-on-a-vector": asks_if_of_a_vector,
        "plain-global": reads_a_plain_global,
        "not-compiled": breaks_out_of_a_loop,
        "no-constexpr": forgets_constexpr,
        "torch-in-a-kernel": takes_the_lanes_from_torch,
        "comparisons-in-a-chain": compares_in_a_chain,
        "everyone-copies-all": each_program_copies_all,
        "no-program-id": never_asks_which_program,
        "not-times-block": forgets_times_block,
        "stores-in-one-place": stores_from_the_beginning,
        "loads-from-one-place": loads_from_the_beginning,
        "too-far": a_part_is_n_long,
        "load-not-masked": masks_nothing,
        "store-not-masked": masks_the_load_alone,
        "one-past-the-end": lets_n_through,
        "last-left-out": ends_one_early,
        "whole-blocks-only": copies_whole_blocks,
        "lanes-compared": compares_lanes,
        "size-written-in": knows_the_block,
        "through-fp32": goes_through_fp32,
        "wrong-copy": mirrors_each_block,
        "wrong-part": stores_the_parts_backwards,
        "wrong-end": stores_what_is_left_over_at_the_end,
        "work-not-shared": program_zero_copies_all,
        "one-program-only": compares_with_the_block,
    },
    "19.2": {
        "one-at-a-time": loads_one_element_a_turn,
        "float-for-turns": divides_for_the_turns,
        "made-bf16": sums_in_bf16,
        "axis-out-of-bounds": sums_over_axis_one,
        "shape-without-brackets": gives_a_shape_without_brackets,
        "sums-too-far": stores_by_the_stride,
        "no-turn": counts_whole_blocks,
        "nothing-stored": sums_and_stores_nothing,
        "row-stored": stores_the_row,
        "mean-for-sum": takes_the_mean,
        "first-element": loads_one_element,
        "beyond-the-row": begins_at_column_one,
        "total-changes-its-type": total_begins_as_an_int,
        "first-row-only": sums_the_first_row_for_all,
        "sums-in-one-place": stores_all_sums_at_zero,
        "rows-too-far": multiplies_the_row_twice,
        "row-not-masked": a_row_without_a_mask,
        "no-other": a_row_without_other,
        "one-column-too-many": a_column_too_many,
        "last-column-left-out": a_column_too_few,
        "row-times-block": rows_of_a_block,
        "row-times-columns": rows_of_their_columns,
        "first-block-only": one_block_of_a_row,
        "last-block-only": keeps_the_last_block,
        "same-block-again": never_adds_the_start,
        "tail-left-out": rounds_the_turns_down,
        "no-step": steps_by_one,
        "tail-not-masked": masks_before_the_loop,
        "summed-in-half": sums_in_its_own_type,
        "block-summed-in-half": sums_each_block_in_its_own_type,
        "block-for-a-sum": forgets_the_last_sum,
        "wrong-sum": takes_the_largest,
        "wrong-row": rows_one_element_apart,
        "wrong-loop": skips_every_other_block,
        "other-sizes": sums_what_is_above_zero,
        "everyone-copies-all": each_program_sums_all_rows,
        "work-not-shared": program_zero_sums_all_rows,
        "added-to-the-output": adds_to_the_output,
        "block-gone-through": sums_with_python,
        "cut-to-whole-numbers": sums_whole_numbers,
        "mask-over-the-matrix": masks_places_in_the_matrix,
        "gap-summed": masks_by_the_stride,
    },
    "19.3": {
        "float-in-a-pointer": divides_with_a_slash,
        "pointer-for-a-number": never_loads_the_ids,
        "shapes-do-not-meet": lays_the_slots_across,
        "times-the-block-size": begins_a_block_further,
        "input-written": writes_into_the_pool,
        "nothing-stored": fetches_and_stores_nothing,
        "table-ignored": never_asks_the_table,
        "id-for-slot": takes_the_id_for_a_slot,
        "token-for-entry": looks_up_by_token,
        "offset-not-reduced": adds_the_position,
        "one-slot-for-all": forgets_the_offset,
        "one-entry-for-all": a_block_a_program,
        "counted-on": counts_on_from_the_first_block,
        "rows-overlap": forgets_the_width,
        "not-compiled": breaks_at_the_end,
        "everyone-copies-all": each_program_fetches_all,
        "no-power-of-two": is_as_wide_as_a_row,
        "comparisons-in-a-chain": joins_masks_without_brackets,
        "and-between-masks": joins_masks_with_and,
        "block-at-a-pointer": stores_a_tile_at_a_pointer,
        "no-program-id": always_the_first_tile,
        "table-not-masked": masks_no_lookup,
        "tokens-not-masked": masks_the_width_alone,
        "width-not-masked": masks_the_tokens_alone,
        "rows-by-the-pad": rows_as_wide_as_the_pad,
        "size-written-in": knows_the_block_size,
        "int32": widens_too_late,
        "wrong-rows": turns_each_block_round,
        "not-times-tile": forgets_times_tile,
        "wrong-tile": ends_one_token_early,
        "wrong-width": leaves_out_the_last_number,
        "programs-overlap": stores_each_tile_at_the_top,
        "other-sizes": is_64_wide_at_most,
        "work-not-shared": program_zero_fetches_all,
        "one-program-only": compares_with_the_tile,
        "stored-by-slot": stores_by_slot,
        "row-too-far": multiplies_by_the_width_twice,
        "first-number-for-all": loads_one_number_a_row,
        "through-fp32": rounds_the_rows,
        "load-not-masked-by-width": masks_the_store_alone,
    },
}
WRONG = [Wrong(task, slip, kernel) for task, kernels in _WRONG.items() for slip, kernel in kernels.items()]
RIGHT = [
    Right("19.1", every_other_program),
    Right("19.1", lane_by_lane),
    Right("19.1", moves_the_pointers),
    Right("19.2", a_sum_a_turn),
    Right("19.2", a_while_loop),
    Right("19.3", row_by_row),
    Right("19.3", block_and_row_strides),
]
