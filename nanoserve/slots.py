"""Day 22: many sequences in one decode step, each in a slot of its own; here in one contiguous row a slot."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from nanoserve.allocator import BlockAllocator, KVCacheExhausted
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
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        self.num_slots, self.max_len, self.device = num_slots, max_len, device
        self.allocator = BlockAllocator(num_slots, max_len) if allocator is None else allocator
        self.tables: dict[int, BlockTable] = {}
        self.lengths = [0] * num_slots
        self.offsets = [0] * num_slots

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
        blocks = sum(self._blocks_for(length) for length in lengths)
        return len(lengths) <= len(self.free_slots()) and blocks + self._blocks_due() <= self.allocator.num_free

    def admit(self, slots: Sequence[int], prefill: PrefillCache, pad_lens: Sequence[int]) -> None:
        """Store the prompts that were prefilled together, each in its slot, and leave their pads behind.

        The pad count stays with the slot as its RoPE offset: the keys were rotated by it, and so must be all that
        follow.

        Args:
            slots: a free slot for each row.
            prefill: their keys and values.
            pad_lens: pads before each row's first real token.

        Raises:
            ValueError: a slot holds a sequence.
            KVCacheExhausted: too few blocks are free; nothing was stored.
        """
        lengths = [prefill.seq_len - pads for pads in pad_lens]
        if not set(slots) <= set(self.free_slots()):
            raise ValueError(f"slots {list(slots)} are not all free: these are {self.free_slots()}")
        needed = sum(self._blocks_for(length) for length in lengths)
        if needed > self.allocator.num_free:
            raise KVCacheExhausted(
                f"blocks needed for prompts of {lengths} tokens: {needed}; free: {self.allocator.num_free}"
            )
        for row, (slot, length, pads) in enumerate(zip(slots, lengths, pad_lens, strict=True)):
            self.tables[slot] = BlockTable(self.allocator)
            self._grow(slot, length)
            self._store(slot, [(k[row : row + 1, :, pads:], v[row : row + 1, :, pads:]) for k, v in prefill.layers])
            self.lengths[slot], self.offsets[slot] = length, pads

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

    def _store(self, slot: int, layers: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Write a whole prompt: keys and values of each layer, (1, num_kv_heads, its tokens, head_dim)."""
        raise NotImplementedError

    def _begin_step(self, lengths: torch.Tensor) -> None:
        """Make what all layers of a decode step use, given the tokens that each slot holds before it, (num_slots,)."""
        raise NotImplementedError


class SlotKVCache(Slots):
    """One contiguous row of `max_len` tokens for each slot, reserved whatever the sequence in it will need.

    To the books a row is one block of `max_len` tokens.

    Args:
        model: whose keys and values it will hold.
        num_slots, max_len: rows, and tokens of a row.

    Attributes:
        k, v: (num_layers, num_slots, num_kv_heads, max_len, head_dim); 0 where no sequence has written.
    """

    def __init__(self, model: Llama, num_slots: int, max_len: int) -> None:
        super().__init__(num_slots, max_len, model.device)
        config = model.config
        shape = config.num_hidden_layers, num_slots, config.num_key_value_heads, max_len, config.head_dim
        self.k, self.v = (torch.zeros(shape, dtype=model.dtype, device=model.device) for _ in range(2))

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and values, filled or not."""
        return self.k.nbytes + self.v.nbytes

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store each slot's new token, and return all rows up to the longest, (num_slots, …, longest, head_dim)."""
        keys, values = self.k[layer], self.v[layer]
        keys[self._rows, :, self._at] = k.squeeze(2)
        values[self._rows, :, self._at] = v.squeeze(2)
        return keys[:, :, : self._width], values[:, :, : self._width]

    def release(self, slot: int) -> None:
        """Give the row back, wiped: a masked value is still multiplied, by 0, and 0 times a stale NaN is NaN."""
        for memory in (self.k, self.v):
            memory[:, slot, :, : self.lengths[slot] + 1] = 0  # a step that failed may have written one more
        super().release(slot)

    def _store(self, slot: int, layers: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        for layer, (k, v) in enumerate(layers):
            self.k[layer, slot, :, : k.shape[2]] = k[0]
            self.v[layer, slot, :, : v.shape[2]] = v[0]

    def _begin_step(self, lengths: torch.Tensor) -> None:
        self._rows, self._at = torch.arange(self.num_slots, device=self.device), lengths
        self._width = self.seq_len + 1
        held = torch.arange(self._width, device=self.device) <= lengths.unsqueeze(1)  # (num_slots, width)
        self._mask = held[:, None, None]
