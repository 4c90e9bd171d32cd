"""Day 17: every way out of a stream gives every block back."""

import gc
from contextlib import closing, nullcontext, suppress

import pytest

from nanoserve import BlockAllocator, KVPool, generate, generate_stream, greedy_generate, greedy_generate_paged
from tests.conftest import PROMPT


def test_a_stream_that_was_never_read_holds_nothing(tiny):
    allocator = BlockAllocator(8, 4)
    stream = generate_stream(tiny, PROMPT, 5, allocator=allocator)
    assert allocator.peak_used == 0
    del stream
    assert allocator.peak_used == 0


def test_the_blocks_are_back_before_the_last_token_is_handed_out(tiny):
    tokens = greedy_generate(tiny, PROMPT, 12)
    for stop in ({"max_new_tokens": 6}, {"max_new_tokens": 12, "eos_token_id": tokens[5]}):
        allocator = BlockAllocator(8, 4)
        stream = generate_stream(tiny, PROMPT, **stop, allocator=allocator)
        for _ in range(5):
            next(stream)
            assert allocator.num_used > 0
        assert next(stream) == tokens[5]
        assert allocator.num_used == 0  # though the stream is still held, and was not read to its end
        assert list(stream) == []


def read_to_the_end(make_stream):
    assert len(list(make_stream())) == 30


def stop_at_an_eos(make_stream):
    assert len(list(make_stream(eos_token_id=range(61)))) == 1


def break_out(make_stream):
    for _ in make_stream():
        break


def raise_in_the_loop_body(make_stream):
    with suppress(KeyError):
        for _ in make_stream():
            raise KeyError


def raise_in_the_loop_body_over_a_named_stream(make_stream):
    stream = make_stream()
    with suppress(KeyError):
        for _ in stream:
            raise KeyError
    del stream


def close(make_stream):
    stream = make_stream()
    next(stream)
    next(stream)
    stream.close()
    assert list(stream) == []


def close_before_the_first_token(make_stream):
    make_stream().close()


def drop_the_name(make_stream):
    stream = make_stream()
    next(stream)
    del stream


def leave_it_in_a_cycle_for_the_collector(make_stream):
    holder = {"stream": make_stream()}
    holder["self"] = holder
    next(holder["stream"])
    del holder
    gc.collect()


def throw_into_it(make_stream):
    stream = make_stream()
    next(stream)
    with pytest.raises(KeyboardInterrupt):
        stream.throw(KeyboardInterrupt)


ENDS = [
    read_to_the_end,
    stop_at_an_eos,
    break_out,
    raise_in_the_loop_body,
    raise_in_the_loop_body_over_a_named_stream,
    close,
    close_before_the_first_token,
    drop_the_name,
    leave_it_in_a_cycle_for_the_collector,
    throw_into_it,
]


@pytest.mark.parametrize("shares_memory", [False, True], ids=["allocator", "pool"])
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_every_way_a_stream_ends_gives_every_block_back(tiny, end, shares_memory):  # traps 5, 6
    shared = KVPool.for_model(tiny, 12, 4) if shares_memory else BlockAllocator(12, 4)
    allocator = shared.allocator if shares_memory else shared
    end(lambda **more: generate_stream(tiny, PROMPT, 30, allocator=shared, **more))
    assert allocator.num_free == allocator.num_blocks
    assert greedy_generate_paged(tiny, PROMPT, 30, allocator=shared) == greedy_generate(tiny, PROMPT, 30)


@pytest.mark.parametrize("failing_step", [0, 1, 5])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_in_the_forward_pass_gives_every_block_back(tiny, monkeypatch, failing_step, error):  # trap 6
    allocator = BlockAllocator(12, 4)
    mlp = tiny.model.layers[1].mlp  # half of the layers have stored their keys by then
    forward, calls = mlp.forward, []

    def fail_at_step(x):
        calls.append(x)
        if len(calls) > failing_step:
            raise error("planted")
        return forward(x)

    monkeypatch.setattr(mlp, "forward", fail_at_step)
    with pytest.raises(error, match="planted"):
        generate(tiny, PROMPT, 30, allocator=allocator)
    assert len(calls) == failing_step + 1
    assert allocator.num_free == 12
    monkeypatch.undo()
    assert generate(tiny, PROMPT, 30, allocator=allocator) == greedy_generate(tiny, PROMPT, 30)


def test_a_traceback_that_is_kept_keeps_the_blocks_unless_closing_gives_them_back(tiny):
    allocator, kept = BlockAllocator(12, 4), []

    def read(stream):
        for _ in stream:
            raise KeyError

    for guard, blocks in ((nullcontext, 2), (closing, 2)):  # the second run adds none to those of the first
        try:
            with guard(generate_stream(tiny, PROMPT, 30, allocator=allocator)) as stream:
                read(stream)
        except KeyError as error:
            kept.append(error)
            del stream
        assert allocator.num_used == blocks
    kept.clear()
    gc.collect()
    assert allocator.num_used == 0
