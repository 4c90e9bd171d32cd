"""Day 13: what a token's keys and values cost, against published sizes and against the bytes that caches hold."""

import pytest
import torch

from nanoserve import KVPool, NaiveKVCache, kv_bytes_per_token, used_share
from nanoserve.course.exercises.day13.planted import SuspectKVCache
from nanoserve.course.exercises.day13.published import LLAMA_3_2_1B, SMOLLM2_135M
from nanoserve.course.held import held_bytes


def test_the_published_models_cost_what_their_configs_say():
    # config.json of meta-llama/Llama-3.2-1B: 16 layers, 8 KV heads of 64; two tensors, two bytes a number
    assert kv_bytes_per_token(LLAMA_3_2_1B, torch.bfloat16) == 2 * 16 * 8 * 64 * 2 == 32 * 1024
    # config.json of HuggingFaceTB/SmolLM2-135M-Instruct: 30 layers, 3 KV heads of 64
    assert kv_bytes_per_token(SMOLLM2_135M, torch.bfloat16) == 2 * 30 * 3 * 64 * 2 == 23_040
    assert kv_bytes_per_token(SMOLLM2_135M, torch.float32) == 46_080


def test_the_published_sizes_of_smollm2_are_those_of_the_checkpoint_here(smollm):
    for name, size in vars(SMOLLM2_135M).items():
        assert getattr(smollm.config, name) == size, name


@pytest.mark.parametrize("overrides", [{}, {"head_dim": 32}, {"num_attention_heads": 9, "num_key_value_heads": 3}])
def test_a_cache_and_a_pool_hold_what_was_foretold(random_pair, overrides):
    model, _ = random_pair(hidden_size=72, **overrides)
    model = model.bfloat16()
    cost = kv_bytes_per_token(model.config, torch.bfloat16)
    cache = NaiveKVCache()
    for num_tokens in (5, 1, 1):
        model(torch.zeros(1, num_tokens, dtype=torch.long), cache)
    assert held_bytes(cache) == 7 * cost
    pool = KVPool.for_model(model, num_blocks=3, block_size=4)
    assert pool.k.nbytes + pool.v.nbytes == held_bytes(pool) == 12 * cost


def test_the_planted_cache_writes_the_same_text_with_a_kv_head_for_each_query_head(random_pair):
    model, _ = random_pair(hidden_size=72, num_attention_heads=9, num_key_value_heads=3)
    ids = torch.arange(20).unsqueeze(0)
    honest, suspect = NaiveKVCache(), SuspectKVCache()
    torch.testing.assert_close(model(ids, suspect), model(ids, honest))
    assert held_bytes(suspect) == 3 * held_bytes(honest)


def test_memory_that_is_shared_is_counted_once_and_memory_kept_alive_is_counted_whole():
    whole = torch.zeros(10, 100)

    class Holder:
        __slots__ = ("parts",)

        def __init__(self):
            self.parts = {"a row": whole[3], "another": [whole[4]], "itself": self}

    assert held_bytes(Holder()) == 4000
    assert held_bytes({}) == 0
    assert held_bytes((whole, torch.zeros(3))) == 4012


def test_the_share_that_holds_tokens():
    assert used_share([10, 20, 30], 100) == pytest.approx(0.2)
    assert used_share([7], 7) == 1.0
    assert used_share([0, 0], 7) == used_share([], 7) == 0.0


@pytest.mark.parametrize("lengths", [[5, 101], [101]])
def test_a_request_that_no_reservation_holds_is_named(lengths):
    with pytest.raises(ValueError, match="101 tokens does not fit in a reservation of 100"):
        used_share(lengths, 100)


def test_a_request_of_fewer_than_0_tokens_is_told_so():
    with pytest.raises(ValueError, match="a request is of 0 tokens or more, got -3"):
        used_share([5, -3], 10)


@pytest.mark.parametrize("lengths", [[], [0], [1]])
def test_a_reservation_of_nothing_is_refused(lengths):
    with pytest.raises(ValueError, match="max_len must be at least 1, got 0"):
        used_share(lengths, 0)
