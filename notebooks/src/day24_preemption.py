# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Day 24 · Preemption
#
# Blocks go out as texts grow, and nobody reserves any. So one day the pool is empty **in the middle of a text**.
# Today you let a request give way, come back later, and still give the same text.
#
# *About 50 minutes. You need Python's dicts and deques, and the engine of Day 23.*

# %% [markdown]
# ## Setup

# %% tags=["setup"]

# %% [markdown]
# ## Where we are
#
# Yesterday's engine admits a request when its prompt and one token more fit. Nobody knows what it will need in the
# end: ten tokens or a thousand. That is why so many run at once, and it is a bet. Here the bet is lost. Two texts
# share three blocks of four tokens:

# %%
import inspect

import matplotlib.pyplot as plt

import nanoserve
from nanoserve import PrefillCache, Request, generate, left_pad, load_model, load_tokenizer
from nanoserve.course.exercises.day23.stand_in import CountingModel
from nanoserve.course.exercises.day23.traffic import TEXTS, feed, lengths_of
from nanoserve.course.exercises.day24.traffic import engine_of, over_pages, over_rows, put_together
from nanoserve.course.view.timeline import Timeline
from nanoserve.course.view.timeline_panel import Timelines
from nanoserve.course.view.timeline_svg import slot_bars

small = engine_of(CountingModel(), num_slots=2, num_blocks=3, block_size=4)
timeline = Timeline(small)
for _ in "AB":
    small.submit([1, 2], 9)
small.run()
Timelines({"two texts, three blocks": timeline})

# %% [markdown]
# After two steps each has filled a block, each needs a second one, and one is free. If both wait, both wait for ever.
# So B is **preempted** (the red end). Its block goes back to the pool; its three tokens stay with the request. When A
# is done, B's prompt and tokens go through the model as if they were one long prompt, and B goes on. What its block
# held is **recomputed**. That costs time, but the text stays the same.

# %% [markdown]
# ## Predict
#
# Three requests with prompts of four tokens ask for eight new ones each. They have three slots, over six blocks of
# four. In which decode step are there too few blocks? Who loses theirs? And how many tokens will be computed a second
# time? (The prompt's pass gives the first new token, and a decode step stores the token that it is fed.) Write down
# your guesses; *See* answers.

# %%
step_of_shortage = None
who_gives_way = None  # "A", "B" or "C"
computed_again = None

# %% [markdown]
# ## Build
#
# Three classes, each of which inherits from the reference what you do not write: the slots that hand out blocks, the
# scheduler that picks a victim, and the engine that lets it come back.
#
# {task 24.1}
#
# Before each decode step, every sequence needs a place for one more token. `reserve_step` gets it for all of them, or
# says False and **takes nothing**: a block that is taken for a step that will not happen is missing elsewhere.
#
# `_blocks_due` counts what that takes. `self.tables` maps a slot to its block table (idle slots have none);
# `len(table.block_ids)` is what a sequence has, `self.lengths[slot]` what it stores so far, and
# `self._blocks_for(n)` the blocks that `n` tokens need, rounded up. `self.allocator.num_free` blocks are free, and
# `self._grow(slot, n)` lets a sequence have room for `n` tokens in all.
#
# The same lines serve the contiguous slots of Day 22. There a row counts as one block of `self.max_len` tokens, so
# one rule more is needed: no sequence grows past `max_len`. `self.seq_len` is the longest.
#
# <details><summary><b>Hint</b></summary>
#
# For each slot in `tables`: blocks for its length and one more, less those that it has. `reserve_step` has two
# reasons to say no, and both must be asked before the first `_grow`.
#
# </details>

# %% task="24.1"

# %% [markdown]
# Who gives way? Whoever it is, its work so far is done again. This engine chooses **the newest**. It usually has
# least to do again, and there is a better reason: those that run are then always older than those that wait, the
# oldest always goes on, and nobody is preempted for ever.
#
# {task 24.2}
#
# `self.running` maps slots to requests in the order in which they came in, the newest last. `self.waiting` is the deque
# of those that wait, the next one first. `self._release(request)` is yesterday's: slot and blocks back, and out of
# `running`.
#
# A preempted request came before all that have not run yet, so it belongs **at the front**. And one
# preemption may not be enough.
#
# <details><summary><b>Hint</b></summary>
#
# `make_room` is a loop of two lines around `self.slots.reserve_step()`. `preempt` does four things: release, state,
# line, `self.preemptions`. It changes nothing in `request.tokens`.
#
# </details>

# %% task="24.2"

