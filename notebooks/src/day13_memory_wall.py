# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Day 13 · The memory wall
#
# Today you build the memory of a language model at work: the **KV cache**. It makes each step cheap, and it fills
# the machine. You measure the first, work out the second, and see how much of that memory never holds anything.
#
# *About 50 minutes. You need PyTorch tensors, and a rough idea of what attention does.*

# %% [markdown]
# ## Setup
#
# Each task is a stub and a call to `check` under it. `check` runs your code on small inputs and says below the cell
# what it found: which call went wrong, what came of it, and which slip it looks like. It never stops the notebook;
# until a task passes, the cells after it go on with the **reference**, which is the finished engine's own code.

# %% tags=["setup"]

# %% [markdown]
# ## Where we are
#
# A language model writes one token at a time. In every layer the newest token's *query* is compared with the *keys*
# of all tokens so far, and the better a key fits, the more of that token's *value* is taken. A token's keys and
# values depend only on the text up to it, so they never change again. Why compute them twice?
#
# What exists is `nanoserve`, a small inference engine with a Llama model in it. `model(ids, cache)` computes the keys
# and values of the tokens it is given, hands them to the cache, and attends to all that the cache gives back. What is
# missing is the cache. Here are eight tokens, one a step: in orange the keys and values that a step computes, in blue
# those that it only reads.

# %%
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

