"""Day 22: the slots of a batch over one pool: a block table for each, and a scratch block for those that are idle."""

from importlib.util import find_spec

import torch

from nanoserve.cache import write_by_slot
from nanoserve.model import Llama
from nanoserve.pool import KVPool
from nanoserve.slots import Slots


class PagedSlotKVCache(Slots):
    """Slots whose sequences take blocks from one pool as they grow.

    Idle slots take part in every decode step. Their keys and values go to the scratch block, which no sequence ever
    gets; so do the entries of a block table behind a sequence's last block.

    Args:
        pool: the memory; one of its blocks becomes the scratch block, until `free`. Others may share the rest.
        num_slots: sequences that decode together, at most.

    Attributes:
        kernel: as `PagedKVCache.kernel`: None for the Triton kernel on a GPU and a copy of the blocks elsewhere.
        scratch: id of the scratch block; None once everything was freed.
        block_tables: (num_slots, num_blocks) on the pool's device, the mirror of `tables`.
    """

    kernel: bool | None = None

    def __init__(self, pool: KVPool, num_slots: int) -> None:
        allocator = pool.allocator
        if allocator.num_blocks < 2:
            raise ValueError("a pool of 1 block has none to give out beside the scratch block: make it larger")
        longest = (allocator.num_blocks - 1) * allocator.block_size
        super().__init__(num_slots, longest, pool.k.device, allocator)
        self.pool = pool
        self._mirrored = [0] * num_slots  # blocks of each slot that are wiped and stand in its row of `block_tables`
        self.scratch: int | None = allocator.allocate()
        self._wipe([self.scratch])
        self.block_tables = torch.full((num_slots, allocator.num_blocks), self.scratch, device=self.device)

    def require_fit(self, model: Llama) -> None:
        """Raise a ValueError unless the pool can hold this model's keys and values, and these slots are in use."""
        self.pool.require_fit(model)
        if self.scratch is None:
            raise ValueError("these slots were freed: make new ones over the pool")

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and values, filled or not."""
        return self.pool.k.nbytes + self.pool.v.nbytes

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """As `Slots.attend`; with the kernel, the queries read the blocks where they lie."""
        if not self._in_place:
            return super().attend(layer, q, k, v)
        from nanoserve.kernels import paged_attention  # here, for a machine without Triton runs all the rest

        self.store(layer, k, v)
        keys, values = self.pool.k[layer], self.pool.v[layer]
        return paged_attention(q[:, :, 0], keys, values, self._step_tables, self._step_lengths).unsqueeze(2)

    def places(self, lengths: torch.Tensor) -> torch.Tensor:
        """Where each slot's next token goes, (num_slots,): the flat `block_id * block_size + offset` in the pool.

        An idle slot's place is in the scratch block.

        Args:
            lengths: tokens that each slot holds, (num_slots,) on the pool's device; 0 when it is idle.
        """
        size = self.allocator.block_size
        entries = (lengths // size).unsqueeze(1)  # of each slot's row in the block tables
        return self.block_tables.gather(1, entries).squeeze(1) * size + lengths % size

    def store(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """Write each slot's new token of one layer, (num_slots, num_kv_heads, 1, head_dim), into its place."""
        write_by_slot(self.pool.k[layer], self._places, k.transpose(0, 2))  # (1, num_kv_heads, num_slots, head_dim)
        write_by_slot(self.pool.v[layer], self._places, v.transpose(0, 2))

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store each slot's new token, and return a copy of all slots' blocks, padded to the longest with scratch.

        The next layer's copy takes its place.
        """
        self.store(layer, k, v)
        return self._gather(self.pool.k[layer], self._copies[0]), self._gather(self.pool.v[layer], self._copies[1])

    def release(self, slot: int) -> None:
        """Give a sequence's blocks back; its slot is idle and points to the scratch block."""
        super().release(slot)
        self._mirrored[slot] = 0
        self.block_tables[slot] = self.scratch

    def free(self) -> None:
        """Give everything back, the scratch block too: these slots are used no more. Again, it does nothing."""
        super().free()
        if self.scratch is not None:
            self.allocator.free(self.scratch)
            self.scratch = None

    @property
    def _in_place(self) -> bool:
        return self.device.type == "cuda" and find_spec("triton") is not None if self.kernel is None else self.kernel

    def _gather(self, memory: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
        """Copy the slots' blocks of one layer together: (num_slots, num_kv_heads, blocks * block_size, head_dim)."""
        torch.index_select(memory.view(len(memory), -1), 0, self._pages, out=copy)  # whole blocks
        return copy.view(self.num_slots, -1, *memory.shape[2:]).transpose(1, 2)

    def _grow(self, slot: int, num_tokens: int) -> None:
        super()._grow(slot, num_tokens)
        held = self._mirrored[slot]  # less than the table had, where a growth was cut short
        new = self.tables[slot].block_ids[held:]
        if new:
            self._wipe(new)
            self.block_tables[slot, held : held + len(new)] = torch.tensor(new, device=self.device)
            self._mirrored[slot] += len(new)

    def _wipe(self, block_ids: list[int]) -> None:
        """Zero new blocks: a masked value is still multiplied, by 0, and 0 times a stale NaN is NaN."""
        index = torch.tensor(block_ids, device=self.device)
        for memory in (self.pool.k, self.pool.v):
            memory.index_fill_(1, index, 0)

    def _store_prompt(self, slot: int, layers: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        table = self.tables[slot]
        places = torch.tensor([table.slot(p) for p in range(table.num_tokens)], device=self.device)
        for layer, (k, v) in enumerate(layers):
            write_by_slot(self.pool.k[layer], places, k)
            write_by_slot(self.pool.v[layer], places, v)

    def _begin_step(self, lengths: torch.Tensor) -> None:
        self._places = self.places(lengths)
        self._step_tables = self.block_tables[:, : self._blocks_for(self.seq_len + 1)]
        self._step_lengths = lengths + 1
        if self._in_place:
            return
        self._pages = self._step_tables.flatten()
        # All layers copy into the same memory: fresh memory costs a page fault every 4 KB, more than the copy itself.
        self._copies = self.pool.k.new_empty(2, len(self._pages), self.pool.k[0, 0].numel())
        columns = self._step_tables.shape[1] * self.allocator.block_size
        column = torch.arange(columns, device=self.device)
        self._mask = (column < self._step_lengths.unsqueeze(1))[:, None, None]  # (num_slots, 1, 1, columns)
