"""nanoserve: the paged KV cache of an LLM inference engine, small enough to read in an evening.

Every public name imports from here. Names are looked up when they are first used, so that the allocator and
the block table, which are plain Python, load without torch.
"""

from importlib import import_module

_MODULE_OF = {
    "BlockAllocator": "allocator",
    "KVCacheExhausted": "allocator",
    "BlockTable": "block_table",
    "blockwise_attention": "attention",
    "gathered_attention": "attention",
    "KVCache": "cache",
    "NaiveKVCache": "cache",
    "PagedKVCache": "cache",
    "gather_by_table": "cache",
    "write_by_slot": "cache",
    "SlotKVCache": "contiguous_slots",
    "run_continuous": "continuous",
    "Engine": "engine",
    "EngineStats": "stats",
    "cache_for": "generation",
    "decode": "generation",
    "generate": "generation",
    "generate_stream": "generation",
    "greedy_generate": "generation",
    "greedy_generate_paged": "generation",
    "paged_attention": "kernels",
    "kv_bytes_per_token": "memory",
    "used_share": "memory",
    "Llama": "model",
    "PagedSlotKVCache": "paged_slots",
    "KVPool": "pool",
    "PrefillCache": "prefill",
    "left_pad": "prefill",
    "padded_causal_mask": "prefill",
    "Request": "request",
    "sample": "sampling",
    "warp": "sampling",
    "Scheduler": "scheduler",
    "Slots": "slots",
    "encode_chat": "text",
    "stream_text": "text",
    "DEFAULT_MODEL": "weights",
    "load_model": "weights",
    "load_tokenizer": "weights",
}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'nanoserve' has no attribute {name!r}")
    return getattr(import_module(f"nanoserve.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
