"""A model that needs no weights: it says what stands in its script, and stores a key and a value for each token."""

from collections.abc import Sequence
from types import SimpleNamespace

import torch

from nanoserve.cache import KVCache


class ScriptedModel:
    """Step i of a run answers with logits that point at `script[i]`; after the script, with id 0.

    Args:
        script: token ids.
        fail_at: the step, from 0, that raises, with its keys and values stored.
        error: what it raises.

    Raises:
        ValueError: a call whose ids are not (1, T), or not whole numbers.

    Attributes:
        steps: for each step so far, the ids that it was given and how many tokens the cache held before it.
    """

    config = SimpleNamespace(num_hidden_layers=1, num_key_value_heads=1, head_dim=1, vocab_size=32)
    device, dtype = torch.device("cpu"), torch.float32

    def __init__(
        self, script: Sequence[int] = (), fail_at: int | None = None, error: type[BaseException] = RuntimeError
    ) -> None:
        self.script, self.fail_at, self.error = script, fail_at, error
        self.steps: list[tuple[list[int], int]] = []

    def __call__(self, input_ids: torch.Tensor, cache: KVCache) -> torch.Tensor:
        if input_ids.ndim != 2 or len(input_ids) != 1:
            raise ValueError(f"ids must be (1, T), got {tuple(input_ids.shape)}")
        if input_ids.is_floating_point():
            raise ValueError(f"ids must be whole numbers, got {input_ids.dtype}")
        self.steps.append((input_ids[0].tolist(), cache.seq_len))
        stored = input_ids.float().view(1, 1, -1, 1)  # (1, num_kv_heads, T, head_dim): a token's key is its id
        cache.append(0, stored, stored)
        number = len(self.steps) - 1
        if number == self.fail_at:
            raise self.error("planted: the forward pass fails")
        logits = torch.zeros(1, 1, self.config.vocab_size)
        logits[0, 0, self.script[number] if number < len(self.script) else 0] = 1
        return logits
