# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Day 15 · The block table
#
# A text is one line of tokens; its blocks lie anywhere. Today you build what holds the two together: three short
# methods that turn "token 17" into one place in memory. At the end a language model finds its own past through
# your table.
#
# *About 40 minutes. You need Python's `//` and `%`.*

# %% [markdown]
# ## Setup

# %% tags=["setup"]

# %% [markdown]
# ## Where we are
#
# Memory is cut into **blocks**, each with room for the keys and values of `block_size` tokens. An allocator hands
# them out and takes them back (Day 14), so the free ones soon lie in disorder, and a sequence that grows takes
# whichever comes next.
#
# But attention asks for the tokens *in order*: 0, 1, 2 …. So each sequence keeps a list of its blocks, its **block
# table**: entry 0 says which block holds the first `block_size` tokens, entry 1 the next ones, and so on. An
# operating system's page table does the same for a program's memory.
#
# Here is a pool of 8 blocks of 4 after a busy day, with one text, **B**, in it. On the right are its block table and
# the free stack:

# %%
import random
from collections.abc import Iterable

import nanoserve
from nanoserve import BlockAllocator, KVCacheExhausted, load_tokenizer

# %%
tokenizer = load_tokenizer()


def tokens_of(text):
    """The text cut into SmolLM2's tokens, each as text."""
    return [tokenizer.decode([token_id]) for token_id in tokenizer(text, add_special_tokens=False)["input_ids"]]


def scattered_pool(num_blocks, block_size, seed=50):
    """A pool whose free blocks lie in disorder: all were out, and came back one by one."""
    pool = BlockAllocator(num_blocks, block_size)
    blocks = pool.allocate_for(num_blocks * block_size)
    pool.free_all(random.Random(seed).sample(blocks, num_blocks))
    return pool


example = scattered_pool(8, 4)
picture = watch(example)
b = nanoserve.BlockTable(example)
picture.follow("B", b, tokens_of("A second text is here."))
b.append(6)
picture

# %% [markdown]
# (To run on your own allocator, paste the cells of Day 14's four tasks between the imports and the pool.)
#
# ## Predict
#
# Into this very pool a sentence of 20 tokens is written, token by token. Look at the free stack: which of its
# tokens, at positions 0 to 19, take a block, and in which of the pool's slots, numbered from 0 to 31, will position
# 17 lie?
#
# Write down your guesses; *See* answers.

# %%
takers_guess = None  # the positions whose tokens take a block, for example [0, 9]
slot_guess = None  # the slot of position 17, for example 9

# %% [markdown]
# ## Build
#
# Three tasks make one class. Each goes on with your class of the task before, by `yours("15.1")`, or with the
# reference's where yours does not pass yet. Replace `raise NotImplementedError`, run the cell, and `check` tells you
# where you stand. When you change an earlier task, run the tasks after it again.
#
# {task 15.1}
#
# `__init__` and `free` are there: a table is an allocator, a list, and a count. `append` adds `num_tokens`
# positions: sometimes one (a step of decoding), sometimes hundreds (a prompt).
#
# When is a new block due? Not with the token that *fills* a block, but with the next one: when there are more
# tokens than the blocks have room for. And if the pool has too few blocks, then nothing has happened, neither to
# the pool nor to the table: the scheduler will try again later.
#
# <details><summary><b>Hint</b></summary>
#
# How many positions are still free in the blocks that the table has? Only the tokens beyond that need blocks, and
# `self.allocator.allocate_for(tokens)` takes exactly the blocks for them, or none, and raises. It returns a list.
# Do first what may fail.
#
# </details>

# %% task="15.1"

