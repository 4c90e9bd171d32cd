"""Day 15's sentence in its scattered blocks: position 17, followed through the block table to its slot."""

from nanoserve import BlockAllocator, BlockTable
from nanoserve.course.view.route_widget import follow_position
from nanoserve.course.view.watch import watch

TEXT = "These| words| stand| in| a| row| on| the| page|,| but| in| memory| they| lie| wherever| there| was| room|."
OTHER = "A| second| text| is| here|."


def block_table() -> str:
    """A sentence of 20 tokens in the blocks that were free, beside another text."""
    allocator = BlockAllocator(num_blocks=8, block_size=4)
    allocator.allocate_for(32)
    allocator.free_all([7, 6, 2, 5, 1, 4, 3, 0])
    view = watch(allocator)
    for label, words in (("B", OTHER.split("|")), ("A", TEXT.split("|"))):
        table = BlockTable(allocator)
        view.follow(label, table, words)
        table.append(len(words))
    return follow_position(view, "A", 17).svg(theme="light")
