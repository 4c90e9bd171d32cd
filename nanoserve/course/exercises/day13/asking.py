"""What a model asks of a cache, and the base class answers: where new tokens stand, and what they attend to."""

import torch

from nanoserve.cache import KVCache, NaiveKVCache
from nanoserve.course.exercises.day13.steps import HEADS, WIDTH
from nanoserve.course.probe import Probe


def as_the_base(probe: Probe, cache: KVCache, width: int = WIDTH) -> None:
    """A prompt, then a token: `positions` and `attend` must give what `KVCache` gives."""
    right = NaiveKVCache()
    for num_tokens in (3, 1):
        came = cache.positions(num_tokens)
        same = isinstance(came, torch.Tensor) and torch.equal(came, right.positions(num_tokens))
        probe.equal(same, True, "attend-changed", told={True: "the tokens' positions", False: "others"}.get)
        q, k, v = torch.rand(3, 1, HEADS, num_tokens, width, generator=torch.Generator().manual_seed(num_tokens))
        came, expected = cache.attend(0, q, k, v), right.attend(0, q, k, v)
        same = isinstance(came, torch.Tensor) and came.shape == expected.shape and torch.allclose(came, expected)
        probe.equal(same, True, "attend-changed", told={True: "what the queries attend to", False: "other numbers"}.get)
