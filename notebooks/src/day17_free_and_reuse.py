# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Day 17 · Free and reuse
#
# Today the paged cache gets a life: tokens are **drawn** instead of always taken, every stream **gives its blocks
# back** however it ends, and one pool serves **run after run**, the next one on the very blocks of the last.
#
# *About 55 minutes. You need some PyTorch, and Python's generators and `finally`.*

# %% [markdown]
# ## Setup

# %% tags=["setup"]

# %% [markdown]
# ## Where we are
#
# Day 14's allocator hands out blocks, Day 15's table puts them in order, Day 16's `PagedKVCache` writes keys and
# values into them. One run works. A server has thousands: they want more than the likeliest token each time, some of
# their readers leave in the middle, and all of them live in one pool that must not lose a single block.
#
# First, the tokens. Here is what the model says may follow *The sea is*:

# %%
import math
from collections.abc import Callable, Iterator
from itertools import islice

import matplotlib.pyplot as plt
import torch

import nanoserve
from nanoserve import BlockAllocator, KVCache, KVPool, Llama, NaiveKVCache, PagedKVCache, load_model, load_tokenizer
from nanoserve.sampling import check_sampling

model, tokenizer = load_model(), load_tokenizer()
sea = tokenizer.encode("The sea is")
row = model(torch.tensor([sea]), NaiveKVCache())[0, -1]  # one logit for each of the 49,152 tokens

likely = row.softmax(dim=-1).topk(24)
figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
axes.bar(range(24), likely.values, color="#0072b2")
axes.set_xticks(range(24), [tokenizer.decode([token]) for token in likely.indices], rotation=60, ha="right")
axes.set(ylabel="probability")
axes.set_title("After “The sea is”: a few likely tokens, and a long tail")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
print(f"these 24 have {likely.values.sum():.0%} of the probability, the other {len(row) - 24:,} the rest")

# %% [markdown]
# The tail is long. Each token in it is unlikely, but all of them together are not: draw a hundred tokens, and the
# text derails. Temperature, top-k and top-p say how much of the tail stays in the draw.

# %% [markdown]
# ## Predict
#
# A pool has 4 blocks of 8 slots. **A** fills it, finishes, and gives back its blocks 0, 1, 2, 3, in this order. Then
# **B** comes with 18 tokens. In which slot (0 to 31) does B's first token lie? And what lies in the six slots of B's
# last block that B never writes: zeros, noise, or something else? Write down your guesses; *See* and *Prove* answer.

# %%
first_slot = None  # 0 to 31
in_the_rest = None  # "zeros", "noise", …

# %% [markdown]
# ## Build
#
# Four functions. `sample` calls your `warp`; the other two stand alone, and *See* puts all four together. Where one of
# yours does not pass yet, the notebook goes on with the reference's.
#
# {task 17.1}
#
# `warp` takes a row of logits and gives it back with the same shape: divided by the temperature, and with `-inf`
# for each token that is out of the draw. The order is that of Hugging Face's warpers: temperature, then top-k, then
# top-p (*nucleus sampling*, [Holtzman et al., 2020](https://arxiv.org/abs/1904.09751)).
#
# <details><summary><b>Hint</b></summary>
#
# The k-th largest value is `scores.topk(k).values[-1]`, and `scores.masked_fill(mask, -math.inf)` makes a new row.
# For top-p, sort in ascending order, softmax, and sum from the unlikely end: a token is out when the sum up to and
# with it is at most `1 - top_p`. `sort` gives the order too: it leads back to token ids, for `index_fill`. What if
# rounding excludes even the likeliest?
#
# </details>

# %% task="17.1"

