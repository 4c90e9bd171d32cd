"""Engines that are put together from a learner's own parts."""

from nanoserve.contiguous_slots import SlotKVCache
from nanoserve.engine import Engine
from nanoserve.model import Llama
from nanoserve.paged_slots import PagedSlotKVCache
from nanoserve.pool import KVPool
from nanoserve.scheduler import Scheduler
from nanoserve.slots import Slots


def over_pages(slots: type[Slots]) -> type[PagedSlotKVCache]:
    """The paged slots, with these books in the place of the reference's."""
    return _over(slots, PagedSlotKVCache)


def over_rows(slots: type[Slots]) -> type[SlotKVCache]:
    """The contiguous slots, with these books in the place of the reference's."""
    return _over(slots, SlotKVCache)


def engine_of(
    model: Llama,
    num_slots: int,
    num_blocks: int,
    slots: type[Slots] = Slots,
    scheduler: type[Scheduler] = Scheduler,
    engine: type[Engine] = Engine,
    block_size: int = 8,
) -> Engine:
    """An engine of these parts over a pool of its own.

    Args:
        model: the model.
        num_slots: requests that run together at most.
        num_blocks: for the requests; the scratch block comes on top.
        slots, scheduler, engine: the classes, a learner's own included.
        block_size: tokens of a block.
    """
    pool = KVPool.for_model(model, num_blocks + 1, block_size)
    return put_together(model, over_pages(slots)(pool, num_slots), scheduler, engine)


def put_together(model: Llama, slots: Slots, scheduler: type[Scheduler], engine: type[Engine]) -> Engine:
    """An engine of these classes over these slots."""
    made = engine(model, slots)
    made.scheduler = scheduler(slots)
    return made


def _over(slots: type[Slots], memory: type[Slots]) -> type[Slots]:
    """Where both define a method, as the learner's books and the memory's do with the base's, the books come first."""
    return memory if issubclass(memory, slots) else type(memory.__name__, (slots, memory), {})
