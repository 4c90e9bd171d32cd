"""Day 22: many sequences in one decode step, each in a slot of its own: the books, whatever memory lies under them."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from nanoserve.allocator import BlockAllocator, KVCacheExhausted
from nanoserve.arguments import whole_number
from nanoserve.block_table import BlockTable
from nanoserve.cache import KVCache
from nanoserve.model import Llama
from nanoserve.prefill import PrefillCache


class Slots(KVCache):
    """What the slots of a batch have in common, whatever memory lies under them.

    A slot holds one sequence or is idle. In a decode step the batch has one row a slot, idle ones included, so its
    shape never changes. A step is: `reserve_step` makes room, the model runs, `advance` counts the new tokens. When
    the model raises in between, nothing was counted, and the same step can be run again.

    Args:
        num_slots: sequences that decode together, at most.
        max_len: tokens of the longest sequence that can be held.
        device: of the keys and values.
        allocator: whose blocks the sequences fill; one block of `max_len` tokens a slot unless one is given.

    Attributes:
        tables: the block table of each slot that holds a sequence.
        lengths: tokens that each slot holds; 0 when it is idle.
        offsets: what each slot adds to a token's index for RoPE: the pads that stood before its prompt.
    """

    def __init__(
        self, num_slots: int, max_len: int, device: torch.device, allocator: BlockAllocator | None = None
    ) -> None:
        for name, size in (("num_slots", num_slots), ("max_len", max_len)):
            if whole_number(size) is None or size < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {size!r}")
        self.num_slots, self.max_len, self.device = num_slots, max_len, device
        self.allocator = BlockAllocator(num_slots, max_len) if allocator is None else allocator
        self.tables: dict[int, BlockTable] = {}
        self.lengths = [0] * num_slots
        self.offsets = [0] * num_slots

    def require_fit(self, model: Llama) -> None:
        """Raise a ValueError unless the memory can hold this model's keys and values."""
        raise NotImplementedError

    @property
    def seq_len(self) -> int:
        """Tokens of the longest sequence held."""
        return max(self.lengths)

    def free_slots(self) -> list[int]:
        """The slots that hold no sequence, lowest first."""
        return [slot for slot in range(self.num_slots) if slot not in self.tables]

    def can_admit(self, lengths: Sequence[int]) -> bool:
        """Whether there are slots and blocks for so many more sequences, beside the next token of all that are here.

        Args:
            lengths: tokens of each, with the first one that it will decode.
        """
        if len(lengths) > len(self.free_slots()) or max(lengths, default=0) > self.max_len:
            return False
        blocks = sum(self._blocks_for(length) for length in lengths)
        return blocks + self._blocks_due() <= self.allocator.num_free

    def admit(self, slots: Sequence[int], prefill: PrefillCache, pad_lens: Sequence[int]) -> None:
        """Store the prompts that were prefilled together, each in its slot, and leave their pads behind.

        The pad count stays with the slot as its RoPE offset: the keys were rotated by it, and so must be all that
        follow.

        Args:
            slots: a free slot for each row.
            prefill: their keys and values.
            pad_lens: pads before each row's first real token.

        Raises:
            ValueError: a slot holds a sequence, or is named twice.
            KVCacheExhausted: too few blocks are free, or a prompt is longer than `max_len`; nothing was stored.
        """
        lengths = [prefill.seq_len - pads for pads in pad_lens]
        self._require_room(slots, lengths)
        try:
            for row, (slot, length, pads) in enumerate(zip(slots, lengths, pad_lens, strict=True)):
                self.tables[slot] = BlockTable(self.allocator)
                self.lengths[slot], self.offsets[slot] = length, pads
                self._grow(slot, length)
                real = [(k[row : row + 1, :, pads:], v[row : row + 1, :, pads:]) for k, v in prefill.layers]
                self._store_prompt(slot, real)
        except BaseException:  # say the device's memory ran out: all of them are in, or none is
            for slot in self.tables.keys() & set(slots):
                self.release(slot)
            raise

    def reserve_step(self) -> bool:
        """Make room for one more token in every sequence, or in none; say whether there was room."""
        if self.seq_len == self.max_len or self._blocks_due() > self.allocator.num_free:
            return False
        for slot in self.tables:
            self._grow(slot, self.lengths[slot] + 1)
        return True

    def advance(self) -> None:
        """Count the token that a decode step stored in every sequence."""
        for slot in self.tables:
            self.lengths[slot] += 1

    def release(self, slot: int) -> None:
        """Give a sequence's blocks back; its slot is idle."""
        self.tables.pop(slot).free()
        self.lengths[slot] = self.offsets[slot] = 0

    def free(self) -> None:
        """Give everything back; doing it again does nothing."""
        for slot in list(self.tables):
            self.release(slot)

    def positions(self, num_tokens: int) -> torch.Tensor:
        """Where each slot's new token stands, (num_slots, 1), for the model's RoPE.

        The model asks once, when a step begins: here the lengths and offsets go to the device, and the step's index
        tensors are made for all layers.
        """
        lengths, offsets = torch.tensor([self.lengths, self.offsets], device=self.device)
        self._begin_step(lengths)
        return (lengths + offsets).unsqueeze(1)

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Store each slot's new token, then let its query attend to the slot's tokens.

        Args:
            layer: index of the layer, from 0.
            q: (num_slots, num_heads, 1, head_dim).
            k, v: (num_slots, num_kv_heads, 1, head_dim).

        Returns:
            (num_slots, num_heads, 1, head_dim); what stands in an idle slot's row means nothing, but is finite.
        """
        keys, values = self.append(layer, k, v)
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=self._mask, enable_gqa=True)

    @property
    def used_tokens(self) -> int:
        """Tokens held."""
        return sum(self.lengths)

    @property
    def allocated_tokens(self) -> int:
        """Tokens that the sequences' blocks have room for."""
        return sum(len(table.block_ids) for table in self.tables.values()) * self.allocator.block_size

    @property
    def reserved_tokens(self) -> int:
        """Tokens that the whole memory has room for."""
        return self.allocator.num_blocks * self.allocator.block_size

    def _require_room(self, slots: Sequence[int], lengths: Sequence[int]) -> None:
        free = self.free_slots()
        if len(set(slots)) < len(slots) or not set(slots) <= set(free):
            raise ValueError(f"slots {list(slots)} must be free, each named once; free: {free}")
        needed = sum(self._blocks_for(length) for length in lengths)
        if needed > self.allocator.num_free or max(lengths) > self.max_len:
            raise KVCacheExhausted(
                f"no room for prompts of {lengths} tokens: blocks needed: {needed}; free: {self.allocator.num_free}; "
                f"tokens of one sequence: {self.max_len} at most"
            )

    def _blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.allocator.block_size)

    def _blocks_due(self) -> int:
        """Blocks that have to be taken before every sequence can store one more token."""
        return sum(
            self._blocks_for(self.lengths[slot] + 1) - len(table.block_ids) for slot, table in self.tables.items()
        )

    def _grow(self, slot: int, num_tokens: int) -> None:
        """Let the slot's sequence have room for so many tokens in all."""
        table = self.tables[slot]
        table.append(num_tokens - table.num_tokens)

    def _store_prompt(self, slot: int, layers: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Write a prompt into its slot.

        Args:
            layers: keys and values of each layer, (1, num_kv_heads, the prompt's tokens, head_dim) each.
        """
        raise NotImplementedError

    def _begin_step(self, lengths: torch.Tensor) -> None:
        """Make what all layers of a decode step use, given the tokens that each slot holds before it, (num_slots,)."""
        raise NotImplementedError
