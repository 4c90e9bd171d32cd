"""Day 20's own code: the planted fault, the inputs that the checker makes, and the picture."""

from dataclasses import replace

import pytest
import torch

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

from nanoserve.course.exercises.day20 import pools  # noqa: E402
from nanoserve.course.exercises.day20.picture import program_picture  # noqa: E402
from nanoserve.course.exercises.day20.planted import suspect_kernel  # noqa: E402
from nanoserve.course.exercises.day20.pools import NOWHERE, poisoned  # noqa: E402
from nanoserve.course.kernels.launch import try_launch  # noqa: E402
from nanoserve.kernels.paged_decode import paged_decode_kernel  # noqa: E402


def through(kernel, inputs):
    out = torch.full_like(inputs.q, torch.nan)
    arguments, constants = inputs.arguments(out)
    run = try_launch(kernel, (len(inputs.q), inputs.k.shape[2], 1), arguments, constants, keeps=False)
    assert run.error is None
    return run.tensors["out"]


@pytest.mark.parametrize("lengths", [[4], [12], [9, 3, 0]])
def test_the_planted_kernel_is_right_as_long_as_stale_slots_hold_numbers(lengths):
    inputs = poisoned(6, 2, 16, 4, lengths)
    clean = replace(inputs, k=inputs.k.nan_to_num(7.0), v=inputs.v.nan_to_num(7.0))
    torch.testing.assert_close(through(suspect_kernel, clean), inputs.expected())


def test_the_planted_kernel_gives_nan_where_a_stale_slot_holds_one():
    inputs = poisoned(6, 2, 16, 4, [9, 4])
    assert through(suspect_kernel, inputs).isnan().all(dim=2).tolist() == [[True] * 6, [False] * 6]
    torch.testing.assert_close(through(paged_decode_kernel, inputs), inputs.expected())


def test_poisoned_inputs_have_nan_in_each_slot_that_nobody_holds_and_numbers_in_the_others():
    inputs = poisoned(2, 1, 4, 2, [5, 0, 3])
    held = {
        (inputs.tables[row, token // 2].item(), token % 2)
        for row, length in enumerate([5, 0, 3])
        for token in range(length)
    }
    clean = inputs.k.isnan().logical_not().all(dim=(2, 3)).nonzero().tolist()
    assert {tuple(slot) for slot in clean} == held
    assert len(held) == 8, "no two tokens share a slot"
    assert all(block != 0 for block, _ in held), "block 0 is what a masked look-up without a token gives"
    assert (inputs.tables == NOWHERE).sum(dim=1).tolist() == [0, 3, 1]
    assert inputs.tables[0, 2] == len(inputs.k) - 1


@triton.jit
def largest_of_nan(x_ptr, out_ptr):
    tl.store(out_ptr, tl.max(tl.load(x_ptr + tl.arange(0, 4)), axis=0))


def test_numpys_warnings_about_nan_are_nothing_that_a_kernel_printed():
    run = try_launch(largest_of_nan, (1,), (torch.full((4,), torch.nan), torch.zeros(1)), {}, keeps=False)
    assert run.tensors["out"].isnan().all()
    assert run.printed == ""


def test_of_two_programs_that_share_a_sequence_each_writes_the_attention_over_its_part():
    inputs = poisoned(6, 2, 16, 4, [9, 3])
    run = try_launch(paged_decode_kernel, (2, 2, 2), *inputs.arguments(torch.full((2, 6, 2, 16), torch.nan)))
    first, second = run.tensors["out"].unbind(2)
    torch.testing.assert_close(first[[0]], inputs.over(0, list(range(8))))
    torch.testing.assert_close(second[[0]], inputs.over(0, [8]))
    torch.testing.assert_close(first[1], inputs.expected()[1])
    assert second[1].eq(0).all()


def test_what_comes_out_over_all_tokens_once_is_what_is_right():
    inputs = poisoned(2, 1, 4, 2, [5, 3])
    torch.testing.assert_close(inputs.over(1, [0, 1, 2]), inputs.expected()[[1]])
    assert not torch.allclose(inputs.over(1, [0, 1, 2, 2]), inputs.expected()[[1]])
    torch.testing.assert_close(inputs.with_kv_heads([0, 0]), inputs.expected())


def test_tiles_are_padded_to_powers_of_two_and_to_16_with_dot():
    assert [pools._padded(size, False) for size in (1, 3, 4, 80)] == [1, 4, 4, 128]
    assert [pools._padded(size, True) for size in (1, 3, 80)] == [16, 16, 128]


def test_the_picture_is_the_same_each_time_and_differs_by_theme():
    assert program_picture("light") == program_picture("light") != program_picture("dark")
    assert "block 4" in program_picture("light")
