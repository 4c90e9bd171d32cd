"""Day 17: what a run may be given. Ids come as ints, lists, tuples, tensors or arrays; all else is told by its name."""

from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import NamedTuple

import torch

from nanoserve.model import Llama
from nanoserve.sampling import check_sampling, sample

TokenIds = Sequence[int] | torch.Tensor


class RunArguments(NamedTuple):
    """What one text was asked for, checked.

    Attributes:
        prompt: its token ids.
        max_new_tokens: at most this many.
        eos: each of these ids ends it, as its last token.
        next_token: chooses an id by the logits, (vocab_size,); with a seed, from a generator of its own.
    """

    prompt: list[int]
    max_new_tokens: int
    eos: frozenset[int]
    next_token: Callable[[torch.Tensor], int]


def run_arguments(
    model: Llama,
    prompt_ids: TokenIds,
    max_new_tokens: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    seed: int | None,
    eos_token_id: int | Iterable[int] | None,
) -> RunArguments:
    """What `generate` takes for one text, or a ValueError that says what is wrong with it."""
    prompt = token_ids(prompt_ids, model.config.vocab_size)
    num_new = whole_number(max_new_tokens)
    if num_new is None or num_new < 0:
        raise ValueError(f"max_new_tokens must be a whole number of 0 or more, got {max_new_tokens!r}")
    longest = model.config.max_position_embeddings
    if len(prompt) + num_new > longest:
        raise ValueError(
            f"{len(prompt)} prompt tokens and {num_new} new ones are more than the model's {longest} positions: "
            f"shorten the prompt or lower max_new_tokens"
        )
    check_sampling(temperature, top_k, top_p)
    eos = model.eos_token_ids if eos_token_id is None else end_ids(eos_token_id)
    number = 0 if seed is None else whole_number(seed)
    if number is None or not -(2**63) <= number < 2**64:  # torch takes signed and unsigned
        raise ValueError(f"seed must be a whole number that fits in 64 bits, or None, got {seed!r}")
    generator = None if seed is None else torch.Generator().manual_seed(number)

    def next_token(logits: torch.Tensor) -> int:
        return sample(logits, temperature, top_k, top_p, generator)

    return RunArguments(prompt, num_new, eos, next_token)


def token_ids(prompt_ids: TokenIds, vocab_size: int) -> list[int]:
    """The prompt as a list of ints, or a ValueError that says what is wrong with it."""
    if hasattr(prompt_ids, "tolist"):  # a tensor, or NumPy's array
        if prompt_ids.ndim == 2 and len(prompt_ids) == 1:
            prompt_ids = prompt_ids[0]
        if prompt_ids.ndim != 1:
            raise ValueError(f"prompt_ids must be one sequence, (T,) or (1, T), got {tuple(prompt_ids.shape)}")
        prompt_ids = prompt_ids.tolist()
    if isinstance(prompt_ids, str | bytes) or not isinstance(prompt_ids, Sequence) or not prompt_ids:
        raise ValueError(
            f"prompt_ids must be at least one token id, in a list, a tuple or a tensor, got {prompt_ids!r}: "
            f"encode the text first"
        )
    ids = []
    for token_id in prompt_ids:
        number = whole_number(token_id)
        if number is None:
            raise ValueError(f"prompt_ids must be whole numbers, got {token_id!r}")
        if not 0 <= number < vocab_size:
            raise ValueError(f"token id {number} is outside the vocabulary of {vocab_size}")
        ids.append(number)
    return ids


def end_ids(eos_token_id: int | Iterable[int]) -> frozenset[int]:
    """One id, or several, as a set, or a ValueError that shows what came instead."""
    numbers = [whole_number(eos_token_id)]
    if isinstance(eos_token_id, Iterable) and numbers == [None]:
        numbers = [whole_number(token_id) for token_id in eos_token_id]
    if None in numbers:
        raise ValueError(f"eos_token_id must be a token id, or several, got {eos_token_id!r}")
    return frozenset(numbers)


def whole_number(value: object) -> int | None:
    """The value as an int, or None where it is something else; True and False are something else."""
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None
