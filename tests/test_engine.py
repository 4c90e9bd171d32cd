"""Days 23 and 24: requests that run together, come and go, and are preempted, each say what they say alone."""

import gc
import random

import pytest
import torch

from nanoserve import (
    Engine,
    KVCacheExhausted,
    KVPool,
    PagedSlotKVCache,
    SlotKVCache,
    generate,
    run_continuous,
)
from tests.conftest import PROMPT
from tests.test_prefill import prompt_of


def workload(number=40, seed=0, longest=24):
    """Ragged requests as (prompt, settings): greedy, and seeded with all kinds of settings, some ended by an eos."""
    draw = random.Random(seed)
    return [
        (
            [draw.randrange(61) for _ in range(draw.randint(1, longest))],
            {"max_new_tokens": draw.randint(1, longest), "eos_token_id": draw.choice([(), (), (7, 30)])}
            | draw.choice(
                [
                    {},
                    {"temperature": 1.0, "seed": draw.randrange(100)},
                    {"temperature": 0.7, "top_k": 9, "top_p": 0.8, "seed": draw.randrange(100)},
                ]
            ),
        )
        for _ in range(number)
    ]


def paged(model, num_blocks, block_size=4, num_slots=8):
    """Slots with so many blocks beside the scratch block."""
    return PagedSlotKVCache(KVPool.for_model(model, num_blocks + 1, block_size), num_slots)


