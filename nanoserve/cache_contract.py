"""Days 13 and 16: what a decode loop and a model may ask of a cache, whatever memory lies under it."""

import torch
import torch.nn.functional as F


class KVCache:
    """What a decode loop and a model may ask of a cache, whatever memory lies under it.

    A step stores the keys and values of the same T new tokens in every layer.
    """

    @property
    def seq_len(self) -> int:
        """Tokens held."""
        raise NotImplementedError

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store this step's keys and values of one layer.

        Args:
            layer: index of the layer, from 0.
            k, v: (1, num_kv_heads, T, head_dim), the keys already rotated.

        Returns:
            All keys and all values that the layer holds, oldest first, (1, num_kv_heads, tokens held, head_dim) each.

        Raises:
            ValueError: the shapes do not fit the cache.
        """
        raise NotImplementedError

    def free(self) -> None:
        """Give the memory back and be empty; doing it again does nothing."""
        raise NotImplementedError

    def positions(self, num_tokens: int) -> torch.Tensor:
        """Where the next `num_tokens` tokens stand in the sequence, (num_tokens,), for the model's RoPE."""
        return torch.arange(self.seq_len, self.seq_len + num_tokens)

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Store this step's keys and values, then let its queries attend to all that the layer holds.

        Args:
            layer: index of the layer, from 0.
            q: (1, num_heads, T, head_dim); consecutive groups of query heads share a KV head.
            k, v: (1, num_kv_heads, T, head_dim).

        Returns:
            (1, num_heads, T, head_dim).

        Raises:
            ValueError: the tensors do not fit one another, or the cache. Nothing was stored.
        """
        self.require_query(q, k)
        keys, values = self.append(layer, k, v)
        num_new, num_held = q.shape[2], keys.shape[2]
        mask = None
        if 1 < num_new < num_held:
            # `is_causal` aligns the triangle with the first key, but a chunk's last query must see the last key.
            mask = torch.ones(num_new, num_held, dtype=torch.bool, device=q.device).tril(num_held - num_new)
        return F.scaled_dot_product_attention(
            q, keys, values, attn_mask=mask, is_causal=1 < num_new == num_held, enable_gqa=True
        )

    @staticmethod
    def require_shape(
        k: torch.Tensor, v: torch.Tensor, heads: tuple[int, ...] | None = None, like: torch.Tensor | None = None
    ) -> None:
        """Raise a ValueError unless both are (1, num_kv_heads, T, head_dim).

        Args:
            k, v: what `append` was given.
            heads: the (num_kv_heads, head_dim) that they must have, where these are known.
            like: whose dtype they must have, and on whose device they must lie.
        """
        if k.ndim != 4 or k.shape[0] != 1 or v.shape != k.shape:
            raise ValueError(
                f"a cache holds one sequence: k and v must both be (1, num_kv_heads, T, head_dim), "
                f"got {tuple(k.shape)} and {tuple(v.shape)}"
            )
        if heads is not None and (k.shape[1], k.shape[3]) != heads:
            raise ValueError(f"this cache holds {heads[0]} KV heads of {heads[1]}, got {k.shape[1]} of {k.shape[3]}")
        for name, new in (("k", k), ("v", v)):
            if like is not None and (new.dtype, new.device) != (like.dtype, like.device):
                raise ValueError(
                    f"this cache holds {like.dtype} on {like.device}, and {name} is {new.dtype} on {new.device}: "
                    f"make the pool with the model's dtype and device, as KVPool.for_model does"
                )

    @staticmethod
    def require_query(q: torch.Tensor, k: torch.Tensor) -> None:
        """Raise a ValueError unless q is (1, num_heads, T, head_dim) with as many query heads for each KV head of k."""
        alike = q.ndim == k.ndim == 4 and (len(q), *q.shape[2:]) == (len(k), *k.shape[2:])
        if not alike or 0 in (q.shape[1], k.shape[1]) or q.shape[1] % k.shape[1]:
            raise ValueError(
                f"q {tuple(q.shape)} does not fit k {tuple(k.shape)}: q is (1, num_heads, T, head_dim), with the T and "
                f"head_dim of k, and num_heads is a multiple of its KV heads"
            )
        if (q.dtype, q.device) != (k.dtype, k.device):
            raise ValueError(f"q is {q.dtype} on {q.device}, and k is {k.dtype} on {k.device}: they must be alike")
