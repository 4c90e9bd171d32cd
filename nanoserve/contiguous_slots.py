"""Day 22: the slots of a batch, each with a contiguous row of its own."""

import torch

from nanoserve.model import Llama
from nanoserve.pool import kv_sizes
from nanoserve.slots import Slots


class SlotKVCache(Slots):
    """One contiguous row of `max_len` tokens for each slot, reserved whatever the sequence in it will need.

    To the books a row is one block of `max_len` tokens.

    Args:
        model: whose keys and values it will hold.
        num_slots, max_len: rows, and tokens of a row.

    Attributes:
        k, v: (num_layers, num_slots, num_kv_heads, max_len, head_dim); 0 where no sequence has written.
    """

    def __init__(self, model: Llama, num_slots: int, max_len: int) -> None:
        super().__init__(num_slots, max_len, model.device)
        config = model.config
        shape = config.num_hidden_layers, num_slots, config.num_key_value_heads, max_len, config.head_dim
        self.k, self.v = (torch.zeros(shape, dtype=model.dtype, device=model.device) for _ in range(2))

    def require_fit(self, model: Llama) -> None:
        """Raise a ValueError unless the rows can hold this model's keys and values."""
        num_layers, _, num_kv_heads, _, head_dim = self.k.shape
        if kv_sizes(model) != (num_layers, num_kv_heads, head_dim, self.k.dtype, self.device):
            raise ValueError("these rows were made for another model: make them with SlotKVCache(model, ...)")

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and values, filled or not."""
        return self.k.nbytes + self.v.nbytes

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store each slot's new token, and return all rows up to the longest, (num_slots, …, longest, head_dim)."""
        keys, values = self.k[layer], self.v[layer]
        keys[self._rows, :, self._at] = k.squeeze(2)
        values[self._rows, :, self._at] = v.squeeze(2)
        return keys[:, :, : self._width], values[:, :, : self._width]

    def release(self, slot: int) -> None:
        """Give the row back, wiped: a masked value is still multiplied, by 0, and 0 times a stale NaN is NaN."""
        for memory in (self.k, self.v):
            memory[:, slot, :, : self.lengths[slot] + 1] = 0  # a step that failed may have written one more
        super().release(slot)

    def _store_prompt(self, slot: int, layers: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        for layer, (k, v) in enumerate(layers):
            self.k[layer, slot, :, : k.shape[2]] = k[0]
            self.v[layer, slot, :, : v.shape[2]] = v[0]

    def _begin_step(self, lengths: torch.Tensor) -> None:
        self._rows, self._at = torch.arange(self.num_slots, device=self.device), lengths
        self._width = self.seq_len + 1
        held = torch.arange(self._width, device=self.device) <= lengths.unsqueeze(1)  # (num_slots, width)
        self._mask = held[:, None, None]
