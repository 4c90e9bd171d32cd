"""Day 17: the decode loop. One loop serves every cache, and every way out of it gives the blocks back."""

from collections.abc import Callable, Iterable, Iterator

import torch

from nanoserve.allocator import BlockAllocator
from nanoserve.arguments import TokenIds, run_arguments, whole_number
from nanoserve.cache import KVCache, NaiveKVCache, PagedKVCache
from nanoserve.model import Llama
from nanoserve.pool import KVPool


def generate(
    model: Llama,
    prompt_ids: TokenIds,
    max_new_tokens: int,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    eos_token_id: int | Iterable[int] | None = None,
    paged: bool = False,
    block_size: int = 16,
    allocator: KVPool | BlockAllocator | None = None,
) -> list[int]:
    """The new token ids of one sequence, without the prompt; an eos that ended it is the last of them.

    Args:
        model: the model.
        prompt_ids: a list, a tuple, or a tensor, (T,) or (1, T).
        max_new_tokens: at most this many; 0 touches nothing.
        temperature, top_k, top_p: as `sample` takes them; 0 is greedy.
        seed: of the draws, the same for every cache and machine; None draws from torch's global generator.
        eos_token_id: ids that end the text; None for the model's own, () for none.
        paged: keep keys and values in blocks, in a pool that is sized to this run.
        block_size: tokens in a block of that pool.
        allocator: blocks that runs share, which implies `paged` and brings its own block size. A `KVPool` shares its
            memory too; with a bare allocator the ids are shared and the run brings its own memory.

    Raises:
        ValueError: a prompt that is empty, not of token ids or too long, an argument outside its range, or a pool of
            another model; nothing was allocated.
        KVCacheExhausted: a shared pool ran out; the run's blocks went back.
    """
    stream = generate_stream(
        model,
        prompt_ids,
        max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        eos_token_id=eos_token_id,
        paged=paged,
        block_size=block_size,
        allocator=allocator,
    )
    return list(stream)


def generate_stream(
    model: Llama,
    prompt_ids: TokenIds,
    max_new_tokens: int,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    eos_token_id: int | Iterable[int] | None = None,
    paged: bool = False,
    block_size: int = 16,
    allocator: KVPool | BlockAllocator | None = None,
) -> Iterator[int]:
    """As `generate`, each token as soon as it is there.

    Arguments are checked at the call; blocks are taken when the first token is asked for, and are back before the last
    one is handed out, or as soon as the stream is closed or dropped. A traceback that is kept, as a notebook keeps its
    last one, keeps the stream and so its blocks: `with contextlib.closing(stream):` gives them back whatever is kept.
    """
    run = run_arguments(model, prompt_ids, max_new_tokens, temperature, top_k, top_p, seed, eos_token_id)
    if paged and allocator is None and (whole_number(block_size) or 0) < 1:
        raise ValueError(f"block_size must be a whole number of at least 1, got {block_size!r}")
    if allocator is not None and not isinstance(allocator, KVPool) and not hasattr(allocator, "num_blocks"):
        raise ValueError(f"allocator must be a KVPool or a BlockAllocator, got {allocator!r}")
    num_stored = len(run.prompt) + run.max_new_tokens - 1  # nothing attends to the last token
    cache = cache_for(model, num_stored, paged, block_size, allocator) if run.max_new_tokens else NaiveKVCache()
    return decode(model, cache, *run)


def cache_for(
    model: Llama,
    num_tokens: int,
    paged: bool = False,
    block_size: int = 16,
    allocator: KVPool | BlockAllocator | None = None,
) -> KVCache:
    """The empty cache of one run, over the memory that it was asked to use; no block is taken yet.

    Args:
        model: whose keys and values it will hold.
        num_tokens: the most that the run will store.
        paged: in blocks of `block_size`, in a pool of its own that is just large enough.
        block_size: tokens in a block of that pool.
        allocator: blocks that runs share, whatever the two above say. A `KVPool` is used as it is; with a bare
            `BlockAllocator` the ids are shared, and the run brings a pool of the allocator's sizes for them.

    Raises:
        ValueError: a `KVPool` that its own `require_fit` refuses: it is another model's.
    """
    if isinstance(allocator, KVPool):
        allocator.require_fit(model)
        return PagedKVCache(allocator)
    if allocator is not None:
        return PagedKVCache(KVPool.for_model(model, allocator.num_blocks, allocator.block_size, allocator))
    if paged:
        return PagedKVCache(KVPool.for_model(model, -(-num_tokens // block_size), block_size))
    return NaiveKVCache()


def decode(
    model: Llama,
    cache: KVCache,
    prompt: list[int],
    num_new: int,
    eos: frozenset[int],
    next_token: Callable[[torch.Tensor], int],
) -> Iterator[int]:
    """Yield the new tokens of one sequence, one by one, and free the cache once, on every way out.

    Args:
        model: `model(ids, cache)` takes ids, (1, T), and gives logits, (1, 1, vocab_size).
        cache: an empty one, for this run alone.
        prompt: the token ids to begin with.
        num_new: at most this many tokens; 0 gives none.
        eos: each of these ids ends the text, as its last token.
        next_token: chooses an id by the logits, (vocab_size,).
    """
    step, token = prompt, None
    try:
        for left in reversed(range(num_new)):
            logits = model(torch.tensor([step], device=model.device), cache)
            token = next_token(logits[0, -1])
            if left == 0 or token in eos:
                break
            yield token
            step = [token]
    finally:
        cache.free()
    if token is not None:
        yield token  # the last one leaves when the blocks are back, for a reader may stop here without closing


def greedy_generate(model: Llama, prompt_ids: TokenIds, max_new_tokens: int) -> list[int]:
    """The likeliest tokens, over the contiguous cache; see `generate`."""
    return generate(model, prompt_ids, max_new_tokens)


def greedy_generate_paged(
    model: Llama,
    prompt_ids: TokenIds,
    max_new_tokens: int,
    block_size: int = 16,
    allocator: KVPool | BlockAllocator | None = None,
) -> list[int]:
    """The same tokens, over blocks; see `generate`."""
    return generate(model, prompt_ids, max_new_tokens, paged=True, block_size=block_size, allocator=allocator)
