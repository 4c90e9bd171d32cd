"""The independent judge of every day: Hugging Face transformers, on the very checkpoint that the engine loads."""

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

import torch

from nanoserve.weights import find_checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@cache
def transformers_model() -> "PreTrainedModel":
    """transformers' own model of the default checkpoint, in fp32."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    return AutoModelForCausalLM.from_pretrained(find_checkpoint(), dtype=torch.float32)


def transformers_tokens(prompt_ids: Iterable[int], max_new_tokens: int) -> list[int]:
    """The greedy tokens that transformers' `generate` gives after a prompt, without the prompt."""
    ids = torch.tensor([list(prompt_ids)])
    output = transformers_model().generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_new_tokens, do_sample=False
    )
    return output[0, ids.shape[1] :].tolist()


def transformers_keys(prompt_ids: Iterable[int], layer: int) -> torch.Tensor:
    """The keys that transformers' own cache holds of a prompt, (num_kv_heads, tokens, head_dim)."""
    from transformers import DynamicCache

    with torch.inference_mode():
        output = transformers_model()(torch.tensor([list(prompt_ids)]), use_cache=True)
    [cache] = [value for value in output.values() if isinstance(value, DynamicCache)]  # its name changed in version 5
    return cache.layers[layer].keys[0]
