"""Day 13: what keys and values cost, and how much of a reservation they fill."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import LlamaConfig


def kv_bytes_per_token(config: "LlamaConfig", dtype: torch.dtype) -> int:
    """Bytes of the keys and values that one token leaves behind, in all layers together.

    Args:
        config: a model's sizes under transformers' field names: `num_hidden_layers`, `num_key_value_heads`, `head_dim`.
        dtype: of the stored keys and values.
    """
    numbers = config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    return 2 * numbers * dtype.itemsize  # as many values as keys


def used_share(lengths: Sequence[int], max_len: int) -> float:
    """The share of the reserved memory that ever holds tokens, when each request reserves room for `max_len`.

    Args:
        lengths: tokens that each request has when it is finished, prompt and answer together.
        max_len: tokens that each request reserves room for, whatever it will need.

    Returns:
        From 0.0 to 1.0; 0.0 where there is no request.

    Raises:
        ValueError: a request is longer than its reservation, or of fewer than 0 tokens; the message names its length.
            Or the reservation is of less than 1.
    """
    if max_len < 1:
        raise ValueError(f"max_len must be at least 1, got {max_len}")
    for length in lengths:
        if length < 0:
            raise ValueError(f"a request is of 0 tokens or more, got {length}")
        if length > max_len:
            raise ValueError(f"a request of {length} tokens does not fit in a reservation of {max_len}")
    return sum(lengths) / (len(lengths) * max_len) if lengths else 0.0
