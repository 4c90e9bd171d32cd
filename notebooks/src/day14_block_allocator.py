# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Day 14 · The block allocator
#
# Today you build the part of an inference engine that decides **where** keys and values lie: a few short methods over
# two containers, without a single tensor. At the end a real language model writes through your code.
#
# *About 50 minutes. You need Python lists and sets.*

# %% [markdown]
# ## Setup

# %% tags=["setup"]

# %% [markdown]
# ## Where we are
#
# On Day 13 each sequence reserves room for its longest possible text, and most of that room stays empty. The way out
# comes from operating systems: cut the memory into **blocks** of equal size, and hand them out one by one, as a
# sequence grows. Kwon et al. brought the idea to the KV cache and called it PagedAttention ([SOSP
# 2023](https://arxiv.org/abs/2309.06180)).
#
# One block holds the keys and values of `block_size` tokens. A sequence's blocks may lie anywhere; a *block
# table* says where (Day 15). What is missing is whoever hands the blocks out: the **allocator**. It knows only
# numbers, and it keeps one promise:
#
# > Every block is in exactly one of two places: on the free stack, or in the allocated set.
#
# Here is a pool of six blocks with three sequences in it, run by the engine's own allocator:

# %%
from collections.abc import Iterable

import nanoserve
from nanoserve import KVCacheExhausted

example = nanoserve.BlockAllocator(num_blocks=6, block_size=16)
picture = watch(example)
for tokens in (40, 20, 5):
    example.allocate_for(tokens)
picture

# %% [markdown]
# ## Predict
#
# A pool has 6 blocks of 16 tokens. **A** takes 40 tokens, **B** takes 20, **C** takes 16. Then A is finished and
# gives its blocks back. Now **D** takes 30 tokens. Which blocks does D get, and in which order?
#
# Write down your guess; *See* answers.

# %%
guess = None  # for example [0, 1]

# %% [markdown]
# ## Build
#
# Four tasks make one class. Each goes on with your class of the task before, by `yours("14.1")`, or with the
# reference as far as that task where yours does not pass yet: you can start at any task and come back. Replace `raise
# NotImplementedError`, run the cell, and `check` tells you where you stand. When you change an earlier task, run the
# tasks after it again.
#
# {task 14.1}
#
# `__init__` is there: look at the two containers. `allocate` moves a block from one to the other and keeps
# `peak_used`, the most blocks that were ever out at once. `free` moves it back; let its first line call
# `self._require_allocated([block_id])`, which refuses nothing until you write it in the next task.
#
# <details><summary><b>Hint</b></summary>
#
# A Python list is a stack: `append` pushes, `pop()` takes the item pushed last. When nothing is left, raise
# `KVCacheExhausted` before you touch anything, and say in its message what was asked for.
#
# </details>

# %% task="14.1"

# %% [markdown]
# {task 14.2}
#
# A request is finished, and its blocks are freed. Then the client hangs up, and the same blocks are freed again.
# If that goes through, a block lies on the free stack twice, two sequences get it, and each writes over the
# other's text. vLLM's users met it as [“Double free!”](https://github.com/vllm-project/vllm/issues/1556); one of
# them [silenced the error](https://github.com/vllm-project/vllm/issues/1584) to go on.
#
# Write the guard that `free` calls. It takes a *list* of ids, since whole sequences come back at once: it raises a
# `ValueError` that names the block when one of them is not out, or stands in the list twice. It only looks; it moves
# nothing.
#
# <details><summary><b>Hint</b></summary>
#
# One container already knows what is out. For the second case, remember which ids of this list you have seen.
#
# </details>

# %% task="14.2"

# %% [markdown]
# {task 14.3}
#
# A prompt of 40 tokens needs three blocks of 16; two would be of no use to it. So `allocate_for` takes all the blocks
# that the tokens need, **or none**: a scheduler that is refused must find the pool just as it was, so that it can try
# another request.
#
# <details><summary><b>Hint</b></summary>
#
# Work out the number of blocks first, rounded up; compare it with `self.num_free`; only then take them, with
# `self.allocate()`. In whole numbers, `-(-a // b)` rounds up.
#
# </details>

# %% task="14.3"