def blocks_of(prompt, settings, block_size):
    return -(-(len(prompt) + settings["max_new_tokens"] - 1) // block_size)


def run(model, slots, requests):
    engine = Engine(model, slots)
    submitted = [engine.submit(prompt, **settings) for prompt, settings in requests]
    engine.run()
    assert [request.state for request in submitted] == ["finished"] * len(requests)
    assert slots.free_slots() == list(range(slots.num_slots))
    assert slots.used_tokens == slots.allocated_tokens == 0
    return [request.tokens for request in submitted], engine.stats


@pytest.fixture(scope="module")
def alone(tiny):
    return [generate(tiny, prompt, **settings) for prompt, settings in workload()]


def test_forty_through_eight_contiguous_slots_say_what_each_says_alone(tiny, alone):
    tokens, stats = run(tiny, SlotKVCache(tiny, 8, max_len=48), workload())
    assert tokens == alone
    assert stats.preemptions == 0
    assert stats.tokens == sum(map(len, alone))


@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_forty_through_eight_slots_say_what_each_says_alone_from_every_size_of_pool(tiny, alone, block_size):
    # traps 12, 13, 14, 24
    requests = workload()
    sizes = sorted(blocks_of(*request, block_size) for request in requests)
    least, most = sizes[-1], sum(sizes[-8:])
    sizes_of_pool = range(least, most + 1) if block_size > 1 else range(least, most + 1, 7)
    preemptions = []
    for num_blocks in sizes_of_pool:
        tokens, stats = run(tiny, paged(tiny, num_blocks, block_size), requests)
        assert tokens == alone
        assert stats.tokens == sum(map(len, alone))
        assert stats.blocks_used == 1
        preemptions.append(stats.preemptions)
    assert preemptions[0] > 0
    assert preemptions[-1] == 0


def test_one_slot_and_more_slots_than_requests_are_slots_too(tiny, alone):
    for num_slots in (1, 2, 60):
        tokens, _ = run(tiny, paged(tiny, 400, num_slots=num_slots), workload())
        assert tokens == alone


def test_a_greedy_request_is_greedy_beside_warm_neighbours(tiny):  # trap 21
    engine = Engine(tiny, paged(tiny, 40))
    greedy = engine.submit(PROMPT, 12)
    for seed in range(5):
        engine.submit(PROMPT, 12, temperature=2.0, seed=seed)
    engine.run()
    assert greedy.tokens == generate(tiny, PROMPT, 12)


def until_preempted(engine, request):
    """Step until the request loses its slot, from where it next has one."""
    ran = False
    for _ in range(100):
        engine.step()
        if ran and request.state == "waiting":
            return
        ran = request.state == "running"
    raise AssertionError("it never was")


def test_a_seeded_request_goes_on_with_its_own_draws_after_each_preemption(tiny):  # traps 14, 24
    settings = {"temperature": 1.0, "top_p": 0.9, "seed": 5}
    engine = Engine(tiny, paged(tiny, 6, num_slots=3))
    engine.submit(PROMPT, 3)
    engine.submit(PROMPT, 12)
    youngest = engine.submit(PROMPT, 17, **settings)
    told = []
    for _ in range(2):
        until_preempted(engine, youngest)
        told.append(list(youngest.tokens))
    engine.run()
    assert 0 < len(told[0]) < len(told[1]) < 17
    assert youngest.tokens == generate(tiny, PROMPT, 17, **settings)
    assert [youngest.tokens[: len(part)] for part in told] == told


def test_recomputed_tokens_are_counted_once_and_are_no_output(tiny):  # trap 15
    engine = Engine(tiny, paged(tiny, 5, num_slots=2))
    first = engine.submit(prompt_of(6), 7)  # 12 tokens at the end, so 3 blocks
    second = engine.submit(prompt_of(6, seed=1), 7)
    until_preempted(engine, second)
    held = len(second.token_ids) - 1  # the last one was not stored yet
    assert engine.stats.recomputed_tokens == 0
    engine.run()
    stats = engine.stats
    assert (stats.preemptions, stats.recomputed_tokens) == (1, held)
    assert stats.tokens == len(first.tokens) + len(second.tokens) == 14


def test_the_newest_is_preempted_and_the_order_of_arrival_stays(tiny):
    engine = Engine(tiny, paged(tiny, 10, num_slots=4))
    requests = [engine.submit(prompt_of(5, seed), 20) for seed in range(6)]
    seen = set()
    while engine.scheduler.requests:
        engine.step()
        order = [*engine.scheduler.running.values(), *engine.scheduler.waiting]
        assert [request.id for request in order] == sorted(request.id for request in order)
        seen |= {request.id for request in engine.scheduler.waiting if request.tokens}
    assert seen == {1, 2, 3, 4, 5}  # the oldest never is
    assert engine.stats.preemptions >= 5
    assert all(len(request.tokens) == 20 for request in requests)


def test_nobody_is_admitted_who_could_not_decode_a_token_yet(tiny):
    engine = Engine(tiny, paged(tiny, 5, num_slots=2))
    requests = [engine.submit(prompt_of(8), 4) for _ in range(2)]  # 2 blocks each, and 3 with one token more
    engine.step()
    assert [request.state for request in requests] == ["running", "waiting"]
    engine.run()
    assert engine.stats.preemptions == 0


def test_nobody_overtakes_a_request_that_does_not_fit_yet(tiny):
    engine = Engine(tiny, paged(tiny, 8, num_slots=3))
    engine.submit(prompt_of(20), 4)
    large = engine.submit(prompt_of(24), 4)
    small = engine.submit(prompt_of(2), 4)
    engine.step()
    assert [request.state for request in (large, small)] == ["waiting", "waiting"]
    engine.run()
    assert small.tokens == generate(tiny, prompt_of(2), 4)


def test_a_pool_just_large_enough_serves_and_one_token_more_is_refused(tiny):  # trap 10
    for block_size, num_blocks in ((4, 3), (16, 1), (1, 12)):
        fitting = num_blocks * block_size
        for length in (1, fitting - 1, fitting):
            engine = Engine(tiny, paged(tiny, num_blocks, block_size))
            with pytest.raises(ValueError, match=f"room for {fitting + 1}, and one sequence can have room for"):
                engine.submit(prompt_of(length), fitting - length + 2)
            requests = [engine.submit(prompt_of(length), fitting - length + 1) for _ in range(3)]
            engine.run()
            expected = generate(tiny, prompt_of(length), fitting - length + 1)
            assert [request.tokens for request in requests] == [expected] * 3


def test_a_request_that_could_never_fit_is_refused_and_the_others_go_on(tiny):  # trap 10
    for slots in (paged(tiny, 5), SlotKVCache(tiny, 4, max_len=20)):
        engine = Engine(tiny, slots)
        first = engine.submit(PROMPT, 6)
        with pytest.raises(ValueError, match="30 prompt tokens and 1 new ones need room for 30"):
            engine.submit(prompt_of(30), 1)
        second = engine.submit(PROMPT, 6)
        engine.run()
        assert first.tokens == second.tokens == generate(tiny, PROMPT, 6)


def test_others_who_fill_the_pool_are_a_typed_error_and_no_end(tiny):  # trap 11
    slots = paged(tiny, 6)
    engine = Engine(tiny, slots)
    request = engine.submit(PROMPT, 14)
    engine.step()
    others = slots.allocator.allocate_for(4 * 4)
    with pytest.raises(KVCacheExhausted, match=r"request 0 needs room for \d+ tokens; free: 2 of 7 blocks of 4"):
        engine.run()
    assert (request.state, engine.stats.preemptions, slots.allocator.num_used) == ("waiting", 1, 5)
    slots.allocator.free_all(others)
    engine.run()
    assert request.tokens == generate(tiny, PROMPT, 14)


def test_an_id_is_taken_until_its_request_is_over(tiny):  # trap 9
    engine = Engine(tiny, paged(tiny, 20))
    first = engine.submit(PROMPT, 4, request_id="a")
    for state in ("waiting", "running"):
        with pytest.raises(ValueError, match=f"request id 'a' is taken: that request is {state}"):
            engine.submit(PROMPT, 9, request_id="a")
        engine.step()
    engine.run()
    assert first.tokens == generate(tiny, PROMPT, 4)
    assert engine.submit(PROMPT, 4, request_id="a").state == "waiting"
    assert [engine.submit(PROMPT, 1, request_id=name).id for name in (0, 1, None)] == [0, 1, 2]


def test_an_abort_gives_everything_back_whatever_the_state(tiny):  # trap 7
    slots = paged(tiny, 10, num_slots=3)
    engine = Engine(tiny, slots)
    older = [engine.submit(PROMPT, 17) for _ in range(2)]
    preempted = engine.submit(PROMPT, 17)
    waiting = engine.submit(PROMPT, 17)
    assert engine.abort(waiting.id)
    until_preempted(engine, preempted)
    tokens = list(preempted.tokens)
    assert engine.abort(preempted.id)
    assert engine.abort(older[0].id)
    assert not engine.abort(older[0].id)
    assert not engine.abort("who")
    engine.run()
    assert [r.state for r in (*older, preempted, waiting)] == ["aborted", "finished", "aborted", "aborted"]
    assert preempted.tokens == tokens
    assert older[1].tokens == generate(tiny, PROMPT, 17)
    assert slots.allocator.num_used == 1
    assert slots.free_slots() == [0, 1, 2]


def test_a_pool_of_another_model_is_refused_before_anything_runs(tiny, random_pair):
    other, _ = random_pair(num_hidden_layers=3)
    with pytest.raises(ValueError, match="does not fit the model"):
        Engine(tiny, paged(other, 8))


def test_no_new_tokens_and_one_new_token(tiny):  # trap 17
    slots = paged(tiny, 4)
    engine = Engine(tiny, slots)
    none = engine.submit(PROMPT, 0)
    assert (none.state, none.tokens, slots.allocator.peak_used) == ("finished", [], 1)
    one = engine.submit(PROMPT, 1)
    assert engine.step() == [one]
    assert one.tokens == generate(tiny, PROMPT, 1)
    assert engine.step() == []
    assert engine.stats.steps == 0


def test_arguments_are_refused_as_generate_refuses_them(tiny):  # traps 16, 19, 22
    engine = Engine(tiny, paged(tiny, 100))
    for arguments in (
        ([], 1),
        ([61], 1),
        (PROMPT, -1),
        (PROMPT, 250),
        (PROMPT, 4, -1.0),
        (PROMPT, 4, 1.0, None, 0.0),
        (PROMPT, 4, 1.0, None, None, "x"),
    ):
        with pytest.raises(ValueError, match=r".") as ours:
            engine.submit(*arguments)
        with pytest.raises(ValueError, match=r".") as theirs:
            generate(tiny, *arguments)
        assert str(ours.value) == str(theirs.value)
    assert engine.scheduler.requests == {}


def test_the_models_own_eos_ends_a_request_and_any_of_several_does(random_pair):  # trap 18
    model, _ = random_pair(eos_token_id=[int(t) for t in range(0, 61, 3)])
    requests = [(prompt_of(5, seed), {"max_new_tokens": 30}) for seed in range(6)]
    tokens, _ = run(model, paged(model, 30), requests)
    assert tokens == [generate(model, prompt, **settings) for prompt, settings in requests]
    assert all(text[-1] % 3 == 0 and all(token % 3 for token in text[:-1]) for text in tokens)


def test_streams_side_by_side_hand_out_each_token_once(tiny):  # trap 13
    engine = Engine(tiny, paged(tiny, 7, num_slots=3))
    prompts = [PROMPT, PROMPT[::-1], PROMPT[2:]]
    streams = [engine.stream(engine.submit(prompt, 15)) for prompt in prompts]
    together = [list(tokens) for tokens in zip(*zip(*streams, strict=True), strict=True)]
    assert together == [generate(tiny, prompt, 15) for prompt in prompts]
    assert engine.stats.preemptions > 0


def test_a_stream_that_is_left_gives_its_blocks_back_and_the_others_go_on(tiny):  # trap 5
    slots = paged(tiny, 20)
    engine = Engine(tiny, slots)
    other = engine.submit(PROMPT, 12)
    for leave in ("close", "drop", "break"):
        request = engine.submit(PROMPT, 12)
        stream = engine.stream(request)
        next(stream)
        assert request.state == "running"
        if leave == "close":
            stream.close()
        elif leave == "drop":
            del stream
        else:
            for _ in stream:
                break
            del stream
        gc.collect()
        assert request.state == "aborted"
        assert engine.stats.running == 1
    engine.run()
    assert other.tokens == generate(tiny, PROMPT, 12)
    assert slots.allocator.num_used == 1


def test_a_stream_has_its_blocks_back_before_its_last_token_and_leaves_its_id_alone(tiny):
    slots = paged(tiny, 20)
    engine = Engine(tiny, slots)
    stream = engine.stream(engine.submit(PROMPT, 3, request_id="a"))
    tokens = [next(stream) for _ in range(3)]
    assert slots.allocator.num_used == 1
    again = engine.submit(PROMPT, 3, request_id="a")
    assert list(stream) == []
    assert again.state == "waiting"
    assert tokens == list(engine.stream(again)) == list(engine.stream(again))


class Failing:
    """A model whose forward pass raises when it is told to, at its last layer, the first `spared` times aside."""

    def __init__(self, monkeypatch, model):
        self.armed, self.spared = False, 0
        last = model.model.layers[-1].self_attn
        forward = type(last).forward

        def attention(*args):
            if self.armed and args[0] is last:
                self.spared -= 1
                if self.spared < 0:
                    raise RuntimeError("the device is lost")
            return forward(*args)

        monkeypatch.setattr(type(last), "forward", attention)


def whole_state(engine):
    slots = engine.slots
    return (
        [(r.id, r.state, r.slot, list(r.tokens)) for r in engine.scheduler.requests.values()],
        list(engine.scheduler.waiting),
        dict(engine.scheduler.running),
        list(slots.lengths),
        list(slots.offsets),
        slots.free_slots(),
    )


@pytest.mark.parametrize("make", [lambda m: paged(m, 14), lambda m: SlotKVCache(m, 8, 48)])
def test_a_forward_pass_that_raises_costs_no_token_and_no_block(tiny, monkeypatch, make):  # traps 6, 8
    requests = workload(12, seed=3)
    expected = [generate(tiny, prompt, **settings) for prompt, settings in requests]
    failing = Failing(monkeypatch, tiny)
    engine = Engine(tiny, make(tiny))
    submitted = [engine.submit(prompt, **settings) for prompt, settings in requests]
    failures = {"prefill": 0, "decode": 0}
    while engine.scheduler.requests:
        kind = "prefill" if engine.scheduler.next_in_line() else "decode"
        failing.armed = True
        before, used = whole_state(engine), engine.stats.blocks_used
        if engine.slots.reserve_step():  # else somebody is preempted first
            with pytest.raises(RuntimeError, match="the device is lost"):
                engine.step()
            assert whole_state(engine) == before
            assert kind == "decode" or engine.stats.blocks_used >= used
            failures[kind] += 1
        failing.armed = False
        engine.step()
    assert min(failures.values()) > 3
    assert [request.tokens for request in submitted] == expected


def test_a_draw_that_raises_costs_no_token_and_no_block(tiny, monkeypatch):
    engine = Engine(tiny, paged(tiny, 14))
    request = engine.submit(PROMPT, 6)
    for _ in range(3):
        before = whole_state(engine)
        with monkeypatch.context() as patch:
            patch.setattr("nanoserve.arguments.sample", lambda *args: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                engine.step()
        assert whole_state(engine) == before
        engine.step()
    engine.run()
    assert request.tokens == generate(tiny, PROMPT, 6)


def test_who_finished_in_a_step_that_failed_later_is_returned_by_the_next(tiny, monkeypatch):
    failing = Failing(monkeypatch, tiny)
    engine = Engine(tiny, paged(tiny, 14))
    short, long = engine.submit(PROMPT, 1), engine.submit(PROMPT, 3)
    failing.armed, failing.spared = True, 1  # the prefill
    with pytest.raises(RuntimeError):
        engine.step()
    failing.armed = False
    assert short.tokens == generate(tiny, PROMPT, 1)
    assert (short.state, long.state) == ("finished", "running")
    assert engine.step() == [short]
    assert engine.step() == [long]
    assert long.tokens == generate(tiny, PROMPT, 3)


def test_a_failing_request_can_be_taken_out(tiny, monkeypatch):
    failing = Failing(monkeypatch, tiny)
    slots = paged(tiny, 14)
    engine = Engine(tiny, slots)
    requests = [engine.submit(PROMPT, 6) for _ in range(2)]
    engine.step()
    failing.armed = True
    with pytest.raises(RuntimeError):
        engine.step()
    engine.abort(requests[0].id)
    failing.armed = False
    engine.run()
    assert requests[1].tokens == generate(tiny, PROMPT, 6)
    assert slots.allocator.num_used == 1


def test_the_numbers_of_an_engine_can_be_read_at_any_time(tiny):
    engine = Engine(tiny, paged(tiny, 19, num_slots=2))
    requests = [engine.submit(prompt_of(9, seed), 4) for seed in range(3)]
    assert engine.step() == []
    stats = engine.stats
    assert (stats.steps, stats.tokens, stats.waiting, stats.running) == (1, 4, 1, 2)
    assert (stats.blocks_free, stats.blocks_used, stats.blocks_peak) == (13, 7, 7)  # one of them is scratch
    assert (stats.used_tokens, stats.allocated_tokens, stats.reserved_tokens) == (20, 24, 80)
    assert engine.step() == []
    assert engine.step() == requests[:2]
    assert (engine.stats.waiting, engine.stats.running, engine.stats.used_tokens) == (1, 0, 0)
    assert engine.stats.blocks_peak == 7


def test_one_call_takes_counts_for_all_or_for_each_and_sizes_its_own_pool(tiny):
    prompts = [prompt_of(length, length) for length in (3, 17, 8, 1, 30)]
    assert run_continuous(tiny, prompts, 9) == [generate(tiny, prompt, 9) for prompt in prompts]
    expected = [generate(tiny, prompt, 9 - n, 0.8, seed=4) for n, prompt in enumerate(prompts)]
    as_tensors = [torch.tensor(prompt) for prompt in prompts]
    assert run_continuous(tiny, as_tensors, range(9, 4, -1), 0.8, seed=4, num_slots=2) == expected
    assert run_continuous(tiny, [], 9) == []
    with pytest.raises(ValueError, match=r"one for each of the 5 prompts, got \[1, 2\]"):
        run_continuous(tiny, prompts, [1, 2])


def test_in_a_pool_of_its_own_one_call_preempts_nobody_and_has_no_block_to_spare(tiny, monkeypatch):
    engines = []
    monkeypatch.setattr("nanoserve.continuous.Engine", lambda *args: engines.append(Engine(*args)) or engines[-1])
    run_continuous(tiny, [prompt_of(16, seed) for seed in range(5)], 32, eos_token_id=(), num_slots=3)
    stats = engines[0].stats
    assert (stats.preemptions, stats.blocks_peak) == (0, 3 * 3 + 1)
    assert stats.blocks_free + stats.blocks_used == stats.blocks_peak


def test_one_call_leaves_the_slots_it_was_given_idle_even_when_it_raises(tiny, monkeypatch):
    slots = paged(tiny, 9)
    assert run_continuous(tiny, [PROMPT] * 5, 6, slots=slots) == [generate(tiny, PROMPT, 6)] * 5
    failing = Failing(monkeypatch, tiny)
    failing.armed, failing.spared = True, 3
    with pytest.raises(RuntimeError, match="the device is lost"):
        run_continuous(tiny, [PROMPT] * 5, 6, slots=slots)
    assert slots.allocator.num_used == 1
    with pytest.raises(ValueError, match="room for 60"):
        run_continuous(tiny, [PROMPT, prompt_of(60)], [6, 1], slots=slots)
    failing.armed = False
    assert run_continuous(tiny, [PROMPT] * 5, 6, slots=slots) == [generate(tiny, PROMPT, 6)] * 5


def test_the_bar_counts_the_finished(tiny, capsys):
    run_continuous(tiny, [PROMPT] * 3, 4)
    assert capsys.readouterr().err == ""
    run_continuous(tiny, [PROMPT] * 3, 4, progress=True)
    assert "3/3" in capsys.readouterr().err


def test_the_real_model_says_the_same_to_many_as_to_each(smollm, tokenizer):
    texts = ["The sea is", "def fibonacci(n):\n", "Once upon a time, in a small harbour town,", "1, 2, 3,", "你好"]
    prompts = [tokenizer.encode(text) for text in texts]
    counts = [12, 9, 14, 6, 10]
    expected = [generate(smollm, prompt, count) for prompt, count in zip(prompts, counts, strict=True)]
    assert run_continuous(smollm, prompts, counts, slots=SlotKVCache(smollm, 3, 40)) == expected
    slots = paged(smollm, 7, num_slots=4)
    engine = Engine(smollm, slots)
    requests = [engine.submit(prompt, count) for prompt, count in zip(prompts, counts, strict=True)]
    engine.run()
    assert [request.tokens for request in requests] == expected
    assert engine.stats.preemptions > 0
