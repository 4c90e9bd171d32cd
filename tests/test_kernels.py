"""The decode kernel in Triton's interpreter, against float64: every shape, and inputs made to expose one fault each."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

triton = pytest.importorskip("triton")

from benchmarks.cases import poisoned  # noqa: E402
from nanoserve.attention import gathered_attention  # noqa: E402
from nanoserve.kernels import launch, paged_attention  # noqa: E402

ROOT = Path(__file__).parents[1]
HEADS = {1: (3, 3), 3: (9, 3), 7: (7, 1), 16: (32, 2)}  # query heads a KV head -> (query heads, KV heads)
# Tokens in a tile (None: as the launch chooses) and programs a sequence: one turn, many turns, shares past the end.
WALKS = [(None, 1), (16, 1), (4, 3)]


def exact(q, k, v, tables, lengths, scale=None):
    return gathered_attention(q.double(), k.double(), v.double(), tables, lengths, scale)


def with_tile(monkeypatch, tile, **changes):
    """Let the launch use this tile, so that the interpreter walks as a GPU would."""
    chosen = launch.tile_shape

    def shape(*args, **kwargs):
        return chosen(*args, **kwargs) | ({} if tile is None else {"TILE": tile}) | changes

    monkeypatch.setattr(launch, "tile_shape", shape)


@pytest.mark.parametrize("group", HEADS)
@pytest.mark.parametrize("dim", [64, 80, 96, 128])
@pytest.mark.parametrize("block_size", [1, 3, 16, 24, 544])
def test_each_shape_equals_float64_whatever_the_tile_and_the_splits(group, dim, block_size, monkeypatch):
    at_the_edges = [0, 1, block_size, block_size + 1] if block_size < 100 else [0, 1, block_size + 1]
    inputs = poisoned(*HEADS[group], dim, block_size, at_the_edges, seed=group * dim + block_size)
    expected = exact(*inputs)
    for tile, splits in WALKS if block_size < 100 else [(None, 1), (64, 5)]:
        with monkeypatch.context() as patch:
            with_tile(patch, tile)
            came = paged_attention(*inputs, num_splits=splits)
        torch.testing.assert_close(came.double(), expected, rtol=1e-5, atol=1e-5)
        assert not came[0].any(), "a sequence of no tokens gives zeros"


@pytest.mark.parametrize(("tile", "splits"), WALKS)
@pytest.mark.parametrize("logits", [20.0, 60.0])
def test_large_scores_neither_overflow_nor_drown_the_rest(tile, splits, logits, monkeypatch):
    with_tile(monkeypatch, tile)
    inputs = poisoned(9, 3, 64, 16, [33, 70, 0, 5], logits=logits)
    # A softmax over logits of +-500 turns fp32's rounding of a score, 3e-5, into as much in its weight.
    torch.testing.assert_close(
        paged_attention(*inputs, num_splits=splits).double(), exact(*inputs), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("falling", [True, False])
@pytest.mark.parametrize(("tile", "splits"), WALKS)
def test_scores_that_fall_or_rise_by_40_a_block_keep_the_running_maximum(tile, splits, falling, monkeypatch):
    with_tile(monkeypatch, tile)
    q, k, v, tables, lengths = poisoned(4, 2, 64, 16, [80, 64, 17])
    q[:] = 1.0
    for row, length in enumerate(lengths.tolist()):
        for place in range(-(-length // 16)):
            step = -place if falling else place
            held = slice(0, min(16, length - 16 * place))
            k[tables[row, place], held] += 40 * step / 64**0.5
    inputs = (q, k, v, tables, lengths)
    # Scores of some hundreds round to 3e-5, and so do the weights that are made of them.
    torch.testing.assert_close(
        paged_attention(*inputs, num_splits=splits).double(), exact(*inputs), rtol=1e-4, atol=1e-4
    )


def test_a_query_sliced_out_of_a_fused_projection_is_read_by_its_strides():
    q, *rest = poisoned(9, 3, 64, 16, [20, 3])
    fused = torch.randn(2, 15, 64)
    fused[:, 3:12] = q
    torch.testing.assert_close(paged_attention(fused[:, 3:12], *rest), paged_attention(q, *rest), rtol=0, atol=0)
    transposed = q.transpose(1, 2).contiguous().transpose(1, 2)  # head_dim is not the innermost
    torch.testing.assert_close(paged_attention(transposed, *rest), paged_attention(q, *rest), rtol=0, atol=0)


def test_a_layer_inside_a_pool_of_several_is_read_by_its_strides():
    inputs = q, k, v, tables, lengths = poisoned(9, 3, 64, 16, [20, 3])
    pools = [torch.full((k.shape[0], 3, *k.shape[1:]), float("nan")) for _ in range(2)]
    pools[0][:, 1], pools[1][:, 1] = k, v  # block by block, all layers of a block together
    came = paged_attention(q, pools[0][:, 1], pools[1][:, 1], tables, lengths)
    torch.testing.assert_close(came, paged_attention(*inputs), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("splits", [1, 3])
def test_half_precision_sums_in_fp32(dtype, splits):
    inputs = poisoned(9, 3, 64, 16, [200, 37, 0], dtype=dtype)
    came = paged_attention(*inputs, num_splits=splits)
    assert came.dtype == dtype
    # One rounding of the result: half a unit of the last place, a whole one where the interpreter cuts bf16 off.
    torch.testing.assert_close(came.double(), exact(*inputs), rtol=torch.finfo(dtype).eps, atol=1e-5)


@pytest.mark.parametrize(("tile", "splits"), [(16, 1), (32, 3)])
def test_the_form_with_dot_gives_the_same(tile, splits, monkeypatch):
    with_tile(monkeypatch, tile, DOT=True, GROUP_PAD=16)
    inputs = poisoned(9, 3, 80, 16, [70, 16, 0, 1])
    came = paged_attention(*inputs, num_splits=splits)
    torch.testing.assert_close(came.double(), exact(*inputs), rtol=1e-5, atol=1e-5)


def test_int32_tables_and_lengths_and_another_scale_are_taken():
    inputs = poisoned(9, 3, 64, 16, [20, 3], index=torch.int32)
    torch.testing.assert_close(
        paged_attention(*inputs, scale=0.3).double(), exact(*inputs, scale=0.3), rtol=1e-5, atol=1e-5
    )


def test_lengths_and_tables_are_read_by_their_strides():
    q, k, v, tables, lengths = poisoned(4, 2, 16, 4, [7, 5, 7])
    apart = torch.stack([lengths, lengths + 99], dim=1)[:, 0]
    sideways = tables.t().contiguous().t()
    same = torch.tensor(5).expand(3)  # one number in memory for all three
    for some_tables, some_lengths in ((tables, apart), (sideways, lengths), (tables, same)):
        came = paged_attention(q, k, v, some_tables, some_lengths)
        torch.testing.assert_close(came.double(), exact(q, k, v, tables, some_lengths), rtol=1e-5, atol=1e-5)


def test_nothing_is_written_behind_the_output(monkeypatch):
    guarded = []

    def empty_like(tensor, **_):
        rows = torch.full((len(tensor) + 2, *tensor.shape[1:]), 7.0)
        guarded.append(rows)
        return rows[1:-1]

    monkeypatch.setattr(torch, "empty_like", empty_like)
    inputs = poisoned(7, 1, 80, 3, [5, 0, 4])
    came = paged_attention(*inputs)
    torch.testing.assert_close(came.double(), exact(*inputs), rtol=1e-5, atol=1e-5)
    assert (guarded[0][[0, -1]] == 7).all()


def test_an_empty_batch_gives_an_empty_result():
    q, k, v, tables, lengths = poisoned(4, 2, 64, 16, [3])
    assert paged_attention(q[:0], k, v, tables[:0], lengths[:0]).shape == (0, 4, 64)


BEYOND = """
import torch
from nanoserve.kernels import paged_attention
from nanoserve.attention import gathered_attention
blocks = 2**31 // (16 * 64) + 9  # nothing of it is touched, and so takes no memory, but the last blocks
pool = torch.empty(blocks, 16, 1, 64, dtype=torch.float16)
ids = torch.tensor([[blocks - 1, blocks - 4]], dtype=torch.int32)  # as vLLM's tables
for block in ids[0].tolist():
    pool[block] = torch.randn(16, 1, 64)