# %% [markdown]
# The way back is the way in. Yesterday you read `_admit`; now write it, for both who come for the first time and who
# come back. The two differ only in what goes through the model, and the request knows that:

# %%
print(inspect.getsource(nanoserve.Request.token_ids.fget))

# %% [markdown]
# {task 24.3}
#
# - `self.scheduler.next_in_line()` is a list of requests; it may be empty.
# - `left_pad(texts)` gives ids and pad counts. `self.model(ids, PrefillCache(pad_lens))` fills that cache with keys and
#   values. The logits that it gives are the last position's alone, (batch, 1, vocab_size).
# - `self._choose(batch, rows)` gives each one's next token, out of its row of the last logits. A request that comes
#   back gets its **next** token here, and not the first again.
# - `self.slots.admit(slots, prefill, pad_lens)` stores; `self.slots.free_slots()` says where there is room.
# - `self.scheduler.start(batch, slots)` takes them out of the line and lets them run.
# - `self._recomputed` counts the tokens that are computed **again**. When a request is preempted, its newest token is
#   not stored yet, so count all but that one.
# - `self._accept(batch, tokens)` hands out the tokens, and lets those go that are complete.
#
# The model may raise, and the choice, and the slots. Then nobody has come in and nothing was counted: `step` can be
# called again.
#
# <details><summary><b>Hint</b></summary>
#
# The order above is the order of the calls, except for the count: `len(request.token_ids) - 1` for each in the batch
# that has tokens, before `_accept` adds the next one.
#
# </details>

# %% task="24.3"

# %% [markdown]
# ## See
#
# First the answer to *Predict*, by your three classes:

# %%
trio = engine_of(CountingModel(), 3, 6, Slots, Scheduler, Engine, block_size=4)
timeline = Timeline(trio)
for _ in "ABC":
    trio.submit([1, 2, 3, 4], 8)
trio.run()
Timelines({"three texts, six blocks": timeline})

# %%
[cut_short] = [bar for bar in slot_bars(timeline.steps) if bar.preempted]
for what, came, guess in (
    ("too few blocks in step", cut_short.end + 1, step_of_shortage),
    ("who gives way", cut_short.label, who_gives_way),
    ("tokens computed again", trio.stats.recomputed_tokens, computed_again),
):
    print(f"{what}: {came};", "no guess" if guess is None else f"your guess: {guess}")

# %% [markdown]
# Four steps fill everyone's second block. The third one is due for all three in step 5, and none is free. C gives its
# two back, which is just enough for A and B. It has five new tokens by then; prompt and all but the newest of these
# are computed again.
#
# Now on SmolLM2: four slots, and yesterday's twelve texts. They get little more than half of the blocks that they
# could use at once.

# %%
model, tokenizer = load_model(), load_tokenizer()
twelve = [  # every third one draws with a seed, the others are greedy
    (tokenizer.encode(text), num_new, {"temperature": 0.8, "seed": number} if number % 3 == 1 else {})
    for number, (text, num_new) in enumerate(TEXTS.items())
]


def serve(model, asked, num_slots, num_blocks):
    """Run all that was asked for over so many blocks of 4: the engine, the texts, and the timeline."""
    engine = engine_of(model, num_slots, num_blocks, Slots, Scheduler, Engine, block_size=4)
    timeline = Timeline(engine)
    requests = [engine.submit(prompt, num_new, **how) for prompt, num_new, how in asked]
    engine.run()
    return engine, [request.tokens for request in requests], timeline


same_lengths = [([1] * len(prompt), num_new, {}) for prompt, num_new, _ in twelve]
plenty, _, _ = serve(CountingModel(), same_lengths, 4, num_blocks=60)
engine, texts_of_11, timeline = serve(model, twelve, 4, num_blocks=11)
print(f"with plenty they use {plenty.stats.blocks_peak - 1} blocks at once; they get 11")  # scratch is one more
Timelines({"twelve texts, eleven blocks": timeline})

# %% [markdown]
# A preempted request stands first in line. Move this slider and watch the pool: it fills, somebody's blocks come back
# all at once, and the others go on in them.

# %%
timeline

# %% [markdown]
# ## Prove
#
# A text must not depend on the size of the pool: not on how often its request was preempted, nor on who sat beside it
# when it came back. The smallest pool is just enough for the largest of the twelve. Short greedy texts are compared
# with transformers as well.

# %%
from nanoserve.course.oracle import transformers_tokens

