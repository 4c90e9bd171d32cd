"""A small Llama with random weights, in this engine and in transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from nanoserve import Llama

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


def small_llamas(device: str) -> tuple[Llama, LlamaForCausalLM]:
    """Four layers, 4 query and 2 KV heads of 16, a vocabulary of 61; the same weights in both, on `device`."""
    from transformers import LlamaConfig, LlamaForCausalLM  # takes seconds to import

    config = LlamaConfig(
        vocab_size=61,
        hidden_size=48,
        intermediate_size=40,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=256,
        initializer_range=0.2,  # wide enough that attention is far from uniform
        eos_token_id=None,
    )
    torch.manual_seed(21)
    theirs = LlamaForCausalLM(config).eval().requires_grad_(False)
    ours = Llama(config)
    ours.load_state_dict(theirs.state_dict(), strict=False)
    return ours.to(device), theirs.to(device)
