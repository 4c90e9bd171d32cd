"""How a checker compares and shows what came."""

import numpy as np
import pytest
import torch

from nanoserve.course.probe import Mismatch, Probe, in_16_bits, kind, show


def test_of_two_giveaways_that_fit_the_first_is_told():
    probe = Probe(print)
    with pytest.raises(Mismatch) as finding:
        probe.equal("B", "a", "other", {"first": "b", "second": "B"}, same=lambda one, two: one.lower() == two)
    assert finding.value.slip == "first"


def test_a_type_is_told_with_its_article():
    assert [kind(value) for value in (1, [], np.int64(1), np.zeros(1))] == [
        "an int",
        "a list",
        "an int64",
        "an ndarray",
    ]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_that_have_been_in_16_bits_are_known(dtype):
    exact = torch.tensor([1.0, 1 + 2**-12, 3.0])
    assert in_16_bits(exact.to(dtype), exact)
    assert in_16_bits(exact.to(dtype).float(), exact)
    assert not in_16_bits(exact.double(), exact)
    assert not in_16_bits(exact.flip(0), exact)
    assert not in_16_bits(exact[:2].to(dtype), exact)


def test_a_tensor_is_told_by_its_shape_and_a_short_row_by_its_numbers():
    assert show((torch.zeros(1, 2, 3), torch.zeros(100))) == "(a Tensor of shape (1, 2, 3), a Tensor of shape (100,))"
    assert show(torch.tensor([4, 5, 9])) == "tensor([4, 5, 9])"