# %% [markdown]
# {task 15.2}
#
# Position `p` lies in some block, at some **offset** from where that block begins. With blocks of 4: which entry
# of the table does position 17 belong to, and what is left over?
#
# A position at or behind `num_tokens` may have a slot in the last block, but nothing is in it yet: that is an
# `IndexError`. So is -1. Python would count it from the end; in a cache that is another token's memory.
#
# <details><summary><b>Hint</b></summary>
#
# `divmod(p, block_size)` gives both numbers. The first is an *entry*: look up in `self.block_ids` which block
# stands there.
#
# </details>

# %% task="15.2"

# %% [markdown]
# {task 15.3}
#
# The pool is one long row of slots: block 0 has the first `block_size` of them, block 1 the next. What is
# the number of the slot that holds position `p`? Tomorrow it is an index into a tensor.
#
# <details><summary><b>Hint</b></summary>
#
# How many slots lie before block 1, before block 2, before block `b`? `self.position(p)` gives you the rest.
#
# </details>

# %% task="15.3"

# %% [markdown]
# ## See
#
# Your table on a real sentence, in the pool of *Predict*. Move the slider: which tokens take a block?

# %%
BlockTable = yours("15.3")
pool = scattered_pool(8, 4)
view = watch(pool)
sentence = tokens_of("These words stand in a row on the page, but in memory they lie wherever there was room.")

other, table = BlockTable(pool), BlockTable(pool)
view.follow("B", other, tokens_of("A second text is here."))
view.follow("A", table, sentence)
other.append(6)
takers = []
for position in range(len(sentence)):
    before = len(table.block_ids)
    table.append()
    if len(table.block_ids) > before:
        takers.append(position)

print(f"{table.num_tokens} tokens in blocks {table.block_ids}")
print(f"positions {takers} took a block; you guessed {'nothing' if takers_guess is None else takers_guess}")
print(f"position 17 lies in slot {table.slot(17)}; you guessed {'nothing' if slot_guess is None else slot_guess}")
view

# %% [markdown]
# Here is what your three methods do, as arrows: from a token to its entry in the table, and from there to its slot.
# Move the slider from 15 to 16: both are neighbours in the sentence. Where are they in memory?

# %%
from nanoserve.course.view.route_widget import follow_position

follow_position(view, "A", 17)

# %% [markdown]
# ## Prove
#
# First against the reference: three sequences share a pool, and thousands of calls drawn at random, right ones and
# wrong ones, go to your tables and to the reference's. Each must answer with the same place, or the same error.

# %%
rng = random.Random(15)


def outcome(table, method, *arguments):
    try:
        came = getattr(table, method)(*arguments)
    except (KVCacheExhausted, IndexError, ValueError) as error:
        return type(error).__name__
    return came if method in ("position", "slot") else None  # the others are asked for what they do


pools = scattered_pool(16, 4), scattered_pool(16, 4)
mine = [BlockTable(pools[0]) for _ in range(3)]
reference = [nanoserve.BlockTable(pools[1]) for _ in range(3)]
answers = []
for _ in range(10_000):
    which = rng.randrange(3)
    call = rng.choice(
        [("append", rng.randrange(-1, 12)), ("position", rng.randrange(-1, 24)), ("slot", rng.randrange(24))]
    )
    call = ("free",) if rng.random() < 0.05 else call
    answers.append(outcome(mine[which], *call))
    assert answers[-1] == outcome(reference[which], *call), f"{call} gave {answers[-1]}"
refused = sum(isinstance(answer, str) for answer in answers)
print(f"{len(answers):,} calls: {refused:,} refused by both, and no difference in any")

# %% [markdown]
# A prompt arrives at once, an answer token by token. That must make no difference to where anything lies:

# %%
by_ones, in_chunks, at_once = (BlockTable(scattered_pool(8, 4)) for _ in range(3))
for _ in range(20):
    by_ones.append()
for chunk in (7, 1, 4, 8):
    in_chunks.append(chunk)
at_once.append(20)
slots = [[each.slot(p) for p in range(20)] for each in (by_ones, in_chunks, at_once)]
assert slots[0] == slots[1] == slots[2]
print("20 tokens by ones, in chunks, at once:", *slots[0])

