# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Day 23 · Continuous batching
#
# Texts that decode together end at different times. Today each one **leaves the moment it is complete**, and the next
# in line **takes its slot before the next step**. You write who comes in, who leaves, and the step they share.
#
# *About 50 minutes. You need some PyTorch, and Python's dicts and deques.*

# %% [markdown]
# ## Setup

# %% tags=["setup"]

# %% [markdown]
# ## Where we are
#
# Yesterday's slots hold many sequences over one pool of blocks: `admit` stores prompts, one decode step gives every
# slot a token, `release` empties a slot. What is missing is who decides *when* any of this happens.
#
# The oldest way is **static batching**: fill the slots, decode until all are done, fill them again. Here it is, on
# two slots and three requests that ask for 9, 3 and 6 tokens. In place of a real model, one that only counts makes
# this quick.

# %%
import inspect
from time import perf_counter
from types import SimpleNamespace
from typing import Literal

import matplotlib.pyplot as plt
import torch

import nanoserve
from nanoserve import Request, generate, load_model, load_tokenizer
from nanoserve.course.exercises.day23.stand_in import CountingModel
from nanoserve.course.exercises.day23.traffic import TEXTS, engine_over, feed, lengths_of
from nanoserve.course.view.timeline import Timeline
from nanoserve.course.view.timeline_panel import Timelines
from nanoserve.course.view.timeline_svg import slot_bars


def static(scheduler):
    """The same scheduler, but nobody comes in while somebody runs."""

    class Static(scheduler):
        def next_in_line(self, *args, **settings):  # yours may have arguments of its own
            return [] if self.running else super().next_in_line(*args, **settings)

    return Static


small = engine_over(CountingModel(), 2, 8, static(nanoserve.Scheduler))
timeline = Timeline(small)
for num_new in (9, 3, 6):
    small.submit([10], num_new)
small.run()
Timelines({"static batching": timeline})

# %% [markdown]
# A row is a slot, a bar is a request, and below is the line of those that wait. B is complete after two steps, and its
# slot then idles for six, while C waits for it. (A prompt's own pass through the model gives the first token, so
# `n` tokens take `n - 1` decode steps.)

# %% [markdown]
# ## Predict
#
# Twelve requests for the lengths below go through four slots, in this order. How many decode steps does static
# batching take? And how many, if each slot that becomes free is filled before the next step? The second takes some
# patience: what is the least that it could be? Write down your guesses; *See* answers.

# %%
print(*TEXTS.values())

static_steps = None
continuous_steps = None

# %% [markdown]
# ## Build
#
# Three tasks, two classes: the `Scheduler` knows who waits and who runs, and touches no tensor; the `Engine` calls
# the model. Each of yours inherits from the reference what you do not write.
#
# {task 23.1}
#
# Before each step the engine asks: who comes in now? `self.waiting` is a deque of requests, the oldest first.
# `self.slots.can_admit(lengths)` says whether there are slots *and* blocks for sequences of these lengths, all of them
# together, beside those that run. `request.stored_soon` is the length to ask for: prompt, tokens so far, and the next.
#
# **First come, first served**: nobody overtakes. Only look at the line: the model may raise, so nobody leaves the
# line yet. The engine calls `start(batch, slots)` once the prompts are through the model, and that takes them out of
# it.
#
# <details><summary><b>Hint</b></summary>
#
# Keep a list of the requests that fit so far. For each request in the line, ask about the lengths of all in that list
# and of this one too. At the first no, stop.
#
# </details>

# %% task="23.1"

# %% [markdown]
# {task 23.2}
#
# A request leaves when it is finished, or when it is aborted, which may happen while it still waits. A server runs for
# months: what one request leaves behind, thousands will.
#
# `self.running` maps a slot to its request, and `self.requests` an id to its request. `request.slot` is None for one
# that waits. `self.slots.release(slot)` gives back a slot with its blocks. `leave` handles both cases and sets
# `request.state`; `_release` is the part for one that runs, which tomorrow's preemption needs as well.
#
# <details><summary><b>Hint</b></summary>
#
# `_release`: the slots, then `running`, then `request.slot = None`, in this order. `leave`: out of the line, or
# `_release`; then the state, and out of `requests`.
#
# </details>

