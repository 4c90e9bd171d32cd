"""The forward pass, held to transformers' own on small random models."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from nanoserve import KVPool, Llama, NaiveKVCache, PagedKVCache
from nanoserve.model import project, rope_frequencies
from tests.conftest import LLAMA3_ROPE

MODELS = {
    "one KV head": {},
    "as many KV heads as query heads": {"num_key_value_heads": 3},
    "9 query heads over 3": {"num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 72},
    "tied": {"tie_word_embeddings": True},
    "llama3 RoPE": {"rope_parameters": LLAMA3_ROPE},
    "llama3 RoPE, tied, several KV heads": {
        "rope_parameters": LLAMA3_ROPE,
        "tie_word_embeddings": True,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
    "biases": {"attention_bias": True, "mlp_bias": True},
    "heads wider than hidden_size has it": {"head_dim": 32},
}
CLOSE = {"atol": 1e-4, "rtol": 0}


def random_ids(model, num_tokens, seed=0):
    return torch.randint(model.config.vocab_size, (1, num_tokens), generator=torch.Generator().manual_seed(seed))


def stepwise(model, ids, cache, chunk=1):
    return torch.cat([model(part, cache, logits_to_keep=0) for part in ids.split(chunk, dim=1)], dim=1)


@pytest.mark.parametrize("overrides", MODELS.values(), ids=MODELS.keys())
def test_logits_are_those_of_transformers_at_every_position(random_pair, overrides):  # traps 27, 28, 29
    ours, theirs = random_pair(**overrides)
    if "attention_bias" in overrides:
        for name, parameter in theirs.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(parameter)
        ours.load_state_dict(theirs.state_dict())
    ids = random_ids(ours, 70)
    expected = theirs(ids).logits
    assert expected.std() > 0.5  # or agreement would mean little
    torch.testing.assert_close(ours(ids, NaiveKVCache(), logits_to_keep=0), expected, **CLOSE)
    decoded = stepwise(ours, ids, NaiveKVCache())
    torch.testing.assert_close(decoded, expected, **CLOSE)
    for block_size in (1, 3, 16, 64):
        paged = PagedKVCache(KVPool.for_model(ours, -(-70 // block_size), block_size))
        assert torch.equal(stepwise(ours, ids, paged), decoded)


@settings(max_examples=25)
@given(chunks=st.lists(st.integers(1, 30), min_size=2, max_size=4), block_size=st.sampled_from([1, 3, 16]))
def test_a_prompt_in_chunks_gives_the_logits_of_the_whole(tiny, chunks, block_size):  # trap 27
    ids = random_ids(tiny, sum(chunks))
    whole = tiny(ids, NaiveKVCache(), logits_to_keep=0)
    naive, paged = NaiveKVCache(), PagedKVCache(KVPool.for_model(tiny, sum(chunks), block_size))
    parts = ids.split(chunks, dim=1)
    chunked = torch.cat([tiny(part, naive, logits_to_keep=0) for part in parts], dim=1)
    torch.testing.assert_close(chunked, whole, **CLOSE)
    assert torch.equal(torch.cat([tiny(part, paged, logits_to_keep=0) for part in parts], dim=1), chunked)


def test_only_the_logits_that_were_asked_for_are_computed(tiny):
    ids = random_ids(tiny, 12)
    whole = tiny(ids, NaiveKVCache(), logits_to_keep=0)
    assert whole.shape == (1, 12, tiny.config.vocab_size)
    assert tiny(ids, NaiveKVCache()).shape == (1, 1, tiny.config.vocab_size)
    for keep in (1, 5):
        torch.testing.assert_close(tiny(ids, NaiveKVCache(), logits_to_keep=keep), whole[:, -keep:])


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "default", "rope_theta": 10000.0},
        {"rope_type": "default", "rope_theta": 500000.0},
        LLAMA3_ROPE,
        LLAMA3_ROPE | {"factor": 32.0, "rope_theta": 500000.0, "original_max_position_embeddings": 8192},
    ],
)
def test_rope_frequencies_are_those_of_transformers(rope):  # trap 28
    config = LlamaConfig(
        hidden_size=128, num_attention_heads=2, max_position_embeddings=16384, rope_parameters=dict(rope)
    )
    torch.testing.assert_close(rope_frequencies(config), LlamaRotaryEmbedding(config).inv_freq, atol=0, rtol=1e-6)


def test_llama3_scaling_slows_long_waves_and_only_those():  # trap 28
    config = LlamaConfig(hidden_size=32, num_attention_heads=2, rope_parameters=LLAMA3_ROPE)
    slowed = rope_frequencies(config)
    config.rope_parameters = {"rope_type": "default", "rope_theta": LLAMA3_ROPE["rope_theta"]}
    ratio = rope_frequencies(config) / slowed
    assert ratio[0] == 1
    assert ratio[-1] == LLAMA3_ROPE["factor"]
    assert ((ratio > 1) & (ratio < LLAMA3_ROPE["factor"])).any()


def test_one_layer_rotates_halves_and_not_neighbours(random_pair):  # trap 28
    ours, theirs = random_pair(num_hidden_layers=1)
    x = torch.randn(1, 9, 48, generator=torch.Generator().manual_seed(0))
    cos, sin = theirs.model.rotary_emb(x, torch.arange(9)[None])
    mask = torch.full((9, 9), -torch.inf).triu(1)[None, None]
    expected = theirs.model.layers[0](x, position_embeddings=(cos, sin), attention_mask=mask)
    torch.testing.assert_close(ours.model.layers[0](x, cos, sin, NaiveKVCache()), expected, **CLOSE)


def test_parameters_bear_their_names_in_the_checkpoint(random_pair):  # trap 29
    for tied in (False, True):
        ours, theirs = random_pair(tie_word_embeddings=tied)
        names = set(theirs.state_dict()) - ({"lm_head.weight"} if tied else set())
        assert set(ours.state_dict()) == names


def test_a_tied_head_is_the_embedding_and_an_untied_one_its_own(random_pair):  # trap 29
    for tied in (True, False):
        model, _ = random_pair(tie_word_embeddings=tied)
        ids = torch.zeros(1, 3, dtype=torch.long)
        before = model(ids, NaiveKVCache())
        model.model.embed_tokens.weight[1:] *= 2  # token 0 itself stays, so only a tied head can notice
        ratio = model(ids, NaiveKVCache()) / before
        torch.testing.assert_close(ratio[0, 0, 1:], torch.full_like(ratio[0, 0, 1:], 2.0 if tied else 1.0))


def test_a_half_precision_model_keeps_its_rope_frequencies_in_fp32(random_pair):
    model, _ = random_pair(num_attention_heads=1, num_key_value_heads=1)
    ids = random_ids(model, 200)
    exact = model(ids, NaiveKVCache())
    rounded = model.bfloat16()(ids, NaiveKVCache())
    assert (rounded.dtype, model.dtype) == (torch.bfloat16, torch.bfloat16)
    assert torch.equal(model._frequencies, rope_frequencies(model.config))
    assert torch.cosine_similarity(rounded.float().flatten(), exact.flatten(), dim=0) > 0.99


def test_a_forward_pass_builds_no_graph_and_leaves_the_pool_an_ordinary_tensor(tiny):
    pool = KVPool.for_model(tiny, 4, 16)
    logits = tiny(random_ids(tiny, 20), PagedKVCache(pool))
    assert not logits.requires_grad
    assert not pool.k.requires_grad
    logits[0, 0, 0] = 0  # nor a tensor of inference mode, which a learner could not change


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"model_type": "gpt2"}, "'gpt2'"),
        ({"model_type": "qwen2"}, "'qwen2'"),
        ({"hidden_act": "gelu"}, "'gelu'"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}}, "'linear'"),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}}, "'dynamic'"),
    ],
)
def test_what_the_engine_does_not_run_is_refused_in_one_sentence(overrides, named):
    fields = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 8}
    with pytest.raises(ValueError, match=named) as refusal:
        Llama(LlamaConfig.from_dict(fields | {"model_type": "llama"} | overrides))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("ids", [torch.tensor([1, 2]), torch.zeros(1, 0, dtype=torch.long)])
def test_ids_of_another_shape_are_refused(tiny, ids):
    with pytest.raises(ValueError, match=r"input_ids must be \(batch, T\)"):
        tiny(ids, NaiveKVCache())


def test_two_sequences_do_not_fit_a_cache_of_one(tiny):
    with pytest.raises(ValueError, match="one sequence"):
        tiny(torch.zeros(2, 3, dtype=torch.long), NaiveKVCache())


@pytest.mark.parametrize("shape", [(), (1, 1), (2, 1), (8, 1), (1, 16), (4, 4), (17, 1), (1, 40), (0, 1)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_projection_is_the_linear_map_for_few_rows_and_for_many(shape, with_bias):
    torch.manual_seed(0)
    x, weight, bias = torch.randn(*shape, 24), torch.randn(40, 24), torch.randn(40) if with_bias else None
    exact = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    ours = project(x, weight, bias)
    torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-5)
    assert ours.is_contiguous()