# %% [markdown]
# {task 14.4}
#
# A finished sequence gives back all that it had. One wrong id in its list means that somebody's bookkeeping is
# wrong. Then the honest answer is an error, with **every** block where it was: a pool that freed half of the list
# cannot be put right.
#
# <details><summary><b>Hint</b></summary>
#
# Make a list of `block_ids` first (it may be an iterator, which can be read only once), check it as a whole with
# `self._require_allocated`, then free its blocks in the list's order.
#
# </details>

# %% task="14.4"

# %% [markdown]
# ## See
#
# Here is your class at work. These are the steps of *Predict*, and a request that the full pool must refuse. Move
# through the events with the slider or the arrows, then go on by hand: **Allocate** takes blocks for a new sequence,
# **Free** gives one back.

# %%
BlockAllocator = yours("14.4")
allocator = BlockAllocator(num_blocks=6, block_size=16)
pool = watch(allocator)

a = allocator.allocate_for(40)
b = allocator.allocate_for(20)
c = allocator.allocate_for(16)
print(f"A {a}   B {b}   C {c}")
try:
    allocator.allocate_for(1)
except KVCacheExhausted as full:
    print(f"no more: {type(full).__name__}")
allocator.free_all(a)
d = allocator.allocate_for(30)
print(f"D {d}, and you guessed {guess}" if guess is not None else f"D {d}; you made no guess")
pool

# %% [markdown]
# D gets the block that was freed last, then the one before it. Try to make the pool raise, and leave a gap in its
# middle. It never needs to move a block: any free block is as good as any other.

# %% [markdown]
# ## Prove
#
# First against the reference: twenty thousand calls drawn at random, right ones and wrong ones, go to both
# allocators, and what each returns or raises must be the same.

# %%
import random


def outcome(pool, method, argument):
    try:
        came = getattr(pool, method)(argument)
    except (KVCacheExhausted, ValueError) as error:
        return type(error).__name__
    return came if method == "allocate_for" else None  # the others are asked for what they do


rng = random.Random(14)
mine, reference = BlockAllocator(32, 16), nanoserve.BlockAllocator(32, 16)
answers = []
for _ in range(20_000):
    call = rng.choice(
        [
            ("allocate_for", rng.randrange(-1, 120)),
            ("free", rng.randrange(-1, 33)),
            ("free_all", rng.choices(range(32), k=rng.randrange(4))),
        ]
    )
    answers.append(outcome(mine, *call))
    assert answers[-1] == outcome(reference, *call), f"{call} gave {answers[-1]}"
refused = sum(isinstance(answer, str) for answer in answers)
print(f"{len(answers):,} calls: {refused:,} refused by both, and no difference in any")

# %% [markdown]
# Then on the real thing. SmolLM2-135M writes an answer, and its cache lives in blocks that **your** allocator
# hands out. Hugging Face transformers writes the same answer with a cache of its own. They must agree token for
# token.

# %%
from nanoserve import encode_chat, generate, load_model, load_tokenizer
from nanoserve.course.oracle import transformers_tokens

model, tokenizer = load_model(), load_tokenizer()
prompt = encode_chat(tokenizer, "Write one sentence about the sea.")

allocator = BlockAllocator(num_blocks=8, block_size=16)
ours = generate(model, prompt, max_new_tokens=48, allocator=allocator)
theirs = transformers_tokens(prompt, max_new_tokens=48)

print(tokenizer.decode(ours, skip_special_tokens=True))
assert ours == theirs
print(f"\n{len(ours)} tokens, each equal to transformers'")
assert allocator.num_free == allocator.num_blocks
print(f"{allocator.peak_used} blocks at the peak; now {allocator.num_free} of {allocator.num_blocks} are free again")

# %% [markdown]
# ## Measure
#
# Why a stack, and not a queue? Both hand out the same *number* of blocks. But a block just freed is still warm in the
# processor's caches, and an operating system gives a program memory only where it is touched. So how many *different*
# blocks does a day's traffic touch, when at most a few dozen are in use at once?

# %%
from collections import deque

import matplotlib.pyplot as plt


class QueueAllocator(nanoserve.BlockAllocator):
    """The same allocator, but a freed block waits until all the others have been out."""

    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self._free = deque(reversed(self._free))

    def allocate(self):
        self._free.rotate(-1)  # the front of the queue comes to the end, where pop() takes it
        return super().allocate()