# %% task="23.2"

# %% [markdown]
# Now the engine. It is a loop around `step`: whoever fits comes in, room is made for everyone's next token, and
# everyone gets it. Coming in is yesterday's work, put together:

# %%
print(inspect.getsource(nanoserve.Engine._admit))

# %% [markdown]
# `_choose` takes requests and their rows of logits, and gives each one's next token, chosen by its own temperature
# and seed.
#
# {task 23.3}
#
# - `_decode` runs the model once for all: `self.model(ids, self.slots)` takes ids of shape `(num_slots, 1)`, a row for
#   **every** slot, idle ones included (any id does there), and gives logits `(num_slots, 1, vocab_size)`. Each request
#   feeds in its newest token and gets the next one, in its own row. Then `self.slots.advance()` counts what the
#   step has stored, and `self._steps` the step. If the model raises, nothing may have been counted.
# - `_accept` gives each request of a batch, just prefilled or decoded, its token, and counts it in `self._tokens`. A
#   request that is complete (`request.is_complete` knows about length and eos) leaves at once, and is appended to
#   `self._finished`, which `step` returns.
#
# <details><summary><b>Hint</b></summary>
#
# `ids = [0] * num_slots`, then `ids[slot] = request.tokens[-1]` for the items of `running`. `logits[list(running), -1]`
# are the rows in the order of `running.values()`. `leave` changes `running`, so make a list of its values first.
#
# </details>

# %% task="23.3"

# %% [markdown]
# ## See
#
# Both of your classes, on SmolLM2, with the twelve requests of *Predict*: the same engine and the same step, once with
# your scheduler as it is, and once as `static(Scheduler)`.

# %%
model, tokenizer = load_model(), load_tokenizer()
prompts = [tokenizer.encode(text) for text in TEXTS]


def lined_up(scheduler):
    """The twelve in line before four slots: the engine, its requests, its timeline, and the seconds it has taken."""
    engine = engine_over(model, 4, 14, scheduler, Engine)
    timeline = Timeline(engine)
    requests = [engine.submit(prompt, num_new) for prompt, num_new in zip(prompts, TEXTS.values())]
    return SimpleNamespace(engine=engine, requests=requests, timeline=timeline, seconds=0.0)


generate(model, prompts[0], 1)  # the first pass of all is slower
batched, continuous = lined_up(static(Scheduler)), lined_up(Scheduler)
while batched.engine.scheduler.requests or continuous.engine.scheduler.requests:  # in turns: a fair race
    for run in (batched, continuous):
        if run.engine.scheduler.requests:
            start = perf_counter()
            run.engine.step()
            run.seconds += perf_counter() - start
Timelines({"static": batched.timeline, "continuous": continuous.timeline})

# %%
for name, run, guess in (("static", batched, static_steps), ("continuous", continuous, continuous_steps)):
    stats, guessed = run.engine.stats, "no guess" if guess is None else f"your guess: {guess}"
    print(f"{name}: {stats.steps} decode steps for {stats.tokens} tokens; {guessed}")

# %% [markdown]
# Each static batch is as long as its longest text: 23, 19 and 21 steps. There are 112 tokens to decode, so four slots
# need 28 steps at the least, if they are never idle. Continuous batching comes closer: its slots are idle only at the
# end, when nobody waits any more.
#
# And the memory? Move the slider: the pool follows. It shows each step as the model runs: a text has its blocks until
# its last step is through, and in the next one they are free, or another's. (The grey block is yesterday's scratch.)

# %%
continuous.timeline

# %% [markdown]
# ## Prove
#
# A text must not depend on who sat beside it, in which slot, or when it came in. Each of the twelve, token for token:
# static, continuous and alone; and, where it is short, in transformers.

# %%
from nanoserve.course.oracle import transformers_tokens

