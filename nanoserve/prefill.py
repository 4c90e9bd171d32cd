"""Day 22: prompts of different lengths go through the model together, padded on the left to one length."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from nanoserve.cache import KVCache

PAD = 0  # any token id does: nobody attends to it, and its keys and values are never stored


def left_pad(prompts: Sequence[Sequence[int]]) -> tuple[torch.Tensor, list[int]]:
    """Put prompts under one another so that they end together, and each one's next token follows the last column.

    Args:
        prompts: token ids of each, at least one.

    Returns:
        The ids, (batch, longest), and how many pads stand before each prompt.
    """
    longest = max(len(prompt) for prompt in prompts)
    pad_lens = [longest - len(prompt) for prompt in prompts]
    rows = [[PAD] * pads + list(prompt) for prompt, pads in zip(prompts, pad_lens, strict=True)]
    return torch.tensor(rows), pad_lens


def padded_causal_mask(pad_lens: Sequence[int], num_tokens: int, device: torch.device) -> torch.Tensor:
    """Which columns each column may attend to: a real one to the real ones up to itself.

    What a pad attends to is free, since nobody looks at what comes of it. But it needs something, and gets itself: with
    nothing to attend to, its softmax would be 0 / 0, and NaN spreads.

    Args:
        pad_lens: pads before each row's first real token.
        num_tokens: columns, T.

    Returns:
        (batch, 1, T, T), true where the query of the third dimension sees the key of the fourth.
    """
    column = torch.arange(num_tokens, device=device)
    real = column >= torch.tensor(pad_lens, device=device).unsqueeze(1)  # (batch, T)
    causal = column.unsqueeze(1) >= column  # (T, T)
    itself = column.unsqueeze(1) == column
    return (causal & real.unsqueeze(1) | itself).unsqueeze(1)


class PrefillCache(KVCache):
    """The keys and values of prompts that were prefilled together, until slots take the real ones over.

    Columns are positions: a row's first real token stands at position `pad_lens[row]`. RoPE turns by the distance
    between two tokens only, so the row attends as it would alone, as long as its later tokens keep to that count.

    Args:
        pad_lens: pads before each row's first real token.

    Attributes:
        layers: keys and values of each layer, (batch, num_kv_heads, T, head_dim) each, pads included.
    """

    def __init__(self, pad_lens: Sequence[int]) -> None:
        self.pad_lens = pad_lens
        self.layers: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._mask: torch.Tensor | None = None

    @property
    def seq_len(self) -> int:
        """Columns held, pads included."""
        return self.layers[0][0].shape[2] if self.layers else 0

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keep one layer's keys and values, (batch, num_kv_heads, T, head_dim) each; layers come in order, once."""
        self.layers.append((k, v))
        return k, v

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Store, then let each row's queries attend to its own real tokens: (batch, num_heads, T, head_dim)."""
        k, v = self.append(layer, k, v)
        if layer == 0 and any(self.pad_lens):
            self._mask = padded_causal_mask(self.pad_lens, k.shape[2], k.device)
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=self._mask, is_causal=self._mask is None, enable_gqa=True
        )

    def free(self) -> None:
        """Give the memory back and be empty."""
        self.layers, self._mask = [], None