# %% [markdown]
# Then on the real thing. SmolLM2-135M writes an answer, and every key and value that it looks back at is found
# through **your** table, in a pool in disorder. Hugging Face transformers writes the same answer with a cache of
# its own. They must agree token for token.

# %%
import torch

from nanoserve import KVPool, PagedKVCache, encode_chat, load_model
from nanoserve.course.oracle import transformers_tokens

model = load_model()
prompt = encode_chat(tokenizer, "Write one sentence about libraries.")

kv_pool = KVPool.for_model(model, num_blocks=8, block_size=16, allocator=scattered_pool(8, 16))
cache = PagedKVCache(kv_pool)
cache.table = BlockTable(kv_pool.allocator)  # yours, in place of the engine's

ours, step = [], prompt
with torch.inference_mode():
    while len(ours) < 40 and (not ours or ours[-1] not in model.eos_token_ids):
        logits = model(torch.tensor([step]), cache)  # (1, 1, vocabulary)
        step = [int(logits[0, -1].argmax())]
        ours += step

print(tokenizer.decode(ours, skip_special_tokens=True))
assert ours == transformers_tokens(prompt, max_new_tokens=40)
print(f"\n{len(ours)} tokens, each equal to transformers', in blocks {cache.table.block_ids}")

# %% [markdown]
# ## Measure
#
# What does growing by need save? First one sequence, from nothing to 200 tokens. Then 400 requests of random lengths:
# the share of the memory held that stays empty, for blocks of each size, and for an engine that reserves the longest
# possible text, 1,024 tokens, for each.

# %%
grown, staircase = BlockTable(BlockAllocator(num_blocks=16, block_size=16)), []
for _ in range(201):
    staircase.append(len(grown.block_ids) * 16)  # slots taken for 0, 1, 2 … tokens
    grown.append()


def slots_taken(length, block_size):
    table = BlockTable(BlockAllocator(1024 // block_size, block_size))
    table.append(length)
    return len(table.block_ids) * block_size


rng = random.Random(15)
lengths = [min(1024, 1 + int(rng.expovariate(1 / 150))) for _ in range(400)]
sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256]
empty = [100 * (1 - sum(lengths) / sum(slots_taken(length, size) for length in lengths)) for size in sizes]
reserved = 100 * (1 - sum(lengths) / (1024 * len(lengths)))
print("empty, by block size:", ", ".join(f"{size}: {share:.1f}%" for size, share in zip(sizes, empty, strict=True)))
print(f"empty, with 1,024 reserved for each: {reserved:.1f}%")

# %%
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained")
left.axhline(256, color="#7f8895", linestyle="--", linewidth=1, label="reserved for 256")
left.step(range(201), staircase, where="mid", color="#0072b2", label="allocated (your table)")
left.plot(range(201), range(201), color="black", linestyle=":", label="used")
left.set(xlabel="tokens in the sequence", ylabel="slots", xlim=(0, 200), ylim=(0, 280))
left.set_title("Slots follow the tokens, block by block")
left.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 0.9))
right.axhline(reserved, color="#7f8895", linestyle="--", linewidth=1, label="reserved for 1,024")
right.plot(sizes, empty, color="#0072b2", marker="o", label="allocated (your table)")
right.set_xscale("log", base=2)
right.set(xlabel="block size (tokens)", ylabel="empty slots (% of those held)", ylim=(0, 100))
right.set_xticks(sizes, sizes)
right.set_title("Small blocks leave little empty")
right.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 0.83))
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# A staircase over a line: never more than `block_size - 1` slots are empty, whatever the length. Smaller blocks waste
# less. So why does nobody use blocks of 1? (*Recap* answers.)

# %% [markdown]
# ## Break
#
# This table has a fault. Here it takes a prompt of 6 tokens, then one token after the other, and all is well:
# every token has a slot. Change the steps, or the block size, until some token has none: the printed line and the
# picture's log will say so.

