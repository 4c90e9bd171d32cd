"""Five ways to serve the same requests, eight at a time, for a benchmark to compare: ours, and transformers'."""

import random
from dataclasses import dataclass

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, LlamaForCausalLM

from nanoserve import Engine, KVPool, Llama, PagedSlotKVCache, SlotKVCache, left_pad, run_continuous
from nanoserve.slots import Slots

AT_ONCE = 8
BLOCK_SIZE = 16


@dataclass(frozen=True)
class Workload:
    """Requests of ragged lengths: random token ids as prompts, and how many new tokens each gets, greedily, no eos."""

    prompts: list[list[int]]
    counts: list[int]

    @classmethod
    def drawn(cls, number: int, longest_prompt: int, most_new: int, vocab_size: int, seed: int = 0) -> "Workload":
        """So many requests, their lengths even between 8 and the two given."""
        draw = random.Random(seed)
        prompts = [[draw.randrange(vocab_size) for _ in range(draw.randint(8, longest_prompt))] for _ in range(number)]
        return cls(prompts, [draw.randint(8, most_new) for _ in range(number)])

    @property
    def stored(self) -> list[int]:
        """Tokens whose keys and values each request stores at the end."""
        return [len(prompt) + count - 1 for prompt, count in zip(self.prompts, self.counts, strict=True)]

    def rows(self, model: Llama, max_len: int | None = None) -> SlotKVCache:
        """Contiguous rows for eight, each as long as the longest request unless told otherwise."""
        return SlotKVCache(model, AT_ONCE, max_len or max(self.stored))

    def blocks(self, model: Llama, num_slots: int = AT_ONCE, num_tokens: int | None = None) -> PagedSlotKVCache:
        """Slots over a pool for so many tokens; as many as the eight longest requests need unless told otherwise."""
        longest = sorted(self.stored)[-AT_ONCE:]
        num_blocks = num_tokens // BLOCK_SIZE if num_tokens else sum(-(-tokens // BLOCK_SIZE) for tokens in longest) + 1
        return PagedSlotKVCache(KVPool.for_model(model, num_blocks, BLOCK_SIZE), num_slots)

    def ours(self, model: Llama, slots: Slots) -> list[list[int]]:
        """`run_continuous`."""
        return run_continuous(model, self.prompts, self.counts, eos_token_id=(), slots=slots)

    def one_by_one(self, model: LlamaForCausalLM) -> list[list[int]]:
        """transformers' `generate`, a request at a time."""
        return [_generated(model, [p], n)[0] for p, n in zip(self.prompts, self.counts, strict=True)]

    def padded(self, model: LlamaForCausalLM) -> list[list[int]]:
        """transformers' `generate` in batches of eight: each goes on until its longest answer is there."""
        texts = []
        for start in range(0, len(self.prompts), AT_ONCE):
            counts = self.counts[start : start + AT_ONCE]
            together = _generated(model, self.prompts[start : start + AT_ONCE], max(counts))
            texts += [text[:count] for text, count in zip(together, counts, strict=True)]
        return texts

    def their_continuous(self, model: LlamaForCausalLM) -> list[list[int]]:
        """What `generate_batch` does, but with a count of new tokens for each request."""
        settings = ContinuousBatchingConfig(
            max_requests_per_batch=AT_ONCE, num_blocks=4 * AT_ONCE, max_batch_tokens=512
        )
        greedy = GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0)
        with model.continuous_batching_context_manager(greedy, continuous_batching_config=settings) as manager:
            asked = zip(self.prompts, self.counts, strict=True)
            names = [manager.add_request(prompt, max_new_tokens=count) for prompt, count in asked]
            texts = {}
            while len(texts) < len(names):
                result = manager.get_result(timeout=1)
                if result is None and not manager.is_running():
                    raise RuntimeError("transformers' continuous batching stopped")
                if result is not None and result.is_finished():
                    texts[result.request_id] = result.generated_tokens
        return [texts[name] for name in names]

    def watched(self, model: Llama, slots: Slots) -> dict[str, float]:
        """One run of ours, looked at after each step: requests in flight, and how much of the memory holds tokens."""
        engine = Engine(model, slots)
        for prompt, count in zip(self.prompts, self.counts, strict=True):
            engine.submit(prompt, count, eos_token_id=())
        seen = []
        while engine.scheduler.requests:
            engine.step()
            seen.append(engine.stats)
        used, allocated = sum(stats.used_tokens for stats in seen), sum(stats.allocated_tokens for stats in seen)
        return {
            "in_flight": sum(stats.running for stats in seen) / len(seen),
            "used_of_allocated": used / allocated,
            "used_of_reserved": used / (len(seen) * slots.reserved_tokens),
            "preemptions": engine.stats.preemptions,
        }

    @property
    def most_used_of_allocated(self) -> float:
        """The most that blocks can be filled, when each request only has those that its tokens need, step by step."""
        asked = zip(self.prompts, self.counts, strict=True)
        held = [n for prompt, count in asked for n in range(len(prompt) + 1, len(prompt) + count)]
        return sum(held) / sum(-(-n // BLOCK_SIZE) * BLOCK_SIZE for n in held)


def _generated(model: LlamaForCausalLM, prompts: list[list[int]], count: int) -> list[list[int]]:
    """The new tokens of prompts that are padded on the left to one length."""
    ids, pad_lens = left_pad(prompts)
    longest = ids.shape[1]
    mask = torch.arange(longest) >= torch.tensor(pad_lens).unsqueeze(1)
    greedy = GenerationConfig(do_sample=False, max_new_tokens=count, pad_token_id=0)
    return model.generate(ids, attention_mask=mask.long(), generation_config=greedy)[:, longest:].tolist()