assert pool.numel() > 2**31
q, lengths = torch.randn(1, 2, 64).half(), torch.tensor([30])
came = paged_attention(q, pool, pool, ids, lengths)
last = pool[-9:]
expected = gathered_attention(q.double(), last.double(), last.double(), ids - (blocks - 9), lengths)
torch.testing.assert_close(came.double(), expected, rtol=1e-3, atol=1e-3)
print("equal")
"""


def test_blocks_beyond_two_to_the_31_elements_are_found():
    # In a process of its own: an offset in int32 reads far outside, and ends the process.
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", BEYOND], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout == "equal\n", done.stderr


def _changed(**changes):
    names = ("q", "k_pool", "v_pool", "block_tables", "seq_lens")
    inputs = dict(zip(names, poisoned(6, 2, 64, 16, [20, 3]), strict=True))
    return {name: changes[name](value) if name in changes else value for name, value in inputs.items()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": lambda q: q[0]}, "q must be"),
        ({"q": lambda q: q[:, :5]}, "5 query heads of 64 cannot share 2 KV heads"),
        ({"q": lambda q: q[:, :, :32]}, "q must be"),
        ({"v_pool": lambda v: v[:1]}, "q must be"),
        ({"q": lambda q: q.half()}, "must share"),
        ({"q": lambda q: q.double()}, "must share"),
        ({"seq_lens": lambda lengths: lengths[:1]}, "for a batch of 2"),
        ({"block_tables": lambda tables: tables[0]}, "for a batch of 2"),
        ({"block_tables": lambda tables: tables.float()}, "int32 or int64"),
        ({"v_pool": lambda v: v.transpose(0, 1).contiguous().transpose(0, 1)}, "same strides"),
        ({"q": lambda q: q[:, :0]}, "0 query heads"),
        ({"seq_lens": lambda lengths: lengths + 100}, "sequence 0 has 120 tokens, and its row .* has room for 48"),
        ({"seq_lens": lambda lengths: -lengths}, "sequence 0 has -20 tokens"),
        ({"block_tables": lambda tables: -tables - 1}, "sequence 0 has block -"),
        ({"block_tables": lambda tables: tables + 1000}, "of a pool of 5 blocks"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(changes, message):
    with pytest.raises(ValueError, match=message):
        paged_attention(**_changed(**changes))


def test_no_splits_are_refused():
    with pytest.raises(ValueError, match="num_splits must be at least 1, got 0"):
        paged_attention(**_changed(), num_splits=0)


def test_bf16_is_refused_in_a_sentence_before_compute_capability_8(monkeypatch):
    monkeypatch.setattr(launch, "INTERPRETED", False)
    monkeypatch.setattr(launch, "_capability", lambda device: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")

    class OnAGPU:
        device = torch.device("cuda")
        dtype = torch.bfloat16

    with pytest.raises(ValueError, match=r"bf16 needs compute capability 8\.0, and Tesla T4 has less"):
        launch._require_device(OnAGPU)


def test_a_cpu_without_the_interpreter_is_told_how_to_get_it(monkeypatch):
    monkeypatch.setattr(launch, "INTERPRETED", False)
    with pytest.raises(ValueError, match="TRITON_INTERPRET=1"):
        paged_attention(**_changed())


@pytest.mark.parametrize(
    ("programs", "longest"), [*itertools.product([1, 3, 24, 96, 256, 2048], [0, 1, 300, 4096, 32768])]
)
def test_splits_fill_the_gpu_but_leave_each_program_256_tokens(programs, longest):
    splits = launch.splits_for(programs, longest, multiprocessors=132)
    assert 1 <= splits <= 128
    assert splits == 1 or longest // splits >= 256
    assert splits == 1 or programs * (splits - 1) < 4 * 132, "one less would have filled it"


@pytest.mark.parametrize(("group", "dim"), [*itertools.product([1, 3, 4, 7, 16], [16, 64, 80, 128, 256])])
@pytest.mark.parametrize("dot", [True, False])
def test_a_tile_has_powers_of_two_that_hold_the_group_and_the_head(group, dim, dot):
    shape = launch.tile_shape(group, dim, dot)
    for padded, least in (("GROUP_PAD", group), ("DIM_PAD", dim), ("TILE", 1)):
        assert shape[padded] >= least
        assert shape[padded].bit_count() == 1
    assert not dot or min(shape["GROUP_PAD"], shape["TILE"], shape["DIM_PAD"]) >= 16
