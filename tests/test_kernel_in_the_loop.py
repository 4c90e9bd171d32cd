"""Text decoded through the kernel, in Triton's interpreter, is the text that the gather and transformers give."""

import pytest
import torch

pytest.importorskip("triton")

from nanoserve import KVPool, NaiveKVCache, PagedKVCache, generate, kernels
from tests.conftest import PROMPT


@pytest.mark.parametrize("block_size", [1, 3, 16])
@pytest.mark.parametrize("heads", [(3, 1), (4, 2)])
def test_tokens_through_the_kernel_equal_the_gathers_and_transformers(block_size, heads, random_pair, monkeypatch):
    sizes = {"num_attention_heads": heads[0], "num_key_value_heads": heads[1], "head_dim": 16, "num_hidden_layers": 4}
    ours, theirs = random_pair(**sizes)
    monkeypatch.setattr(PagedKVCache, "kernel", True)
    came = generate(ours, PROMPT, 12, paged=True, block_size=block_size, eos_token_id=())
    monkeypatch.setattr(PagedKVCache, "kernel", False)
    assert came == generate(ours, PROMPT, 12, paged=True, block_size=block_size, eos_token_id=())
    judge = theirs.generate(torch.tensor([PROMPT]), max_new_tokens=12, do_sample=False, eos_token_id=None)
    assert came == judge[0, len(PROMPT) :].tolist()


def test_a_prompt_goes_through_the_gather_and_each_token_after_it_through_the_kernel(random_pair, monkeypatch):
    ours, _ = random_pair()
    shapes = []

    def counted(q, *rest):
        shapes.append(tuple(q.shape))
        return kernel(q, *rest)

    kernel = kernels.paged_attention
    monkeypatch.setattr(kernels, "paged_attention", counted)
    monkeypatch.setattr(PagedKVCache, "kernel", True)
    generate(ours, PROMPT, 4, paged=True, eos_token_id=())
    assert shapes == [(1, 3, 16)] * 2 * 3  # layers, times the tokens that are read after the prompt


def test_logits_through_the_kernel_equal_the_contiguous_caches_at_every_step(random_pair):
    ours, _ = random_pair()
    paged, naive = PagedKVCache(KVPool.for_model(ours, num_blocks=12, block_size=3)), NaiveKVCache()
    paged.kernel = True
    paged.pool.k.fill_(float("nan"))
    paged.pool.v.fill_(float("nan"))
    for step in ([5, 17, 3, 42, 8], [11], [29, 4], [7], [1], [60]):
        ids = torch.tensor([step])
        torch.testing.assert_close(ours(ids, paged), ours(ids, naive), rtol=1e-5, atol=1e-5)


def test_a_cpu_without_being_asked_keeps_to_the_gather(random_pair, monkeypatch):
    ours, _ = random_pair()
    monkeypatch.setattr(kernels, "paged_attention", None)
    assert len(generate(ours, PROMPT, 3, paged=True, eos_token_id=())) == 3
