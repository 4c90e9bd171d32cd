"""Day 15's planted fault. To find it, let it grow in steps of your own before you read on."""

from nanoserve.block_table import BlockTable


class SuspectTable(BlockTable):
    """A block table with one fault: right for a prompt and then token by token, in blocks of any usual size."""

    def append(self, num_tokens: int = 1) -> None:
        """Grow the sequence by `num_tokens` positions."""
        length = self.num_tokens + num_tokens
        if not self.block_ids:
            self.block_ids += self.allocator.allocate_for(length)
        elif length % self.allocator.block_size == 1:  # the token just added is the first one of a new block
            self.block_ids.append(self.allocator.allocate())
        self.num_tokens = length
