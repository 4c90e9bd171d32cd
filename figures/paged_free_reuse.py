"""Free and reuse, Day 17: one pool at three moments. The texts are what SmolLM2-135M writes, greedily."""

from nanoserve import BlockAllocator, BlockTable
from nanoserve.course.view.moments import Moments
from nanoserve.course.view.watch import watch

A = (
    "The| sea| is| a| place| of| endless| wonder| and| mystery|.| It|'s| a| place| where| the| unknown| becomes"
    "| a| part| of| the| familiar|.| And| that|'s| what| makes| it| so"
)
B = "Once| upon| a| time|,| the| city| of| Nova| Haven| was| a| thriving| metropolis|,| with| towering| skyscrapers"


def paged_free_reuse() -> str:
    """A fills the pool, A gives it back, B lies in A's blocks."""
    allocator = BlockAllocator(num_blocks=4, block_size=8)
    view = watch(allocator)
    tables, states = {}, {}
    for label, text in (("A", A), ("B", B)):
        tables[label] = BlockTable(allocator)
        view.follow(label, tables[label], text.split("|"))
        for _ in text.split("|"):
            tables[label].append()
        states[label] = view.state()
        if label == "A":
            tables["A"].free()
            states["free"] = view.state()
    captions = {"A": "A fills the pool", "free": "A gives its blocks back", "B": "B lies in A's blocks"}
    return Moments({captions[key]: states[key] for key in ("A", "free", "B")}).svg("light")
