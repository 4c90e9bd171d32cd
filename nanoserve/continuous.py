"""Day 23: many prompts in, their texts out, in one call."""

from collections.abc import Iterable, Iterator, Sequence

from nanoserve.arguments import RunArguments, TokenIds, run_arguments
from nanoserve.engine import Engine
from nanoserve.model import Llama
from nanoserve.paged_slots import PagedSlotKVCache
from nanoserve.pool import KVPool
from nanoserve.slots import Slots


def run_continuous(
    model: Llama,
    prompts: Sequence[TokenIds],
    max_new_tokens: int | Sequence[int],
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    eos_token_id: int | Iterable[int] | None = None,
    num_slots: int = 8,
    slots: Slots | None = None,
    progress: bool = False,
) -> list[list[int]]:
    """The new token ids of each prompt, decoded together; in fp32 the very ones that `generate` gives it alone.

    Args:
        model: the model.
        prompts: token ids of each.
        max_new_tokens: at most this many, for all or for each.
        temperature, top_k, top_p, seed, eos_token_id: as `generate` takes them, for each prompt as if it were alone.
        num_slots: texts that decode together at most.
        slots: where they run, instead of `num_slots` over a pool in which nobody is preempted: a `SlotKVCache` or a
            `PagedSlotKVCache`, idle. It is idle again afterwards.
        progress: show a bar that counts the finished texts.

    Raises:
        ValueError: an argument that `generate` refuses too, counts that are not one for each prompt, or a prompt that
            could never fit; nothing was run.
        KVCacheExhausted: others hold so much of the slots' pool that no prompt fits.
    """
    counts = max_new_tokens if isinstance(max_new_tokens, Sequence) else [max_new_tokens] * len(prompts)
    if len(counts) != len(prompts):
        raise ValueError(
            f"max_new_tokens must be one number or one for each of the {len(prompts)} prompts, got {counts}"
        )
    if isinstance(eos_token_id, Iterator):  # every prompt asks for it
        eos_token_id = list(eos_token_id)
    settings = temperature, top_k, top_p, seed, eos_token_id
    asked = list(zip(prompts, counts, strict=True))
    if slots is None:
        slots = _roomy_slots(model, num_slots, [run_arguments(model, *each, *settings) for each in asked])
    engine = Engine(model, slots)
    try:
        requests = [engine.submit(*each, *settings) for each in asked]
        engine.run(progress)
    finally:
        for request_id in list(engine.scheduler.requests):  # none, unless something was raised
            engine.abort(request_id)
    return [request.tokens for request in requests]


def _roomy_slots(model: Llama, num_slots: int, runs: list[RunArguments], block_size: int = 16) -> PagedSlotKVCache:
    """Slots over a pool that holds the largest of the runs together, and so any that come together, and scratch."""
    blocks = sorted(-(-(len(run.prompt) + run.max_new_tokens - 1) // block_size) for run in runs)
    most = max(1, sum(blocks[-num_slots:]))
    return PagedSlotKVCache(KVPool.for_model(model, most + 1, block_size), num_slots)