token, step = np.meshgrid(range(1, 9), range(1, 9))
figure, panels = plt.subplots(1, 2, figsize=(7, 2.8), sharey=True, layout="constrained")
kinds = {"without a cache": token <= step, "with a cache": token == step}
for axes, (name, computed) in zip(panels, kinds.items(), strict=True):
    cells = np.where(token > step, 0, np.where(computed, 2, 1))
    colours = ListedColormap(["#ffffff", "#56b4e9", "#d55e00"])
    axes.pcolormesh(token, step, cells, cmap=colours, vmin=0, vmax=2, edgecolors="white", linewidth=2)
    axes.set(title=f"{name}: {computed.sum()} computed", xlabel="token", xlim=(0.5, 8.5), ylim=(8.5, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel("step")
plt.show()

# %% [markdown]
# ## Predict
#
# Llama-3.2-1B is a small model: its [1.23 billion weights](https://huggingface.co/meta-llama/Llama-3.2-1B) take 2.5
# GB in bfloat16. It can read 131,072 tokens. On a GPU with 40 GiB free for keys and values, each request reserves
# room for the longest text that it might become, in one piece.
#
# How many requests can run at once? Write down your guess; *See* works it out with your own function.

# %%
guess = None  # for example 1000

# %% [markdown]
# ## Build
#
# Three tasks: the cache, what it costs, and what it wastes. Their stubs use these names:

# %%
from collections.abc import Sequence

import torch

import nanoserve
from nanoserve import KVCache
from nanoserve.course.exercises.day13.published import LLAMA_3_2_1B, SMOLLM2_135M

# %% [markdown]
# {task 13.1}
#
# In each step every layer calls `append` once. The first step brings the whole prompt (*prefill*), each later one
# a single token (*decode*). Keep what comes, layer by layer, and return all that this layer holds.
#
# `self._held` is a dict from a layer's index to its keys and its values. `seq_len` and `free` use it too. The base
# class `KVCache` has the rest: positions, and the attention itself.
#
# <details><summary><b>Hint</b></summary>
#
# Of the four dimensions, (1, num_kv_heads, T, head_dim), one grows. `torch.cat([old, new], dim=...)` joins two
# tensors along it. What does `self._held.get(layer)` say at a layer's first step?
#
# The solution also asks `self.require_shape`, the engine's guard against tensors that do not fit; yours may leave
# it out.
#
# </details>

# %% task="13.1"

# %% [markdown]
# {task 13.2}
#
# How many bytes does one token leave behind, in all layers? A model's `config` has the sizes, and some that only
# look like them: today's models let several *query* heads share one *KV* head (grouped-query attention), and only
# the KV heads' keys and values are kept.
#
# <details><summary><b>Hint</b></summary>
#
# Start from the shape of what `append` gets for one token, count the layers, and do not forget that there are two
# tensors. A dtype knows its bytes: `torch.bfloat16.itemsize`.
#
# </details>

# %% task="13.2"

# %% [markdown]
# Two models, as their publishers describe them:

# %%
for name, config in (("SmolLM2-135M", SMOLLM2_135M), ("Llama-3.2-1B", LLAMA_3_2_1B)):
    cost = kv_bytes_per_token(config, torch.bfloat16)
    longest = config.max_position_embeddings
    print(f"{name}: {cost:,} bytes a token, {cost * longest / 2**30:.2f} GiB for its longest text of {longest:,}")

# %% [markdown]
# For Llama-3.2-1B, one user's longest text takes more memory than all of its weights.
#
# {task 13.3}
#
# Why would anyone reserve the longest text? Because the cache is one piece of memory, because nobody knows how long
# an answer will be, and because moving gigabytes to a larger place in the middle of a text is out of the question. So
# each request gets room for `max_len` tokens when it comes. How much of that is ever used?
#
# <details><summary><b>Hint</b></summary>
#
# Tokens over places, for all requests together. Two cases need care: no request at all, and a request that is longer
# than its place: it would write over its neighbour, so it is refused with an error that says how long it is. The
# docstring names all that is refused.
#
# </details>

# %% task="13.3"

# %% [markdown]
# ## See
#
# First the answer to *Predict*, by your `kv_bytes_per_token`:

# %%
cost = kv_bytes_per_token(LLAMA_3_2_1B, torch.bfloat16)
at_once = 40 * 2**30 // (LLAMA_3_2_1B.max_position_embeddings * cost)
print(f"{at_once} requests at once; you guessed {guess}" if guess is not None else f"{at_once} requests at once")

# %% [markdown]
# Real texts are short: 400 requests of a day are drawn at random, most of them a few hundred tokens long. Beside the
# longest text they would be too short to be seen, so let each reserve just 2,048 tokens. These are the first five, to
# scale; the blue share is your `used_share` of all of them. Then move the slider towards what the model could read.

# %%
import random

from nanoserve.course.view.reservations import Reservations

rng = random.Random(13)
lengths = [min(2048, round(rng.lognormvariate(5.8, 0.6))) for _ in range(400)]
print(f"shortest {min(lengths)}, longest {max(lengths)}, on average {sum(lengths) / len(lengths):.0f} tokens")
Reservations(lengths, 2048, used_share, cost)

# %% [markdown]
# The grey bars are what Kwon et al. measured of earlier systems and of their own, with the lengths of real chats
# ([SOSP 2023](https://arxiv.org/abs/2309.06180), Figure 2). *Max* reserves the longest text, as you do. *Pow2*
# reserves the next power of two, and *Oracle* the true length, as if it were known: even that stands empty until the
# text has grown. The last bar, vLLM, is their own system, and what this course builds.
#
# An outlook, then: the **same memory**, cut into blocks of 16 tokens that are handed out as they are needed. That
# is tomorrow's work, done here by the engine. How many of the day's requests fit in the room of those five?

# %%
allocator = nanoserve.BlockAllocator(num_blocks=5 * 2048 // 16, block_size=16)
outlook = watch(allocator)
served = 0
while lengths[served] <= 16 * allocator.num_free:
    allocator.allocate_for(lengths[served])
    served += 1
print(f"5 requests in reservations; {served} in blocks, until the next one finds no room")
outlook

# %% [markdown]
# ## Prove
#
# First against the reference. A real model, SmolLM2-135M, reads a prompt and decodes through both caches; its
# logits must be equal to the last bit.

# %%
from nanoserve import encode_chat, load_model, load_tokenizer

model, tokenizer = load_model(), load_tokenizer()
prompt = encode_chat(tokenizer, "Why is the sea salty? Answer in one sentence.")

mine, reference = NaiveKVCache(), nanoserve.NaiveKVCache()
with torch.inference_mode():
    for ids in (prompt, [216], [253], [198, 28]):  # a prompt, two single tokens, two at once
        logits = model(torch.tensor([ids]), mine)
        assert torch.equal(logits, model(torch.tensor([ids]), reference))
print(f"{mine.seq_len} tokens in {model.config.num_hidden_layers} layers: the same logits at every step")

# %% [markdown]
# And does it hold as much as your `kv_bytes_per_token` says? `held_bytes` adds up the memory of all tensors that an
# object keeps:

# %%
from nanoserve.course.held import held_bytes

expected = mine.seq_len * kv_bytes_per_token(model.config, model.dtype)
held = held_bytes(mine)
print(f"expected {expected:,} bytes, held {held:,}: {'the same' if held == expected else 'not the same'}")

# %% [markdown]
# Then against Hugging Face transformers. This is the whole decode loop: a step goes in, the likeliest token comes
# out and is the next step. It goes through **your** cache, and must give the same tokens.

# %%
from nanoserve.course.oracle import transformers_tokens


@torch.inference_mode()
def next_token(step, cache):
    return model(torch.tensor([step]), cache)[0, -1].argmax().item()


def cached(prompt, num_new):
    cache, step = NaiveKVCache(), prompt
    for _ in range(num_new):
        step = [next_token(step, cache)]
        yield step[0]


ours = list(cached(prompt, 40))
theirs = transformers_tokens(prompt, max_new_tokens=40)
assert ours[: len(theirs)] == theirs
print(tokenizer.decode(theirs, skip_special_tokens=True))
print(f"\n{len(theirs)} tokens, each equal to transformers'")

# %% [markdown]
# ## Measure
#
# What does the cache buy? `recomputed` throws it away after each token and feeds in the whole text again. Both
# begin with the same prompt of 32 tokens. Before you run it: the time **per token so far** starts roughly alike for
# both. Where does each curve go?

# %% tags=["nbval-ignore-output"]
from nanoserve.course.timing import arrivals, first_and_step, seconds_per_item


def recomputed(prompt, num_new):
    text = list(prompt)
    for _ in range(num_new):
        text.append(next_token(text, NaiveKVCache()))  # an empty cache: everything again
        yield text[-1]


long_text = tokenizer("Memory is the wall that every engine runs into, sooner or later. " * 40)["input_ids"]
list(cached(long_text[:32], 2))  # a first run warms up
curves = {run: arrivals(run(long_text[:32], 32)) for run in (recomputed, cached)}

figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for run, colour in ((recomputed, "#d55e00"), (cached, "#0072b2")):
    axes.plot(range(1, 33), [1000 * s for s in seconds_per_item(curves[run])], color=colour, label=run.__name__)
axes.set(xlabel="tokens generated", ylabel="milliseconds per token, so far", ylim=0, xlim=(1, 32))
axes.set_title("A cached token costs less than a recomputed one")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# With the cache, the prompt is computed once, and its cost is spread over more and more tokens: the curve falls.
# Without it, each token pays for the whole text again, and the text only grows.
#
# The prompt is not free, though. How does its length show in the time to the first token, and in the time of each
# token after it?

# %% tags=["nbval-ignore-output"]
prompt_lengths = (16, 64, 128, 256, 384)
timed = [first_and_step(arrivals(cached(long_text[:length], 8))) for length in prompt_lengths]

figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for place, colour, label in ((0, "#d55e00", "the first token"), (1, "#0072b2", "each token after it")):
    axes.plot(prompt_lengths, [1000 * times[place] for times in timed], "o-", color=colour, label=label)
axes.set(xlabel="prompt length, tokens", ylabel="milliseconds", ylim=0, xlim=(0, 400))
axes.set_title("A long prompt delays the first token, hardly the others")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# The time to the first token climbs, the time of the others stays nearly flat. Prefill is *compute*: it works on all
# of the prompt's tokens. A decode step works on one token, and its time goes into fetching memory: all the weights,
# and the cache. For our small model and short texts the cache is small beside the weights. For many long texts it is
# not, and engines hit the second wall: not only the room for the cache, but the time to read it.

# %% [markdown]
# ## Break
#
# This cache has a fault. Its text is right, token for token, so you cannot find it in the text. Look at its memory,
# beside that of the engine's own cache and the line of your `kv_bytes_per_token`.

# %%
from nanoserve.course.exercises.day13.planted import SuspectKVCache

suspect, honest = SuspectKVCache(), nanoserve.NaiveKVCache()
held, step, ours = {suspect: [], honest: []}, prompt, []
for _ in range(30):
    ours.append(next_token(step, honest))
    assert next_token(step, suspect) == ours[-1]
    step = ours[-1:]
    for cache in held:
        held[cache].append(held_bytes(cache) / 2**20)

tokens = range(len(prompt), len(prompt) + 30)
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.plot(tokens, held[suspect], color="#d55e00", label="the suspect")
axes.plot(tokens, held[honest], color="#0072b2", label="NaiveKVCache")
expected = [count * kv_bytes_per_token(model.config, model.dtype) / 2**20 for count in tokens]
axes.plot(tokens, expected, color="black", linestyle=":", label="kv_bytes_per_token")
axes.set(xlabel="tokens held", ylabel="MiB held", ylim=0)
axes.set_title("The suspect holds more, and grows faster")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
plt.show()
print(f"{held_bytes(suspect):,} bytes against {held_bytes(honest):,}")

# %%
factor = None  # how many times too much?
which_two_numbers = None  # and which two numbers of the model's config have this ratio?
print("no suspicion yet" if factor is None else f"you suspect {factor} times, as {which_two_numbers}")

# %% [markdown]
# <details><summary><b>The answer</b></summary>
#
# Three times too much, and SmolLM2 has 9 query heads over 3 KV heads. The suspect copies each KV head for the query
# heads that share it **before** it stores them:
#
# ```python
# k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
# return super().attend(layer, q, k, v)
# ```
#
# Attention then gives the same, so the text is right, and all that grouped-query attention saves is lost. LitGPT's
# cache [had it](https://github.com/Lightning-AI/litgpt/issues/1864), and so had
# [torchtune's](https://github.com/meta-pytorch/torchtune/issues/38); a test of tokens does not see memory. What finds
# it is the comparison that you made in *Prove*: bytes held against bytes expected.
#
# </details>

# %% [markdown]
# ## In a real engine
#
# - Your `append` is what transformers does: `DynamicLayer.update` in
#   [`cache_utils.py`](https://github.com/huggingface/transformers/blob/main/src/transformers/cache_utils.py) joins
#   old and new with `torch.cat`. `StaticLayer`, beside it, is the reservation: a tensor of `max_cache_len`.
# - Your `kv_bytes_per_token` is vLLM's `page_size_bytes`, in the class `AttentionSpec` of
#   [`vllm/v1/kv_cache_interface.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/kv_cache_interface.py):
#   the same product, for one layer and a block of tokens.
# - *Predict* is a line of vLLM's log at every start, “Maximum concurrency for … tokens per request”
#   ([`vllm/v1/core/kv_cache_utils.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/core/kv_cache_utils.py)):
#   how many requests would fit if each grew to the longest length. With blocks it is the worst case; with
#   reservations it is every case.

# %% [markdown]
# ## Recap
#
# <details><summary><b>Why are keys and values kept, and queries not?</b></summary>
#
# Every later token compares its query with the old keys and takes from the old values. An old query has done its
# work in its own step; nobody asks for it again.
#
# </details>
#
# <details><summary><b>A model with twice the layers and half the KV heads: what does a token cost?</b></summary>
#
# The same. It is `2 * layers * KV heads * head width * bytes a number`; query heads, hidden size and vocabulary are
# not among the factors.
#
# </details>
#
# <details><summary><b>Where does the waste come from, if every token is needed?</b></summary>
#
# From the promise of one piece. A piece must be as large as the text may become, before anyone knows what it will
# become, and while it is empty nobody else can have it.
#
# </details>
#
# **Tomorrow** the promise goes: memory in blocks of equal size, and an *allocator* that hands them out and takes
# them back.
