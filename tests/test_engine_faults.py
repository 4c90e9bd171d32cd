"""What fails in the middle of a step, and calls from where none belongs: no text, block or draw is lost."""

import gc

import pytest
import torch

from nanoserve import Engine, KVPool, PagedSlotKVCache, SlotKVCache, generate, run_continuous
from nanoserve.course.small_llama import small_llamas
from tests.test_engine import paged, workload


class OnceIn:
    """Calls a method, but for one call, which fails instead."""

    def __init__(self, method, call, fails_after=False):
        self.method, self.left, self.fails_after = method, call, fails_after

    def __call__(self, *args, **kwargs):
        self.left -= 1
        result = self.method(*args, **kwargs) if self.left or self.fails_after else None
        if not self.left:
            raise RuntimeError("out of memory")
        return result


@pytest.mark.parametrize(
    ("name", "fails_after"),
    [
        ("_wipe", False),
        ("_wipe", True),
        ("_grow", False),
        ("_grow", True),
        ("_store_prompt", True),
        ("admit", False),
        ("reserve_step", False),
        ("reserve_step", True),
    ],
)
def test_slots_that_fail_once_cost_no_token_and_no_draw(tiny, monkeypatch, name, fails_after):
    requests = [
        ([5, 6, 7], {"max_new_tokens": 9, "temperature": 1.0, "seed": 1}),
        ([8], {"max_new_tokens": 12, "temperature": 1.0, "seed": 2}),
        ([9, 3], {"max_new_tokens": 8}),
    ]
    alone = [generate(tiny, prompt, eos_token_id=(), **settings) for prompt, settings in requests]
    for call in range(1, 12):
        slots = paged(tiny, 30, num_slots=2)
        engine = Engine(tiny, slots)
        submitted = [engine.submit(prompt, eos_token_id=(), **settings) for prompt, settings in requests]
        monkeypatch.setattr(slots, name, OnceIn(getattr(slots, name), call, fails_after))
        failures = 0
        while engine.scheduler.requests:
            try:
                engine.step()
            except RuntimeError:
                failures += 1
                assert failures == 1
        assert [request.tokens for request in submitted] == alone
        assert slots.allocator.num_used == 1  # the scratch block


@pytest.mark.parametrize("rows", [False, True])
def test_a_request_whose_numbers_are_broken_is_named_and_its_neighbours_draw_on(rows):
    model, _ = small_llamas("cpu")
    others = [([5, 6], 3), ([8, 9, 10], 4)]
    settings = {"max_new_tokens": 10, "temperature": 1.0, "eos_token_id": ()}
    alone = [generate(model, prompt, seed=seed, **settings) for prompt, seed in others]
    model.model.embed_tokens.weight[7] = torch.nan
    engine = Engine(model, SlotKVCache(model, 4, 16) if rows else paged(model, 20, num_slots=4))
    first = engine.submit(others[0][0], seed=others[0][1], **settings)
    engine.submit([7, 7], seed=5, request_id="broken", **settings)
    second = engine.submit(others[1][0], seed=others[1][1], **settings)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="probability") as failure:
            engine.step()
        assert "request 'broken'" in failure.value.__notes__[0]
    engine.abort("broken")
    engine.run()
    assert [first.tokens, second.tokens] == alone


def calling(model, call):
    """The same model, which calls something of its caller's in each forward pass."""

    def forward(ids, cache, *rest):
        call()
        return model(ids, cache, *rest)

    forward.config, forward.device, forward.dtype, forward.eos_token_ids = (
        model.config,
        model.device,
        model.dtype,
        model.eos_token_ids,
    )
    return forward


def abort_in_pass(engine, number, victim):
    """What aborts a request in the forward pass of that number."""
    passes = []

    def call():
        passes.append(None)
        if len(passes) == number + 1:
            assert engine.abort(victim) is (victim in engine.scheduler.requests)

    return call