# %% [markdown]
# {task 17.2}
#
# Temperature 0 is *greedy*: the argmax, with no draw. Above, draw one token from the softmax of what `warp` keeps.
# `check_sampling(temperature, top_k, top_p, logits)` is there, and raises a `ValueError` for a setting outside its
# range, or where `logits` is not one row.
#
# The randomness comes from `generator`. Torch has a global one as well; if every run drew from that, the runs beside
# yours would change your text, and a seed would mean nothing.
#
# <details><summary><b>Hint</b></summary>
#
# `torch.multinomial(probabilities, 1, generator=generator)`. A very small temperature makes the division overflow,
# so treat below `1e-5` as 0. Logits may come in half precision, or from a GPU: `.float().cpu()` first.
#
# </details>

# %% task="17.2"

# %% [markdown]
# {task 17.3}
#
# The decode loop, as a generator: the prompt goes through the model once, then each chosen token. `model(ids, cache)`
# takes ids of shape `(1, T)`, gives logits of shape `(1, 1, vocab_size)`, and stores keys and values in the cache,
# which takes blocks as it grows. Who gives them back? `cache.free()`, called once, must happen on **every** way out:
#
# - `num_new` tokens are out, or an eos is (it belongs to the text, as its last token);
# - the forward pass raises, say because the pool is empty, or `next_token` does;
# - the reader has had enough: closing a generator raises `GeneratorExit` *at the `yield`* where it waits, and
#   `stream.throw(error)` raises any other error there. The error must come out again.
#
# One thing is easy to miss: a reader who has the last token may never come back for more. So hand over the last token
# **after** the blocks are back.
#
# <details><summary><b>Hint</b></summary>
#
# `try:` around the loop, `finally: cache.free()`. Inside, `yield` every token but the last; at the last one or an
# eos, `break`, and `yield` it below the `finally`. With `num_new` 0 there is no last token.
#
# </details>

# %% task="17.3"

# %% [markdown]
# {task 17.4}
#
# The same loop serves every cache; what differs is whose memory the cache lies in. A run may bring a contiguous one,
# or a pool of its own that is just large enough, or share a `KVPool` with all other runs. With a bare
# `BlockAllocator` only the ids are shared (as on Day 14, when the model wrote through your class): then make a pool
# of the allocator's sizes around it, with `KVPool.for_model(model, num_blocks, block_size, allocator)`.
#
# A pool that was made for another model would fail in the middle of the run's first step. `pool.require_fit(model)`
# raises a `ValueError` for it before the run begins.
#
# <details><summary><b>Hint</b></summary>
#
# Ask for the allocator first, since it decides whatever `paged` says. A `KVPool` brings its memory along, so a
# `PagedKVCache` over it is all you need, a new one for each run.
#
# </details>

# %% task="17.4"

# %% [markdown]
# ## See
#
# Your four pieces make a `generate`. Two helpers put them together: one starts a run, the other reads it.


