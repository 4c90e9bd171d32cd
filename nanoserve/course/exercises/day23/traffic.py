"""The engines and requests that the day's pictures are made of."""

import random
from collections.abc import Sequence

from nanoserve.engine import Engine
from nanoserve.model import Llama
from nanoserve.paged_slots import PagedSlotKVCache
from nanoserve.pool import KVPool
from nanoserve.request import Request
from nanoserve.scheduler import Scheduler

# Beginnings of texts, and how many tokens each asks for.
TEXTS = {
    "The sea is": 4,
    "Once upon a time, there was": 24,
    "The capital of France is": 6,
    "My favourite book begins with": 9,
    "A good cup of coffee": 20,
    "One, two, three,": 3,
    "The last train leaves": 12,
    "Water boils at": 5,
    "At night the city": 7,
    "To bake bread, first": 22,
    "The answer is": 4,
    "The old lighthouse stands": 8,
}


def engine_over(
    model: Llama,
    num_slots: int,
    num_blocks: int,
    scheduler: type[Scheduler],
    engine: type[Engine] = Engine,
    block_size: int = 8,
) -> Engine:
    """An engine over a pool of its own, with this scheduler.

    Args:
        model: the model.
        num_slots: requests that run together at most.
        num_blocks: for the requests; the scratch block comes on top.
        scheduler, engine: the classes, a learner's own included.
        block_size: tokens of a block.
    """
    slots = PagedSlotKVCache(KVPool.for_model(model, num_blocks + 1, block_size), num_slots)
    made = engine(model, slots)
    made.scheduler = scheduler(slots)
    return made


def lengths_of(number: int, mean: float, spread: float, seed: int = 0) -> list[int]:
    """How many tokens each of so many requests asks for, at least two.

    Args:
        number: requests.
        mean: of the lengths, about.
        spread: their standard deviation over their mean; 0 for all alike.
        seed: of the draw, from a gamma distribution.
    """
    draw = random.Random(seed)
    drawn = [draw.gammavariate(1 / spread**2, mean * spread**2) if spread else mean for _ in range(number)]
    return [max(2, round(length)) for length in drawn]


def feed(engine: Engine, arrivals: Sequence[tuple[int, int, int]]) -> list[Request]:
    """Step an engine while requests arrive, and on to the end.

    Args:
        engine: idle.
        arrivals: (step before which it comes, prompt tokens, new tokens) of each, the earliest first.
    """
    requests: list[Request] = []
    step = 0
    while len(requests) < len(arrivals) or engine.scheduler.requests:
        while len(requests) < len(arrivals) and arrivals[len(requests)][0] <= step:
            _, num_prompt, num_new = arrivals[len(requests)]
            requests.append(engine.submit([1] * num_prompt, num_new))
        engine.step()
        step += 1
    return requests
