"""Day 13's planted fault. To find it, look at the bytes before you read on."""

import torch

from nanoserve.cache import NaiveKVCache


class SuspectKVCache(NaiveKVCache):
    """A cache with one fault: every token of its texts is right."""

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Store this step's keys and values, then let its queries attend to all that the layer holds."""
        group = q.shape[1] // k.shape[1]  # query heads that share a KV head
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)  # a KV head for each, and then
        return super().attend(layer, q, k, v)  # they are stored, where it was enough to do it after the read
