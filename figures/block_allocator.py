"""The trace of Day 14: six blocks, three sequences, one that finds no room, and one that gets what was freed."""

from contextlib import suppress

from nanoserve import BlockAllocator, KVCacheExhausted
from nanoserve.course.view.svg import draw_pool
from nanoserve.course.view.watch import watch


def block_allocator() -> str:
    """The pool after A has come and gone, and D has got two of its blocks, the last one first."""
    allocator = BlockAllocator(num_blocks=6, block_size=16)
    view = watch(allocator)
    a, _, _ = (allocator.allocate_for(tokens) for tokens in (40, 20, 16))
    with suppress(KVCacheExhausted):
        allocator.allocate_for(1)
    allocator.free_all(a)
    allocator.allocate_for(30)
    return draw_pool(view.state(), "light")