def test_an_abort_in_the_middle_of_a_step_waits_for_its_end(tiny):
    for victim in range(4):
        for step in range(6):
            slots = paged(tiny, 6, num_slots=2)
            engine = Engine(tiny, slots)
            engine.model = calling(tiny, abort_in_pass(engine, step, victim))
            requests = [engine.submit([5 + number, 6], 8, eos_token_id=()) for number in range(4)]
            engine.run()
            for number, request in enumerate(requests):
                alone = generate(tiny, [5 + number, 6], 8, eos_token_id=())
                assert request.tokens == alone[: len(request.tokens)]
                assert request.state == ("finished" if len(request.tokens) == 8 else "aborted")
                assert number == victim or request.state == "finished"
            assert slots.allocator.num_used == 1
            assert slots.free_slots() == [0, 1]


def test_a_stream_that_is_collected_as_garbage_in_a_step_gives_its_blocks_back(tiny):
    slots = paged(tiny, 6, num_slots=2)
    engine = Engine(calling(tiny, gc.collect), slots)
    kept = engine.submit([9], 8, eos_token_id=())
    dropped = engine.submit([5, 6], 12, eos_token_id=())
    cycle = {"stream": engine.stream(dropped)}
    next(cycle["stream"])
    cycle["itself"] = cycle
    del cycle
    engine.run()
    assert dropped.state == "aborted"
    assert kept.tokens == generate(tiny, [9], 8, eos_token_id=())
    assert slots.allocator.num_used == 1


def test_a_step_from_inside_of_a_step_is_refused(tiny):
    engine = Engine(calling(tiny, lambda: engine.step()), paged(tiny, 9))
    request = engine.submit([5], 3)
    with pytest.raises(RuntimeError, match="in a step already"):
        engine.step()
    engine.model = tiny
    engine.run()
    assert request.tokens == generate(tiny, [5], 3)


def test_another_engines_request_has_no_stream_here(tiny):
    ours, theirs = Engine(tiny, paged(tiny, 9)), Engine(tiny, paged(tiny, 9))
    mine, stranger = ours.submit([5], 3), theirs.submit([6], 3)  # both have the id 0
    with pytest.raises(ValueError, match="request 0 was submitted to another engine"):
        next(ours.stream(stranger))
    assert (mine.state, stranger.state) == ("waiting", "waiting")


def test_an_engine_wants_idle_slots_that_are_in_use_and_fit_its_model(tiny, random_pair):
    other, _ = random_pair(num_hidden_layers=3)
    with pytest.raises(TypeError, match="slots must be a SlotKVCache or a PagedSlotKVCache, got KVPool"):
        Engine(tiny, KVPool.for_model(tiny, 4))
    for slots in (paged(other, 4), SlotKVCache(other, 2, 8)):
        with pytest.raises(ValueError, match="model"):
            Engine(tiny, slots)
    slots = paged(tiny, 9)
    Engine(tiny, slots).submit([5], 3)
    Engine(tiny, slots).submit([5], 3)  # both are idle so far
    busy = Engine(tiny, slots)
    busy.submit([5], 3)
    busy.step()
    with pytest.raises(ValueError, match=r"slots \[0\] hold sequences"):
        Engine(tiny, slots)
    freed = paged(tiny, 9)
    freed.free()
    with pytest.raises(ValueError, match="these slots were freed"):
        Engine(tiny, freed)


def test_an_iterator_of_eos_ids_serves_all_prompts(tiny):
    prompts = [prompt for prompt, _ in workload(6)]
    ends = set(generate(tiny, prompts[0], 6, eos_token_id=())[2:3])
    expected = [generate(tiny, prompt, 6, eos_token_id=ends) for prompt in prompts]
    assert run_continuous(tiny, prompts, 6, eos_token_id=iter(ends)) == expected


@pytest.mark.parametrize("num_slots", [True, 2.5, "2"])
def test_slots_that_cannot_be_made_take_no_block(tiny, num_slots):
    pool = KVPool.for_model(tiny, 4)
    with pytest.raises(ValueError, match="num_slots must be a whole number of at least 1"):
        PagedSlotKVCache(pool, num_slots)
    assert pool.allocator.num_used == 0
