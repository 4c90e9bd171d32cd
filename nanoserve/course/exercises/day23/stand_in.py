"""A model that needs no weights: after a token comes the next number, so that each text is known in advance."""

from types import SimpleNamespace

import torch
import torch.nn.functional as F

from nanoserve.prefill import PrefillCache
from nanoserve.slots import Slots


class CountingModel:
    """Says `last token + 1` in every row: a prompt that ends in 10 goes on 11, 12, 13 …, and after 63 comes 0.

    Attributes:
        fails: a decode step raises, with its keys and values stored.
        steps: decode steps so far.
    """

    device, dtype, eos_token_ids = torch.device("cpu"), torch.float32, frozenset()

    def __init__(self) -> None:
        self.fails, self.steps = False, 0
        self.config = SimpleNamespace(  # its own: what is changed in one is not changed in the next
            num_hidden_layers=1, num_key_value_heads=1, head_dim=1, vocab_size=64, max_position_embeddings=2**20
        )

    def __call__(self, input_ids: torch.Tensor, cache: PrefillCache | Slots) -> torch.Tensor:
        """The logits of each row's last token, (batch, 1, vocab_size)."""
        dtype = getattr(input_ids, "dtype", type(input_ids).__name__)
        if dtype not in (torch.int64, torch.int32):  # the two that an embedding takes
            raise TypeError(f"the model takes ids in a tensor of int64 or int32, not {dtype}")
        if isinstance(cache, Slots) and input_ids.shape != (cache.num_slots, 1):
            expected = f"({cache.num_slots}, 1), a row for each slot and one token in it"
            raise ValueError(f"a decode step takes ids of shape {expected}, not {tuple(input_ids.shape)}")
        stored = input_ids.float()[:, None, :, None]  # (batch, 1, T, 1): a token's key is its id
        cache.positions(input_ids.shape[1])
        cache.attend(0, stored, stored, stored)
        if isinstance(cache, Slots):
            self.steps += 1
            if self.fails:
                raise RuntimeError("planted: the forward pass fails")
        return F.one_hot((input_ids[:, -1:].long() + 1) % self.config.vocab_size, self.config.vocab_size).float()