alone = [generate(model, prompt, num_new, **how) for prompt, num_new, how in twelve]
just_enough = -(-max(len(prompt) + num_new - 1 for prompt, num_new, _ in twelve) // 4)
smallest, texts, _ = serve(model, twelve, 4, just_enough)
assert texts == texts_of_11 == alone
for num_blocks, stats in ((11, engine.stats), (just_enough, smallest.stats)):
    told = f"{stats.preemptions} preemptions, {stats.recomputed_tokens} tokens computed again, {stats.steps} steps"
    print(f"{num_blocks:>2} blocks: {told}, the same {stats.tokens} tokens")
for (prompt, num_new, how), text in zip(twelve, alone):
    if num_new < 8 and not how:  # for time's sake
        assert text == transformers_tokens(prompt, num_new)

# %% [markdown]
# A dozen more, on a small Llama with random weights, in **every** pool between just enough and enough for all:

# %%
from nanoserve.course.small_llama import small_llamas

tiny, _ = small_llamas("cpu")
dozen = [
    ([(7 * number + place) % 61 for place in range(1 + number % 9)], num_new, {"temperature": 1.0, "seed": number})
    for number, num_new in enumerate(lengths_of(12, mean=10, spread=0.8))
]
alone = [generate(tiny, prompt, num_new, **how) for prompt, num_new, how in dozen]
just_enough = -(-max(len(prompt) + num_new - 1 for prompt, num_new, _ in dozen) // 4)
preemptions = {}
for num_blocks in range(just_enough, 100):
    engine, texts, _ = serve(tiny, dozen, 5, num_blocks)
    assert texts == alone
    assert engine.slots.allocator.num_used == 1  # the scratch block
    preemptions[num_blocks] = engine.stats.preemptions
    if not preemptions[num_blocks]:
        break
print("preemptions:", "  ".join(f"{count} in {num_blocks}" for num_blocks, count in preemptions.items()))

# %% [markdown]
# All of these drew with a seed. The generator stays with its request, as the tokens do, and recomputing draws nothing:
# those tokens are known. Only the next one is drawn.

# %% [markdown]
# ## Measure
#
# First the price. 48 requests of very different lengths go through eight slots, and the pool gets smaller. (Only
# tokens are counted, so the model that counts is enough.)

# %%
lengths = lengths_of(48, mean=40, spread=0.8, seed=1)
PROMPT = [1] * 12
needed = -(-(len(PROMPT) + max(lengths) - 1) // 16)  # blocks of 16 for the largest
sizes = [*range(60, 20, -4), *range(20, needed, -2), needed]
shares = []
for num_blocks in sizes:
    engine = engine_of(CountingModel(), 8, num_blocks, Slots, Scheduler, Engine, block_size=16)
    for num_new in lengths:
        engine.submit(PROMPT, num_new)
    engine.run()
    once = sum(len(PROMPT) + num_new - 1 for num_new in lengths)  # nobody computes the last token
    shares.append(engine.stats.recomputed_tokens / (once + engine.stats.recomputed_tokens))

figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.plot(sizes, shares, color="#d55e00", marker="o", markersize=4)
axes.axvline(needed, color="#7f8895", linestyle=":")
axes.annotate("just enough for the largest", (needed, 0.02), (4, 0), textcoords="offset points", color="#667280")
axes.set(xlabel="blocks in the pool", ylabel="computed a second time", xlim=(0, None), ylim=(-0.01, 0.6))
axes.set_title("A smaller pool computes more tokens again")
axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
print("  ".join(f"{size}: {share:.0%}" for size, share in zip(sizes, shares)))

# %% [markdown]
# Down to 40 blocks there is no price at all. Then it rises, but not without limit: in the smallest pool two fifths of
# all that is computed had been computed before, and everybody is served.
#
# Now what you get for it. This plot is **the whole point of paging**: two caches of exactly the same bytes, one cut
# into rows of the longest text, one into pages. 96 requests wait. How many run at once?

# %%
counting, lengths = CountingModel(), lengths_of(96, mean=40, spread=0.8, seed=1)
max_len = needed * 16


def in_flight(slots):
    """How many run at once on the average, while anybody waits; and the engine's counters."""
    engine = put_together(counting, slots, Scheduler, Engine)
    timeline = Timeline(engine)
    for num_new in lengths:
        engine.submit(PROMPT, num_new)
    engine.run()
    busy = [len(step.running) for step in timeline.steps if step.waiting]
    return sum(busy) / len(busy), engine.stats


megabytes, rows, pages = [], [], []
for num_rows in (2, 4, 6, 8):
    row_slots = over_rows(Slots)(counting, num_rows, max_len)
    pool = nanoserve.KVPool.for_model(counting, num_rows * needed, 16)
    page_slots = over_pages(Slots)(pool, num_slots=48)
    assert row_slots.nbytes == page_slots.nbytes
    megabytes.append(num_rows * max_len * nanoserve.kv_bytes_per_token(model.config, model.dtype) / 1e6)
    (by_rows, _), (by_pages, stats) = in_flight(row_slots), in_flight(page_slots)
    rows.append(by_rows)
    pages.append(by_pages)
    print(f"{megabytes[-1]:>5.1f} MB: {by_rows:.0f} in rows, {by_pages:4.1f} in pages; ", end="")
    print(f"{stats.preemptions:>3} preemptions, {stats.recomputed_tokens:,} tokens computed again")

figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for name, counts, colour in (("pages", pages, "#0072b2"), ("rows", rows, "#d55e00")):
    axes.plot(megabytes, counts, color=colour, marker="o", label=name)
axes.set(xlabel="keys and values of SmolLM2, MB", ylabel="requests that run at once", xlim=(0, None), ylim=(0, None))
axes.set_title("In the same memory, more requests run in pages than in rows")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="upper left")
plt.show()
ratios = [by_pages / by_rows for by_pages, by_rows in zip(pages, rows)]
print(f"pages hold {min(ratios):.1f} to {max(ratios):.1f} times as many")

# %% [markdown]
# A step reads the weights once, for all that are in it. As long as that is what takes the time, three times as many
# running requests are three times as many tokens a second, less what is computed again, from the same memory. That is
# what blocks, tables, kernels and today's bet are for.

# %% [markdown]
# ## Break
#
# A colleague's scheduler has a fault. It preempts whoever holds the most blocks, so that one preemption frees the
# most. All texts are right, nothing leaks, and the average wait is shorter than with yours. A request comes in every
# second step, to six slots over eleven blocks. Look at the red ends.

# %%
from nanoserve.course.exercises.day24.planted import SuspectScheduler

arrivals = [(2 * number, 6, 10) for number in range(24)]  # (step, prompt tokens, new tokens)
arrivals.insert(3, (5, 6, 44))


def rush_hour(scheduler):
    """An engine that is fed while it runs, and its timeline."""
    engine = engine_of(CountingModel(), 6, 11, Slots, scheduler, Engine)
    timeline = Timeline(engine)
    feed(engine, arrivals)
    return engine, timeline


engine_there, crime_scene = rush_hour(SuspectScheduler)
Timelines({"the colleague's": crime_scene})

# %%
who_complains = None  # a letter
why = None  # what happens to it, and what does that cost?
print("no suspicion yet" if who_complains is None else f"you suspect {who_complains}: {why}")

# %% [markdown]
# <details><summary><b>The answer</b></summary>
#
# D, the one long text. The longer it gets, the more blocks it holds, and the more likely it is the next victim. Each
# time it comes back, all of it is computed again, a little more than the last time, and each time it is preempted
# before it gets far. It ends only when the others stop coming.
#
# The newest, in contrast, is never the same for long: whoever stays becomes older, and is safe. Any rule for picking
# a victim must let some request get old in safety.
#
# Real engines look for better victims, too. In vLLM it is the newest;
# [#54644](https://github.com/vllm-project/vllm/issues/54644) measures what that choice costs and proposes the one with
# the least computed so far; [#56897](https://github.com/vllm-project/vllm/pull/56897) proposes a score, in which many
# blocks speak for a victim and much to recompute speaks against it.
#
# </details>
#
# The same requests with your scheduler:

# %%
engine_here, yours_at_rush_hour = rush_hour(Scheduler)
Timelines({"the colleague's": crime_scene, "yours": yours_at_rush_hour})

# %%
for name, engine, timeline in (
    ("the colleague's", engine_there, crime_scene),
    ("yours", engine_here, yours_at_rush_hour),
):
    waits = {}
    for step in timeline.steps:
        for label in step.waiting:
            waits[label] = waits.get(label, 0) + 1
    longest, stats = max(waits, key=waits.get), engine.stats
    average = sum(waits.values()) / len(arrivals)
    print(f"{name}: {stats.steps} steps, {stats.preemptions} preemptions, {stats.recomputed_tokens} tokens recomputed,")
    print(f"    {average:.1f} steps of waiting on the average, {waits[longest]} for {longest}")

# %% [markdown]
# ## In a real engine
#
# - **Who gives way.** vLLM's `Scheduler.schedule`
#   ([`vllm/v1/core/sched/scheduler.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/core/sched/scheduler.py))
#   asks `kv_cache_manager.allocate_slots` for one running request after the other, the oldest first. At None,
#   `self.running.pop()` takes the newest, and it asks again. `_preempt_request` is your `preempt`: it frees the blocks,
#   sets `num_computed_tokens = 0`, counts in `num_preemptions`, and `self.waiting.prepend_request(request)`.
# - **The way back.** There is nothing to write: a request with no computed tokens has them all still to do. A step that
#   has preempted somebody lets nobody in.
# - **Room for the way back.** A long prompt comes in there in chunks, and when only the next chunk was asked to fit,
#   requests came in, were preempted half-way, and came in again
#   ([#25538](https://github.com/vllm-project/vllm/issues/25538),
#   [#21809](https://github.com/vllm-project/vllm/pull/21809)). Now `allocate_slots` has `full_sequence_must_fit`,
#   which asks for what Day 23's `Request.stored_soon` asks for.
# - **A cheaper way back.** Freed blocks keep what they hold until somebody takes them. With prefix caching, a request
#   that comes back soon finds its own blocks again. These once counted as cache hits, and random prompts showed a hit
#   rate of 32% ([#25780](https://github.com/vllm-project/vllm/issues/25780)). What was there before must be counted
#   apart.
# - **Swapping.** The PagedAttention paper ([Kwon et al., 2023](https://arxiv.org/abs/2309.06180), section 4.5) has a
#   second way: copy the victim's blocks to the CPU's memory, and back. vLLM's authors found recomputing faster
#   than many small copies ([#12](https://github.com/vllm-project/vllm/pull/12)).

# %% [markdown]
# ## Recap
#
# <details><summary><b>Why take nothing at all, when there are too few blocks for all?</b></summary>
#
# The blocks would be held by sequences whose step does not happen, while somebody is preempted because they are
# missing. And a caller who hears False must be able to trust that all is as before: then it preempts one, and asks
# again.
#
# </details>
#
# <details><summary><b>Why the front of the line?</b></summary>
#
# The one that was preempted came before all that have not run yet. At the back, it would let those take its blocks,
# be the newest again when it comes in, and be the next victim.
#
# </details>
#
# <details><summary><b>Can all of this go on for ever?</b></summary>
#
# No. The oldest could be preempted only when it runs alone, and a request that does not fit alone is refused when it
# is submitted. So it gets a token in every step, ends, and the next one is the oldest.
#
# </details>
#
# ### What you have built
#
# Eleven days ago there was a tensor of `max_len` for everybody. Now there is an engine: texts of any length, from one
# pool of blocks, through kernels that read them where they lie, with the very tokens that each would have alone. You
# can open vLLM and find your way. Each of your parts, and what it is in `vllm/v1/`:
#
# - Day 13, `kv_bytes_per_token`: `AttentionSpec.page_size_bytes` in `kv_cache_interface.py`
# - Day 14, `BlockAllocator`: `BlockPool` in `core/block_pool.py`
# - Day 15, `BlockTable`, as it grows: `SingleTypeKVCacheManager` in `core/single_type_kv_cache_manager.py`
# - Day 15, `BlockTable`, as it is read: `BlockTable` in `worker/block_table.py`
# - Day 16, `write_by_slot`: `FlashAttentionImpl.do_kv_cache_update` in `attention/backends/flash_attn.py`
# - Day 17, `sample`: `Sampler` in `sample/sampler.py`
# - Day 17, `generate_stream`: `AsyncLLM.generate` in `engine/async_llm.py`
# - Days 18 to 21, `paged_attention`: `kernel_unified_attention` in `attention/ops/triton_unified_attention.py`
# - Day 22, `PagedSlotKVCache.places`: `BlockTables.compute_slot_mappings` in `worker/gpu/block_table.py`
# - Day 23, `Scheduler.next_in_line`: `Scheduler.schedule` in `core/sched/scheduler.py`
# - Day 23, `Engine.step`: `EngineCore.step` in `engine/core.py`
# - Day 24, `Slots.reserve_step`: `KVCacheManager.allocate_slots` in `core/kv_cache_manager.py`
# - Day 24, `Scheduler.preempt`: `Scheduler._preempt_request` in `core/sched/scheduler.py`
#
# What is next, in the order in which it builds on this: **prefix caching** (blocks with a reference count and a hash:
# `core/kv_cache_utils.py`), **chunked prefill** (a budget of tokens in place of prefill and decode:
# [Agrawal et al., 2024](https://arxiv.org/abs/2403.02310)), and **speculative decoding**
# ([Leviathan et al., 2023](https://arxiv.org/abs/2211.17192)), where tokens are taken back out of the blocks. The first
# is the nearest: your allocator needs one counter more.
