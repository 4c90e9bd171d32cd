"""Day 14's planted fault. To find it, press its buttons before you read on."""

from nanoserve.allocator import BlockAllocator


class SuspectAllocator(BlockAllocator):
    """An allocator with one fault, of the kind that leaks memory slowly and is found late."""

    def free(self, block_id: int) -> None:
        """Give one block back."""
        if not block_id:  # meant: "no block, nothing to do"; but block 0 is a block
            return
        super().free(block_id)
