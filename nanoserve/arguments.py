"""Day 17: what a run may be given. Ids come as ints, lists, tuples, tensors or arrays; all else is told by its name."""

from collections.abc import Iterable, Sequence
from operator import index

import torch

TokenIds = Sequence[int] | torch.Tensor


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
