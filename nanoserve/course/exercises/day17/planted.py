"""Day 17's planted fault. To find it, look at who stays in the pool before you read on."""

from collections.abc import Callable, Iterator

import torch

from nanoserve.cache import KVCache
from nanoserve.model import Llama


def suspect_decode(
    model: Llama,
    cache: KVCache,
    prompt: list[int],
    num_new: int,
    eos: frozenset[int],
    next_token: Callable[[torch.Tensor], int],
) -> Iterator[int]:
    """A stream with a `finally`, and with a gap before it."""
    if num_new == 0:
        return
    token = next_token(model(torch.tensor([prompt], device=model.device), cache)[0, -1])
    yield token  # the first token comes from the prompt, the others from the loop: so it was written
    try:
        for _ in range(num_new - 1):
            if token in eos:
                break
            token = next_token(model(torch.tensor([[token]], device=model.device), cache)[0, -1])
            yield token
    finally:
        cache.free()
