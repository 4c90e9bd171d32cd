"""Fixtures of the engine's tests: small random Llamas, and the real model in both engines."""

import os
from collections.abc import Callable

import pytest
from hypothesis import settings

# Kernels are tested in Triton's interpreter, which must be chosen before anything imports Triton.
os.environ["TRITON_INTERPRET"] = "1"
if "PYTEST_XDIST_WORKER" in os.environ:  # one core each, also for the notebooks' kernels
    os.environ["OMP_NUM_THREADS"] = "1"

# No deadline, for a shared machine stalls now and then; derandomized, so that a run can be repeated.
settings.register_profile("course", deadline=None, derandomize=True)
settings.load_profile("course")

PROMPT = [5, 17, 3, 42, 8, 11, 29]  # for a vocabulary of 61

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,  # within head_dim 16: long waves, short ones, and some between
}


@pytest.fixture(scope="session", autouse=True)
def one_torch_thread() -> None:
    """Two threads that wait for each other are far slower than one, as soon as anything else runs beside them."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def random_pair() -> Callable:
    """Makes a small random Llama twice, with the same weights: ours, and transformers'."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from nanoserve import Llama

    def make(**overrides):
        sizes = {
            "vocab_size": 61,
            "hidden_size": 48,
            "intermediate_size": 40,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "max_position_embeddings": 256,
            "eos_token_id": 2,
            "initializer_range": 0.2,  # wide enough that attention is far from uniform
        }
        config = LlamaConfig(**(sizes | overrides))
        torch.manual_seed(0)
        theirs = LlamaForCausalLM(config).eval().requires_grad_(False)
        ours = Llama(config)
        missing = ours.load_state_dict(theirs.state_dict(), strict=False).missing_keys
        assert not missing
        return ours, theirs

    return make


@pytest.fixture(scope="session")
def tiny(random_pair):
    """One small random Llama of ours. Nothing ends its texts but `max_new_tokens`, unless a test says so."""
    model, _ = random_pair(eos_token_id=None)
    return model


@pytest.fixture(scope="session")
def smollm():
    """The course's model in this engine, converted or fetched if it is not here yet."""
    from nanoserve import load_model

    return load_model()


@pytest.fixture(scope="session")
def smollm_transformers():
    """The same checkpoint in transformers."""
    from transformers import LlamaForCausalLM

    from nanoserve.weights import find_checkpoint

    return LlamaForCausalLM.from_pretrained(find_checkpoint()).eval()


@pytest.fixture(scope="session")
def tokenizer():
    from nanoserve import load_tokenizer

    return load_tokenizer()