for prompt, num_new, *requests in zip(prompts, TEXTS.values(), continuous.requests, batched.requests):
    alone = generate(model, prompt, num_new)
    assert [request.tokens for request in requests] == [alone, alone]
    if num_new < 10:  # the short ones, for time's sake
        assert alone == transformers_tokens(prompt, num_new)
    print(f"{tokenizer.decode(prompt)}|{tokenizer.decode(alone)!r}")
assert continuous.engine.slots.allocator.num_used == 1  # the scratch block

# %% [markdown]
# ## Measure
#
# How much does static batching waste? It depends on how different the lengths are. 192 requests for 16 tokens on
# average go through eight slots, with more and more spread in their lengths. (Only steps are counted, so the model
# that counts is enough.)

# %%
spreads = (0, 0.25, 0.5, 0.75, 1, 1.25)
shares = {"continuous": [], "static": []}
for spread in spreads:
    lengths = lengths_of(192, mean=16, spread=spread)
    for name, scheduler in (("continuous", Scheduler), ("static", static(Scheduler))):
        engine = engine_over(CountingModel(), 8, 200, scheduler, Engine)
        for num_new in lengths:
            engine.submit([1], num_new)
        engine.run()
        decoded = engine.stats.tokens - len(lengths)  # the first token of each came out of its prompt
        shares[name].append(decoded / (8 * engine.stats.steps))

figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for (name, share), colour in zip(shares.items(), ("#0072b2", "#d55e00")):
    axes.plot(spreads, share, color=colour, marker="o", label=name)
    print(f"{name:>10}:", "  ".join(f"{each:.0%}" for each in share))
axes.set(xlabel="standard deviation of the lengths / their mean", ylabel="slots that give a token", ylim=(0, 1.05))
axes.set_title("The more the lengths differ, the more static batching wastes")
axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="lower left")
plt.show()

# %% [markdown]
# When all texts are equally long, there is no difference. At a spread of 1, which is common where some ask for a word
# and some for an essay, more than half of what a static batch computes is wasted. Continuous batching loses little,
# and only when nobody waits any more.
#
# And in seconds? A prefill is a pass through the model as well, and whoever fills slots one by one has more of them.
# The twelve texts of *See*, with the two engines stepped in turns:

# %%
passes = {}
for name, run in (("static", batched), ("continuous", continuous)):
    prefills = len({bar.start for bar in slot_bars(run.timeline.steps)})  # who came in together was one prefill
    passes[name] = run.engine.stats.steps + prefills
    print(f"{name:>10}: {run.engine.stats.steps} decode steps and {prefills} prefills, {passes[name]} passes")

# %% tags=["nbval-ignore-output"]
for name, run in (("static", batched), ("continuous", continuous)):
    print(f"{name:>10}: {run.engine.stats.tokens / run.seconds:.0f} tokens per second")
more, longer = passes["static"] / passes["continuous"], batched.seconds / continuous.seconds
print(f"static takes {more:.2f} times the passes, and here {longer:.2f} times the time")

# %% [markdown]
# How much of the saving is left in seconds depends on what a prefill costs beside a step. Real engines have other
# proportions than these twelve: prompts are longer, texts much longer, and there are dozens of slots to keep busy.

# %% [markdown]
# ## Break
#
# A colleague's scheduler has a fault. It never leaves a slot idle because somebody does not fit, and the average wait
# is shorter than with yours. All texts are right, nothing leaks, nobody is preempted. A request comes in every third
# step. Look at the timeline: which request has a reason to complain?

# %%
from nanoserve.course.exercises.day23.planted import SuspectScheduler

arrivals = [(3 * number, 6, 14) for number in range(18)]  # (step, prompt tokens, new tokens)
arrivals.insert(4, (10, 56, 10))


def rush_hour(scheduler):
    """The timeline of an engine that is fed while it runs: 5 slots over 12 blocks of 8."""
    engine = engine_over(CountingModel(), 5, 12, scheduler)
    timeline = Timeline(engine)
    feed(engine, arrivals)
    return timeline


crime_scene = rush_hour(SuspectScheduler)
Timelines({"the colleague's": crime_scene})

