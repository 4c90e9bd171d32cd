"""The engine against transformers on the real model, token by token."""

import pytest
import torch

from nanoserve import encode_chat, generate, greedy_generate_paged


def run_of(tokenizer, kind):
    """Prompts of 1 token to several hundred, raw text and chats."""
    story = "Once upon a time, in a small harbour town, there lived an old fisherman who kept bees. "
    return {
        "one token": lambda: [504],
        "two tokens": lambda: tokenizer.encode("The sea"),
        "a sentence": lambda: tokenizer.encode("The capital of France is"),
        "code": lambda: tokenizer.encode("def fibonacci(n):\n    if n < 2:\n        return n\n"),
        "Chinese": lambda: tokenizer.encode("你好世界。今天天气很好。"),
        "a chat": lambda: encode_chat(tokenizer, "Explain in two sentences why the sky is blue."),
        "a chat of two turns": lambda: encode_chat(
            tokenizer,
            [
                {"role": "user", "content": "Name three colours."},
                {"role": "assistant", "content": "Red, green and blue."},
                {"role": "user", "content": "Now write a short poem about the second one."},
            ],
        ),
        "a page": lambda: tokenizer.encode(story * 8),
        "two pages": lambda: tokenizer.encode(story * 18)[:333],
    }[kind]()


KINDS = [
    "one token",
    "two tokens",
    "a sentence",
    "code",
    "Chinese",
    "a chat",
    "a chat of two turns",
    "a page",
    "two pages",
]


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_tokens_are_those_of_transformers_on_the_real_model(
    smollm, smollm_transformers, tokenizer, monkeypatch, kind
):
    prompt = run_of(tokenizer, kind)
    ids = torch.tensor([prompt])
    monkeypatch.setattr(smollm_transformers.generation_config, "eos_token_id", None)
    theirs = smollm_transformers.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=40)
    expected = theirs[0, len(prompt) :].tolist()
    assert len(expected) == 40  # over the edge of a block twice or three times
    assert generate(smollm, prompt, 40, eos_token_id=()) == expected
    assert generate(smollm, prompt, 40, eos_token_id=(), paged=True) == expected


def test_a_real_answer_ends_with_the_eos_as_in_transformers(smollm, smollm_transformers, tokenizer):
    prompt = torch.tensor([encode_chat(tokenizer, "What is 2 + 2? Answer with one word.")])
    theirs = smollm_transformers.generate(
        prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=64
    )
    ours = greedy_generate_paged(smollm, prompt, 64)
    assert ours == theirs[0, prompt.shape[1] :].tolist()
    assert ours[-1] == tokenizer.eos_token_id
