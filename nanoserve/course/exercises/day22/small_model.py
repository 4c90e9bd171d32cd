"""A small Llama with random weights, without transformers, whose import takes seconds of the learner's time."""

from types import SimpleNamespace

import torch

from nanoserve.model import Llama

_CONFIG = {
    "model_type": "llama",
    "hidden_act": "silu",
    "vocab_size": 61,
    "hidden_size": 48,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "eos_token_id": None,
}


def small_model() -> Llama:
    """Two layers, 4 query and 2 KV heads of 16, a vocabulary of 61; the learner's random numbers are left alone."""
    with torch.random.fork_rng(devices=[]):
        model = Llama(SimpleNamespace(**_CONFIG))
    draw = torch.Generator().manual_seed(22)
    for name, weight in model.named_parameters():
        if "norm" not in name:
            weight.normal_(std=0.2, generator=draw)  # wide enough that attention is far from uniform
    return model
