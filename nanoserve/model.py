"""A Llama forward pass. It knows tokens and layers; where keys and values lie is the cache's matter."""

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn

from nanoserve.cache import KVCache

if TYPE_CHECKING:
    from transformers import LlamaConfig


def eos_ids(entry: int | list[int] | None) -> frozenset[int]:
    """What a checkpoint's JSON files write under eos_token_id: one, several or none."""
    return frozenset([] if entry is None else [entry] if isinstance(entry, int) else entry)


def rope_frequencies(config: "LlamaConfig") -> torch.Tensor:
    """Radians that each pair of dimensions turns per position, (head_dim / 2,) in fp32, on the CPU.

    RoPE is Su et al.'s (RoFormer, 2021). The llama3 scaling slows the turns that the model never saw complete in
    training (Llama 3.1, 2024): long waves by `factor`, short ones not at all, and those between by a blend.

    Raises:
        ValueError: another kind of scaling.
    """
    rope = config.rope_parameters
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32, device="cpu") / config.head_dim
    frequencies = 1.0 / rope["rope_theta"] ** exponents
    if rope["rope_type"] == "default":
        return frequencies
    if rope["rope_type"] != "llama3":
        raise ValueError(
            f"RoPE scaling {rope['rope_type']!r} is not implemented: choose a checkpoint with 'default' or 'llama3'"
        )
    turns = rope["original_max_position_embeddings"] * frequencies / (2 * math.pi)  # within the trained length
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    share = ((turns - low) / (high - low)).clamp(0, 1)  # 0: a long wave, 1: a short one
    return torch.lerp(frequencies / rope["factor"], frequencies, share)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn each pair (i, i + head_dim / 2) of x, (..., T, head_dim), by its position's angle.

    Checkpoints in Hugging Face's format pair the halves; Meta's own pair neighbours.
    """
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def project(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """`F.linear`: (..., in_features) by a weight of (out_features, in_features) gives (..., out_features).

    For the few rows of a decode step on a CPU, the weight stands on the left: MKL then shares its rows among the cores.
    Two of them need 2/3 of the time so for 8 rows, and half for one (`benchmarks/continuous.py` measures it); for 32 it
    makes no difference, and for 500 it takes longer.
    """
    num_rows = x.shape[:-1].numel()
    if x.device.type != "cpu" or num_rows > 16:
        return F.linear(x, weight, bias)
    rows = x.reshape(num_rows, x.shape[-1])
    if num_rows == 1:
        rows = rows.repeat(2, 1)  # a product with one column takes MKL longer than one with two
    columns = weight @ rows.T if bias is None else torch.addmm(bias.unsqueeze(1), weight, rows.T)
    return columns[:, :num_rows].T.contiguous().reshape(*x.shape[:-1], len(weight))


class Linear(nn.Linear):
    """`nn.Linear` by `project`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., in_features) in, (..., out_features) out."""
        return project(x, self.weight, self.bias)


class Attention(nn.Module):
    """Queries, keys and values of one layer; the cache stores them and attends."""

    def __init__(self, config: "LlamaConfig", layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.head_dim = config.head_dim
        q_dim, kv_dim = (n * config.head_dim for n in (config.num_attention_heads, config.num_key_value_heads))
        self.q_proj = Linear(config.hidden_size, q_dim, bias=config.attention_bias)
        self.k_proj = Linear(config.hidden_size, kv_dim, bias=config.attention_bias)
        self.v_proj = Linear(config.hidden_size, kv_dim, bias=config.attention_bias)
        self.o_proj = Linear(q_dim, config.hidden_size, bias=config.attention_bias)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, cache: KVCache) -> torch.Tensor:
        """x is (batch, T, hidden_size), as is the result; cos and sin fit (batch, heads, T, head_dim)."""
        q, k, v = (
            proj(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (batch, heads, T, head_dim)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        out = cache.attend(self.layer, rotate(q, cos, sin), rotate(k, cos, sin), v)
        return self.o_proj(out.transpose(1, 2).flatten(2))  # (batch, T, heads * head_dim) goes in


class MLP(nn.Module):
    """The feed-forward part of one layer, gated by SiLU."""

    def __init__(self, config: "LlamaConfig") -> None:
        super().__init__()
        self.gate_proj = Linear(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)
        self.up_proj = Linear(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)
        self.down_proj = Linear(config.intermediate_size, config.hidden_size, bias=config.mlp_bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, T, hidden_size) in and out."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention, then the MLP, each behind a norm and added to what came in."""

    def __init__(self, config: "LlamaConfig", layer: int) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = Attention(config, layer)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = MLP(config)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, cache: KVCache) -> torch.Tensor:
        """x is (batch, T, hidden_size), as is the result; cos and sin fit (batch, heads, T, head_dim)."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """A Llama-architecture model whose parameters bear their names in the checkpoint. Nothing here is trained.

    Args:
        config: sizes, under transformers' field names.

    Attributes:
        eos_token_ids: the ids that end a text.

    Raises:
        ValueError: another architecture, activation or RoPE scaling.
    """

    def __init__(self, config: "LlamaConfig") -> None:
        super().__init__()
        if config.model_type != "llama" or config.hidden_act != "silu":
            raise ValueError(
                f"this engine runs model_type 'llama' with hidden_act 'silu', and this checkpoint's config.json has "
                f"{config.model_type!r} and {config.hidden_act!r}: choose another"
            )
        self.config = config
        self.eos_token_ids = eos_ids(config.eos_token_id)
        self.model = nn.ModuleDict(
            {
                "embed_tokens": nn.Embedding(config.vocab_size, config.hidden_size),
                "layers": nn.ModuleList(Layer(config, i) for i in range(config.num_hidden_layers)),
                "norm": nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps),
            }
        )
        if not config.tie_word_embeddings:
            self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
        self._frequencies = rope_frequencies(config)  # no buffer: `model.bfloat16()` would round it
        self.requires_grad_(False)

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        return self.model.embed_tokens.weight.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.model.embed_tokens.weight.device

    def forward(self, input_ids: torch.Tensor, cache: KVCache, logits_to_keep: int = 1) -> torch.Tensor:
        """One step: the logits of new tokens, given all that the cache holds before them.

        Args:
            input_ids: (batch, T), whole prompts, chunks of them, or one decoded token each; most caches hold one row.
            cache: where the sequences' keys and values are; it is T tokens longer afterwards.
            logits_to_keep: how many of the last positions get logits, as in transformers; 0 for all T.

        Returns:
            (batch, logits_to_keep, vocab_size).

        Raises:
            ValueError: `input_ids` is not (batch, T) with T of at least 1.
        """
        if input_ids.ndim != 2 or input_ids.shape[1] == 0:
            raise ValueError(f"input_ids must be (batch, T) with at least one token, got {tuple(input_ids.shape)}")
        positions = cache.positions(input_ids.shape[1]).to(input_ids.device)
        self._frequencies = self._frequencies.to(input_ids.device)
        angles = positions.unsqueeze(-1) * self._frequencies  # (T, head_dim / 2)
        angles = torch.cat([angles, angles], dim=-1).unsqueeze(-3)  # (1, T, head_dim): the same for every head
        cos, sin = angles.cos().to(self.dtype), angles.sin().to(self.dtype)

        x = self.model.embed_tokens(input_ids)
        for layer in self.model.layers:
            x = layer(x, cos, sin, cache)
        x = self.model.norm(x[:, -logits_to_keep:])  # -0 is 0: all of them
        head = self.model.embed_tokens if self.config.tie_word_embeddings else self.lm_head
        return project(x, head.weight)