# %%
from nanoserve.course.exercises.day15.planted import SuspectTable

block_size, steps = 4, [6, 1, 1, 1, 1]

crime_pool = scattered_pool(12, block_size)
crime_scene = watch(crime_pool)
suspect = SuspectTable(crime_pool)
crime_scene.follow("A", suspect, sentence)
for step in steps:
    suspect.append(step)
print(f"{suspect.num_tokens} tokens, room for {len(suspect.block_ids) * block_size}")
crime_scene

# %%
rule = None  # what rule does this table follow, do you think?
print("no suspicion yet" if rule is None else f"you suspect: {rule}")

# %% [markdown]
# <details><summary><b>The answer</b></summary>
#
# Its `append` takes a block by a rule on the remainder of the new length:
#
# ```python
# elif length % self.allocator.block_size == 1:  # the token just added is the first one of a new block
#     self.block_ids.append(self.allocator.allocate())
# ```
#
# One token at a time that is true. But a chunk can step over the boundary and end elsewhere: with `[6, 4]` the
# length is 10, and `10 % 4` is 2. And with blocks of 1 the remainder is always 0, so that no block is taken after
# the prompt: try `block_size, steps = 1, [6, 1]`. The sequence then has tokens without a slot, and the engine writes
# their keys and values wherever the next number in memory points.
#
# nano-vllm has this line. It is right there, since its sequences have grown by exactly one token whenever it runs.
# But the line does not say so, and readers report it as a bug again and again
# ([66](https://github.com/GeeeekExplorer/nano-vllm/pull/66),
# [150](https://github.com/GeeeekExplorer/nano-vllm/issues/150),
# [240](https://github.com/GeeeekExplorer/nano-vllm/issues/240)). MinivLLM asked for a remainder of 0, a token too
# early: [there it was a bug](https://github.com/Wenyueh/MinivLLM/issues/75). Yours says what it means: a block is due
# when there are more tokens than room.
#
# </details>

# %% [markdown]
# ## In a real engine
#
# vLLM keeps the two halves of your class apart:
#
# - **Growth** is the scheduler's:
#   [`vllm/v1/core/single_type_kv_cache_manager.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/core/single_type_kv_cache_manager.py),
#   `SingleTypeKVCacheManager.allocate_new_blocks`. It takes `cdiv(num_tokens, block_size)`, a ceiling, less the
#   blocks that the request has: your rule.
# - **Lookup** is the GPU worker's:
#   [`vllm/v1/worker/block_table.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/worker/block_table.py),
#   class `BlockTable`. All requests' tables are the rows of one int32 tensor on the GPU. Its
#   `compute_slot_mapping` runs a Triton kernel that works out `block * block_size + offset` for every token of a
#   step at once, and marks the rest of the batch with -1: no slot.

# %% [markdown]
# ## Recap
#
# <details><summary><b>A sequence has just reached 16 tokens, in blocks of 16. How many has it taken?</b></summary>
#
# One block, and it is full. The second is due with token 17, which is *position* 16. A block taken now might stay empty
# for ever, and might be missing elsewhere.
#
# </details>
#
# <details><summary><b>Why does nobody use blocks of 1 token, which waste nothing?</b></summary>
#
# Each block costs an entry in the table, a call to the allocator, and a jump in memory when attention reads it.
# Blocks of 16 divide all three by 16, and keep 16 neighbours together, which is how GPUs like to read.
#
# </details>
#
# <details><summary><b>Nothing but the table knows the order of the blocks. What follows from that?</b></summary>
#
# Blocks can lie anywhere, and none ever has to be moved. A table that is lost, or sorted, is the text lost, though
# every byte of it is still there. And two tables may name the same block: that is how engines share a prompt.
#
# </details>
#
# **Tomorrow** the slots get their tensors: a cache that writes keys and values by slot and reads them back by
# table.