# %%
def start(prompt, num_new, decode=decode, paged=False, block_size=16, allocator=None, seed=None, **settings):
    """A run's cache and its stream of tokens, out of your four pieces."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    cache = cache_for(model, len(prompt) + num_new - 1, paged, block_size, allocator)
    return cache, decode(
        model, cache, prompt, num_new, model.eos_token_ids, lambda row: sample(row, **settings, generator=generator)
    )


def read(label, view, prompt, cache, stream, most=100):
    """Read at most so many tokens, while the view shows them in their blocks."""
    words = [tokenizer.decode([token]) for token in prompt]
    view.follow(label, cache, words)
    for token in islice(stream, most):
        words.append(tokenizer.decode([token]))
    return "".join(words)


# %% [markdown]
# Now the steps of *Predict*, on SmolLM2. A is greedy; B draws, with a seed.

# %%
pool = KVPool.for_model(model, num_blocks=4, block_size=8)
view = watch(pool)

print("A:", read("A", view, sea, *start(sea, 30, allocator=pool)))
full, empty, after_a = view.state(-2), view.state(), pool.k.clone()

once = tokenizer.encode("Once upon a time")
cache_b, stream_b = start(once, 20, allocator=pool, temperature=0.8, top_k=50, top_p=0.95, seed=17)
print("B:", read("B", view, once, cache_b, stream_b, most=15))
guessed = "made no guess" if first_slot is None else f"guessed {first_slot}"
print(f"\nB's first token lies in slot {cache_b.table.slot(0)}; you {guessed}")
view

# %% [markdown]
# Move the slider from the first event to the last, and watch the blocks fill, empty, and fill again. The three
# moments that matter, side by side:

# %%
from nanoserve.course.view.moments import Moments

Moments({"A fills the pool": full, "A gives its blocks back": empty, "B lies in A's blocks": view.state()})

# %% [markdown]
# ### The reader who leaves
#
# A server keeps each open stream in a table of connections. When a client hangs up, it closes that client's stream.
# What if `decode` had no `finally`? This is your own function without that one word: what stood in the `finally` now
# stands behind the loop. (Where yours has no `finally`, or does not pass yet, it is the reference's.)

# %%
from nanoserve.course.exercises.day17.without_finally import without_finally

leaky, its_source = without_finally(decode)
print(its_source)

# %%
from nanoserve import KVCacheExhausted

CLIENTS = {
    "A": "The old lighthouse stands",
    "B": "A good cup of coffee",
    "C": "My favourite book begins",
    "D": "The last train leaves",
    "E": "At night the city",
}


def serve_who_leave(decode):
    """Each client reads four tokens and hangs up."""
    pool = KVPool.for_model(model, num_blocks=8, block_size=4)
    view, connections = watch(pool), []
    for label, text in CLIENTS.items():
        prompt = tokenizer.encode(text)
        try:
            cache, stream = start(prompt, 40, decode, allocator=pool)
            connections.append(stream)
            read(label, view, prompt, cache, stream, most=4)
        except KVCacheExhausted as full:
            print(f"{label} got no answer: {full}")
        stream.close()  # the client has hung up
    print(f"5 clients came, all have left; {pool.allocator.num_used} blocks are in use")
    return view


serve_who_leave(leaky)

# %% [markdown]
# Step through it: each client leaves its blocks behind, until none is free. (Of the four tokens that each client has
# read, three are stored: the newest goes in with the next step, which nobody asks for. The last event is E's refusal;
# E holds no block, so the panel shows A's table.)
#
# Nobody reads these streams any more and all are closed, yet every block is taken, for good: a block is a number in a
# set, and no garbage collector knows what it stands for. The same clients with your `decode`:

# %%
serve_who_leave(decode)

# %% [markdown]
# `close()` raised `GeneratorExit` at the waiting `yield`, and the `finally` ran. CPython does the same for a
# generator that nobody refers to any more: it is closed at once. But a table of connections *is* a reference. A
# stream that stays in the table, neither read nor closed, keeps its blocks, even with a `finally`: whoever keeps
# streams must close them.

# %% [markdown]
# ## Prove
#
# First the draw. Which tokens may be drawn after *The sea is*? transformers' own warpers must keep the same set.

# %%
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

for temperature, top_k, top_p in [(0.7, 50, 0.9), (1.0, 0, 0.95), (1.5, 200, 0.8), (0.3, 5, 0.99)]:
    theirs = TemperatureLogitsWarper(temperature)(None, row[None])
    theirs = TopKLogitsWarper(top_k)(None, theirs) if top_k else theirs
    theirs = TopPLogitsWarper(top_p)(None, theirs)[0]
    ours = warp(row, temperature, top_k, top_p)
    assert torch.equal(ours.isfinite(), theirs.isfinite())
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    print(f"temperature {temperature}, top_k {top_k:>3}, top_p {top_p}: tokens that both keep: {ours.isfinite().sum()}")

# %% [markdown]
# Then the text: greedy, it equals transformers', token for token. Drawn with a seed, it is the same wherever its keys
# and values lie: contiguous, in a pool of its own with blocks of 16 or of 5, or in the pool that the greedy run has
# just left.

# %%
from nanoserve.course.oracle import transformers_tokens

prompt = nanoserve.encode_chat(tokenizer, "Name a city by the sea.")
shared = KVPool.for_model(model, num_blocks=8, block_size=16)

ours = list(start(prompt, 20, allocator=shared)[1])
assert ours == transformers_tokens(prompt, max_new_tokens=20)
print(f"greedy: {tokenizer.decode(ours, skip_special_tokens=True)!r}, as transformers")

memories = [{}, {"paged": True}, {"paged": True, "block_size": 5}, {"allocator": shared}]
drawn = [list(start(prompt, 12, **memory, temperature=0.9, top_p=0.95, seed=3)[1]) for memory in memories]
assert all(tokens == drawn[0] for tokens in drawn)
print(f"seed 3: {tokenizer.decode(drawn[0], skip_special_tokens=True)!r}, over each of {len(memories)} memories")
assert shared.allocator.num_used == 0

# %% [markdown]
# And the bytes. `after_a` is a copy of the pool's keys from the moment when A was gone. Where has B written since?

# %%
written = (pool.k != after_a).any(dim=0).any(dim=-1).any(dim=-1)  # (num_blocks, block_size)
for block_id, slots in enumerate(written.tolist()):
    marks = "".join("B" if slot else "a" for slot in slots)
    print(f"block {block_id}: {marks}")
held = [divmod(cache_b.table.slot(position), 8) for position in range(cache_b.seq_len)]
assert {(block, slot) for block, slot in written.nonzero().tolist()} == set(held)
print(f"B's table: {cache_b.table.block_ids}; your guess of the rest: {in_the_rest or 'none yet'}")

# %% [markdown]
# `B` is a slot that B wrote, `a` one that still holds A's key to the last bit. Nothing wipes a block when it is
# freed: that would cost a write of the whole block, and the table's length already says what may be read. (It also
# means that whoever reads past that length reads another request's text. Day 20 tests its kernel for this.)

# %% [markdown]
# ## Measure
#
# A day of traffic, on a model that stores keys and values and answers from a script, so that thousands of steps take
# a moment. About every third reader leaves after five tokens. The same requests, with your `decode` and without its
# `finally`:

# %%
import random

from nanoserve.course.exercises.day17.stand_in import ScriptedModel


def day_of_traffic(decode, requests=90, seed=17):
    """When (in requests) and how many blocks were in use, and how many requests found no room."""
    rng, pool = random.Random(seed), KVPool.for_model(ScriptedModel(), 64, 4)
    when, used, refused = [], [], 0
    for number in range(requests):
        num_new = rng.randrange(20, 70)
        patience = 5 if rng.random() < 1 / 3 else num_new
        cache = cache_for(ScriptedModel(), num_new + 2, allocator=pool)
        stream = decode(ScriptedModel([7] * num_new), cache, [1, 2, 3], num_new, frozenset(), lambda row: 7)
        now = number
        try:
            for step, _ in enumerate(islice(stream, patience)):
                now = number + step / num_new
                when.append(now)
                used.append(pool.allocator.num_used)
        except KVCacheExhausted:
            refused += 1
        stream.close()
        when.append(now)
        used.append(pool.allocator.num_used)
    return when, used, refused


# %%
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for which, colour, label in ((leaky, "#d55e00", "free behind the loop"), (decode, "#0072b2", "free in a finally")):
    when, used, refused = day_of_traffic(which)
    axes.step(when, used, where="post", color=colour, linewidth=1, label=label)
    print(f"{label}: {used[-1]} blocks in use at the end, {refused} of 90 requests refused")
axes.axhline(64, color="#7f8895", linewidth=1, linestyle="--")
axes.text(90, 65, "all 64 blocks", color="#667280", ha="right")
axes.set(xlabel="requests served", ylabel="blocks in use", xlim=(0, 90), ylim=(0, 72))
axes.set_title("Without a finally, the blocks of those who leave never come back")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="center right")
plt.show()

# %% [markdown]
# With the `finally`, the curve is a saw-tooth that returns to zero after every request; without it, a staircase that
# ends at the top. For most of the day the staircase serves everybody, and nothing looks wrong from outside. That is
# why leaks are found late, and why an engine should raise an alarm when nobody is served and blocks are in use.

# %% [markdown]
# ## Break
#
# This stream has its `finally`, its text is right, and it leaks all the same. Four clients come, and leave: A reads
# all of its six tokens, B three, C one, D two. Who is still in the pool? What did that client do that the others did
# not?

# %%
from nanoserve.course.exercises.day17.planted import suspect_decode

pool = KVPool.for_model(model, num_blocks=8, block_size=4)
crime_scene = watch(pool)
for label, patience in (("A", 6), ("B", 3), ("C", 1), ("D", 2)):
    cache, stream = start(once, 6, suspect_decode, allocator=pool)
    read(label, crime_scene, once, cache, stream, most=patience)
    stream.close()
crime_scene

# %%
who_stays = None  # a letter
where = None  # which line of a decode loop would do that?
print("no suspicion yet" if who_stays is None else f"you suspect {who_stays}, and this line: {where}")

# %% [markdown]
# <details><summary><b>The answer</b></summary>
#
# C left after the first token. The first token comes from the prompt, the others from the loop, so it was written as
# two parts, with the `try` around the second only:
#
# ```python
# token = next_token(model(prompt, cache)[0, -1])
# yield token      # closed here: no try has begun
# try:
#     ...
# finally:
#     cache.free()
# ```
#
# An error in that first step would leak in the same way.
#
# A cache belongs under the `try` from its first block on. Real engines have the same gap where prefill and decode are
# different code: in vLLM a request that was cancelled *during its last step* counted as finished, not as cancelled;
# where one machine does only the prefill, its only step is its last, and the blocks stayed pinned until a time-out
# ([#29987](https://github.com/vllm-project/vllm/pull/29987) tells it, and mends it). The test that finds it: every
# way out, after every number of tokens, and then `num_used == 0`.
#
# </details>

# %% [markdown]
# ## In a real engine
#
# - **The reader who leaves.** vLLM's `AsyncLLM.generate`
#   ([`vllm/v1/engine/async_llm.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/engine/async_llm.py)) is
#   an async generator like yours. It catches `asyncio.CancelledError` and `GeneratorExit`, and sends an abort to the
#   engine, which runs in another process.
# - **The blocks.** There, `Scheduler.finish_requests`
#   ([`vllm/v1/core/sched/scheduler.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/core/sched/scheduler.py))
#   ends a request in whatever state it is, and the blocks go back through `KVCacheManager.free`.
# - **The draw.** `apply_top_k_top_p` in
#   [`vllm/v1/sample/ops/topk_topp_sampler.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/sample/ops/topk_topp_sampler.py)
#   is your `warp`, over a whole batch: ascending sort, `<= 1 - p`, "at least one". It then avoids
#   `torch.multinomial`, for which the CPU would have to wait for the GPU: each probability is divided by an
#   exponential random number, and the largest wins. A request with a seed has its own generator there, too.

# %% [markdown]
# ## Recap
#
# <details><summary><b>Why is <code>except Exception</code> not enough?</b></summary>
#
# `close()` raises `GeneratorExit`, and Ctrl-C raises `KeyboardInterrupt`; neither is an `Exception`. A `finally` needs
# no list of the ways out.
#
# </details>
#
# <details><summary><b>Why does the last token leave after the blocks are back?</b></summary>
#
# A reader who counts to `num_new` stops there, without closing. The stream would wait at its last `yield`, inside the
# `try`, with all of its blocks.
#
# </details>
#
# <details><summary><b>Why top-k before top-p, and both after temperature?</b></summary>
#
# Top-p counts probabilities, and both temperature and top-k change them. Another order is no error, but another
# sampler: the same settings would keep another set than everywhere else.
#
# </details>
#
# **Tomorrow** the gather goes: attention that reads the blocks where they lie.