# %%
who_complains = None  # a letter
why = None  # what does that scheduler do, where yours stops?
print("no suspicion yet" if who_complains is None else f"you suspect {who_complains}: {why}")

# %% [markdown]
# <details><summary><b>The answer</b></summary>
#
# E, whose prompt has 56 tokens and needs eight blocks. At each step fewer than eight can be spared, and the scheduler
# goes on to the next one in line, who needs one, and gets it. So there are never eight. E runs only when the requests
# stop coming; in a server they never do. It is one word in `next_in_line`:
#
# ```python
# if not self.slots.can_admit([...]):
#     continue  # yours: break
# ```
#
# Real engines discuss this very line. vLLM stops at the first that does not fit;
# [#31731](https://github.com/vllm-project/vllm/issues/31731) complains that a memory-hungry request then blocks light
# ones behind it, and pull requests such as [#33499](https://github.com/vllm-project/vllm/pull/33499) propose to skip
# it. Both have a point. A scheduler that skips needs a limit on how often a request can be skipped.
#
# </details>
#
# The same requests with your scheduler:

# %%
yours_at_rush_hour = rush_hour(Scheduler)
Timelines({"the colleague's": crime_scene, "yours": yours_at_rush_hour})

# %%
for name, timeline in (("the colleague's", crime_scene), ("yours", yours_at_rush_hour)):
    waits = {}
    for step in timeline.steps:
        for label in step.waiting:
            waits[label] = waits.get(label, 0) + 1
    longest = max(waits, key=waits.get)
    average = sum(waits.values()) / len(arrivals)
    print(f"{name}: {average:.1f} steps of waiting on the average, {waits[longest]} for {longest}")

# %% [markdown]
# With yours, everybody waits a little behind E, and nobody waits for ever. The average hides a request that starves;
# look at the longest wait. (The red ends in your timeline are preemptions: the pool ran out of blocks in the middle
# of a text. That is tomorrow.)

# %% [markdown]
# ## In a real engine
#
# - **The idea** is *iteration-level scheduling*, from Orca
#   ([Yu et al., OSDI 2022](https://www.usenix.org/conference/osdi22/presentation/yu)): decide after every step, not
#   after every batch.
# - **Who comes in.** vLLM's `Scheduler.schedule`
#   ([`vllm/v1/core/sched/scheduler.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/core/sched/scheduler.py))
#   first serves `self.running`, then walks along `self.waiting` while there is a budget of tokens. It stops when
#   `max_num_running_reqs` run, or when `kv_cache_manager.allocate_slots` returns None: `break`, as in yours.
# - **One step.** There is no prefill phase and no decode phase in it: each request has tokens that are computed and
#   tokens that are not, and a step brings all of them further, a long prompt in chunks beside others' single tokens.
# - **Who leaves.** `Scheduler.update_from_output` appends each request's tokens, asks `check_stop`, and `_free_request`
#   gives the blocks back. Aborts, in any state, come through `finish_requests`.

# %% [markdown]
# ## Recap
#
# <details><summary><b>Why is a slot filled before the step, and not at the end of the one before?</b></summary>
#
# For the slots it makes no difference. For the requests it does: whoever was submitted in between is in line too. And
# a step is then one thing: come in, decode, leave. If anything in it raises, the next call does it again.
#
# </details>
#
# <details><summary><b>Why does the batch have a row for every slot, when some are idle?</b></summary>
#
# A shape that never changes: on a GPU a step can be recorded once and replayed, and no row moves when another leaves.
# The idle row costs little, since a decode step spends its time on reading the weights, once for all rows.
#
# </details>
#
# <details><summary><b>Why is a text the same, whoever sits beside it?</b></summary>
#
# Each row attends to its own blocks only, keeps its own positions, and draws from its own generator. Rounding may
# differ with the shape of a batch, in the last bits; greedy tokens change only where two logits are nearly equal.
#
# </details>
#
# **Tomorrow** the pool is too small: somebody must give its blocks back in mid-text, and still say the same.
