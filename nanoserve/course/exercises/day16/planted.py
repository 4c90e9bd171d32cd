"""Day 16's planted fault. To find it, look at the picture before you read on."""

import torch

from nanoserve.cache import PagedKVCache, gather_by_table, write_by_slot


class SuspectCache(PagedKVCache):
    """A paged cache with one fault, of a kind that short texts never show."""

    def append(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store this step's keys and values of one layer, and return all that it holds."""
        start, block_size = self._layer_len[layer], self.pool.allocator.block_size
        end = start + k.shape[2]
        if layer == 0 and k.shape[2] == 1 and self.table.block_ids:  # a decode step: its token goes into the last block
            self._slots = torch.tensor([self.table.block_ids[-1] * block_size + start % block_size])
            self.table.append(1)
        elif layer == 0:
            self.table.append(k.shape[2])
            self._slots = torch.tensor([self.table.slot(p) for p in range(start, end)])
        self._blocks = torch.tensor(self.table.block_ids)
        write_by_slot(self.pool.k[layer], self._slots, k)
        write_by_slot(self.pool.v[layer], self._slots, v)
        self._layer_len[layer] = end
        return tuple(gather_by_table(memory[layer], self._blocks, end) for memory in (self.pool.k, self.pool.v))