def blocks_touched(allocator, requests=400, seed=14):
    """How many different blocks have been out, after each of a day's requests."""
    rng, running, touched, curve = random.Random(seed), [], set(), []
    for _ in range(requests):
        if len(running) >= 6:
            allocator.free_all(running.pop(rng.randrange(len(running))))
        running.append(allocator.allocate_for(rng.randrange(16, 160)))
        touched.update(running[-1])
        curve.append(len(touched))
    return curve


stack_pool, queue_pool = BlockAllocator(256, 16), QueueAllocator(256, 16)
stack, queue = blocks_touched(stack_pool), blocks_touched(queue_pool)
print(f"at most {stack_pool.peak_used} blocks in use at once; touched: stack {stack[-1]}, queue {queue[-1]} of 256")

figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.plot(queue, color="#d55e00", label="queue: first in, first out")
axes.plot(stack, color="#0072b2", label="stack: last in, first out")
axes.axhline(stack_pool.peak_used, color="#7f8895", linewidth=1, linestyle="--", label="most in use at once")
axes.set(xlabel="requests served", ylabel="different blocks touched", ylim=(0, 270), xlim=(0, 400))
axes.set_title("A stack touches no more blocks than it needs")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="center right")
plt.show()

# %% [markdown]
# The stack's curve stays flat at what is really needed; the queue's walks through the whole pool, however large
# it is.

# %% [markdown]
# ## Break
#
# This allocator has a fault, of a kind that makes real engines leak memory. Two sequences are in it. Press **Free**
# for the one and then for the other: which block is not free again?

# %%
from nanoserve.course.exercises.day14.planted import SuspectAllocator

suspect = SuspectAllocator(num_blocks=6, block_size=16)
crime_scene = watch(suspect)
for tokens in (40, 20):
    suspect.allocate_for(tokens)
crime_scene

# %%
missing_block = None  # which block never comes back?
line = None  # and which line of `free` would you suspect?
print("no suspicion yet" if missing_block is None else f"you suspect block {missing_block}: {line}")

# %% [markdown]
# <details><summary><b>The answer</b></summary>
#
# Block 0 is lost, the first time that its sequence is freed. Its `free` begins with
#
# ```python
# if not block_id:  # meant: "no block, nothing to do"; but block 0 is a block
#     return
# ```
#
# In Python 0 is false, and so `not 0` is true. Ids that start at 0 have this problem in `if block_id:`, in `block_id
# or default`, and in C as well, where 0 so often stands for "none". vLLM takes block 0 out of the pool for good, and
# uses it as its null block. The test that finds it is the one you ran above: after everything is freed, `num_free ==
# num_blocks`.
#
# </details>

# %% [markdown]
# ## In a real engine
#
# vLLM keeps this in
# [`vllm/v1/core/block_pool.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/core/block_pool.py), in the
# class `BlockPool`. You will recognise it: `get_new_blocks` refuses when fewer are free than asked for, before it
# takes any, and `free_blocks` takes a whole sequence back. It does two things more:
#
# - A block carries a **reference count**, because sequences that begin with the same prompt share its blocks.
# - The free blocks wait in a doubly linked **queue** (`FreeKVCacheBlockQueue` in `kv_cache_utils.py`). A freed block
#   still holds its tokens' keys and values, and the same prompt may come again. A block that can be found by its
#   prompt goes to the back of the queue, where its contents are kept longest. Every other block goes to the front and
#   is the next one out, as on your stack ([#51482](https://github.com/vllm-project/vllm/pull/51482)).

# %% [markdown]
# ## Recap
#
# <details><summary><b>The free stack already says what is free. Why keep the allocated set?</b></summary>
#
# To know a block that comes back from one that cannot: without the set, a second `free` looks like the first. Asking
# the stack instead would mean searching it, and would still let through an id that never existed.
#
# </details>
#
# <details><summary><b>Why “all or none”, twice?</b></summary>
#
# After an error, the caller goes on with what it knew before the call. If some blocks have moved, nobody holds
# them any more (a leak), or two hold them (corruption). Check first, then move: the error costs nothing.
#
# </details>
#
# <details><summary><b>How much memory does a sequence waste now?</b></summary>
#
# At most `block_size - 1` slots, in its last block, whatever its length. A reservation for the longest text wastes
# most of itself.
#
# </details>
#
# **Tomorrow** the blocks get their order: a *block table* that turns "token 17" into a block and a place in it.
