# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Day 22 · Many sequences
#
# Until today there was one text at a time. Today many go through the model **together**: prompts of any lengths in
# one prefill, then a token for each of them in every step. They share one pool, and no text may change by a single
# token because of its neighbours.
#
# *About 55 minutes. You need PyTorch's broadcasting, and the block table of Day 15.*

# %% [markdown]
# ## Setup

# %% tags=["setup"]

# %% [markdown]
# ## Where we are
#
# A decode step reads all weights of the model for a single token. For eight tokens of eight texts it reads them once
# as well. That is the whole reason to batch.
#
# A batch is a tensor, and all rows of a tensor are equally long. Texts are not. So short prompts are filled up with
# **pads**, on the left: then all prompts end in the last column, and the next token of each follows there.

# %%
from collections.abc import Sequence

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

import nanoserve
from nanoserve import BlockTable, KVPool, PagedKVCache, PrefillCache, load_model, load_tokenizer
from nanoserve.prefill import PAD

model, tokenizer = load_model(), load_tokenizer()
TEXTS = [
    "The sea is",
    "Once upon a time, in a house by the river, there lived",
    "Paris",
    "My favourite recipe for bread needs only flour, water, salt and time. First of all, you have to",
    "The three states of matter are",
    "Dear Ms Miller, thank you very much for your letter of the second of May, in which you ask",
]
PROMPTS = [tokenizer.encode(text) for text in TEXTS]
LENGTHS = [len(prompt) for prompt in PROMPTS]

# %%
longest = max(LENGTHS)
figure, axes = plt.subplots(figsize=(8, 2.2), layout="constrained")
for row, length in enumerate(LENGTHS):
    for column in range(longest):
        colour = "#d3d7dd" if column < longest - length else "#0072b2"
        axes.barh(row, 0.92, left=column - 0.46, color=colour, height=0.8)
axes.set(xlabel="column", xlim=(-0.6, longest - 0.4), ylim=(len(LENGTHS) - 0.5, -0.5), ylabel="prompt")
axes.set_title("Six prompts that end together")
axes.set_xticks(range(0, longest, 3))
axes.set_yticks(range(len(LENGTHS)), list("ABCDEF"))
axes.spines[:].set_visible(False)
axes.tick_params(length=0)
plt.show()
padded = len(LENGTHS) * longest
print(f"{sum(LENGTHS)} tokens (blue) in {padded} columns: {1 - sum(LENGTHS) / padded:.0%} of the batch are pads (grey)")

# %% [markdown]
# Pads cost arithmetic once, in the prefill. Stored in the cache, they would cost memory for as long as the text lives,
# and be read again in each step. So they must not get in: that is today's work, and it has a price. A prompt that was
# computed at columns 12, 13, 14 … has its keys rotated for these positions. Whoever leaves the pads behind must still
# remember how many there were.

# %% [markdown]
# ## Predict
#
# Prompts of 3, 9 and 30 tokens are prefilled together, and then move into a pool with blocks of 16. How many blocks
# do they take? And at which position does RoPE put the next token of the first prompt: 3, 4, 27 or 30? Write down
# your guesses; *See* answers.

# %%
guessed_blocks = None
guessed_position = None

# %% [markdown]
# ## Build
#
# Two functions for the prefill, and two pieces of a class for what comes after it. When you change an earlier task,
# run the tasks after it again.
#
# {task 22.1}
#
# `PAD` is an id like any other (0): nobody will ever look at it.
#
# <details><summary><b>Hint</b></summary>
#
# `[PAD] * pads + list(prompt)` is a row. `torch.tensor` takes a list of rows that are equally long.
#
# </details>

# %% task="22.1"

# %% [markdown]
# ### What does a pad see?
#
# The prompts must not see the pads. And the pads themselves? If one sees nothing at all, its softmax is 0 / 0:

# %%
scores = torch.tensor([[2.0, 1.0], [3.0, 4.0]])
hidden = torch.tensor([[True, True], [False, False]])  # the first query may see nothing
print(scores.masked_fill(hidden, -torch.inf).softmax(dim=-1))

# %% [markdown]
# That NaN would be the pad's output, then its key and its value in the next layer. There everybody gives it the
# weight 0, and 0 times NaN is NaN: the whole row is lost.

# %% [markdown]
# {task 22.2}
#
# In a prompt by itself, a token sees itself and what came before it. Here it must also not see the pads. The mask
# says, for each row, which column (third dimension, the query) sees which (fourth dimension, the key). What a pad
# sees is up to you, as long as it sees something; simplest is that every column sees itself.
#
# <details><summary><b>Hint</b></summary>
#
# Three comparisons of `column = torch.arange(num_tokens, device=device)`: with the pad counts as a (batch, 1) tensor,
# which gives (batch, T); and with itself as (T, 1), once by `>=` and once by `==`, which gives (T, T). `a & b | c`
# combines them, and broadcasting does the rest when each has its dimensions in the right place.
#
# </details>

# %% task="22.2"

# %% [markdown]
# The prefill keeps its keys and values in a `PrefillCache`: a plain tensor for each layer, pads included. This one
# attends by your mask:


# %%
class MaskedPrefill(PrefillCache):
    """The keys and values of prompts that go through the model together, by your mask."""

    def attend(self, layer, q, k, v):
        self.append(layer, k, v)
        mask = padded_causal_mask(self.pad_lens, k.shape[2], k.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def prefill(prompts):
    """Each prompt's next token, and the cache with their keys and values."""
    input_ids, pad_lens = left_pad(prompts)
    cache = MaskedPrefill(pad_lens)
    logits = model(input_ids, cache)
    return logits[:, -1].argmax(-1).tolist(), cache


firsts, cache = prefill(PROMPTS)
for text, token in zip(TEXTS, firsts, strict=True):
    print(f"{text[-40:]:>40} →{tokenizer.decode([token])!r}")
print(f"\nkeys of one layer: {tuple(cache.layers[0][0].shape)}")

# %% [markdown]
# {task 22.3}
#
# A **slot** is a row of the decode batch. It holds one sequence, or it is idle. `PagedSlotKVCache` keeps the books of
# all slots: `tables`, `lengths` and `offsets`. You write how prompts come in. All else is there:
#
# | | |
# | --- | --- |
# | `prefill.layers` | `(k, v)` of each layer, `(batch, num_kv_heads, columns, head_dim)`, pads included |
# | `prefill.seq_len` | its columns: pads and tokens of any row together |
# | `self._require_room(slots, lengths)` | raises what the docstring says, unless slots are free and blocks suffice |
# | `self.tables[slot]` | the slot's `BlockTable`; make it with `BlockTable(self.allocator)` |
# | `self.lengths[slot]`, `self.offsets[slot]` | real tokens held, and pads left behind |
# | `self._grow(slot, num_tokens)` | gives the slot's table room for so many tokens in all |
# | `self._store_prompt(slot, layers)` | writes `(k, v)` of each layer, `(1, num_kv_heads, tokens, head_dim)` |
# | `self.release(slot)` | gives back everything that a slot holds |
#
# All of the prompts come in, or none. Room can be checked beforehand; but a device's memory can run out half-way, or
# somebody presses Ctrl-C. A slot that is half filled then has no owner who would ever release it.
#
# <details><summary><b>Hint</b></summary>
#
# A row of the prefill without its pads is `k[row : row + 1, :, pads:]`. Check first; then `try:` around a loop over
# rows, slots and pad counts; `except BaseException:` releases those of *these* slots that have a table by now, and
# raises again.
#
# </details>

# %% task="22.3"

# %% [markdown]
# {task 22.4}
#
# Now a decode step: one new token in every slot, without a loop over the slots, since on a GPU each turn of the loop
# would wait for the CPU. `places` says where the new keys and values go, for all slots at once. A **place** is the
# number `block_id * block_size + offset` that Day 15's `slot(p)` gave; a slot is a row of the batch from now on.
# (vLLM has kept the word: its *slot mapping* is your `places`.) `self.block_tables`, `(num_slots, num_blocks)`, is
# the tables as one tensor, and `self.allocator.block_size` the size of a block.
#
# Idle slots take part. The batch's shape stays the same whoever comes and goes, so a GPU can repeat the same step.
# Their keys and values mean nothing, but they must go *somewhere*: into the **scratch block**, which no sequence ever
# gets. The block table of an idle slot is full of its id, so an idle slot needs no `if`.
#
# The model calls `positions` once, at the beginning of a step. It makes tensors of `self.lengths` and `self.offsets`
# on `self.device`, calls `self._begin_step(lengths)` (which asks your `places`, and makes the mask that all layers
# use), and returns where each new token stands.
#
# <details><summary><b>Hint</b></summary>
#
# Entry `length // block_size` of a slot's table, offset `length % block_size` in that block.
# `self.block_tables.gather(1, entries)` picks one entry from each row; `entries` is `(num_slots, 1)`.
#
# </details>

# %% task="22.4"

# %% [markdown]
# ## See
#
# Two helpers put your four pieces together: one lets prompts in, the other takes everybody's next tokens.


# %%
def admit(slots, prompts, where):
    """Prefill prompts together, let them into their slots, and return each one's text so far: its first token."""
    tokens, cache = prefill(prompts)
    slots.admit(where, cache, cache.pad_lens)
    return [[token] for token in tokens]


def decode(slots, where, texts, num_steps):
    """Let each text grow by so many greedy tokens, all of them in the same steps."""
    for _ in range(num_steps):
        assert slots.reserve_step(), "the pool is full"
        input_ids = torch.zeros(slots.num_slots, 1, dtype=torch.long)
        input_ids[where, 0] = torch.tensor([text[-1] for text in texts])
        chosen = model(input_ids, slots)[where, -1].argmax(-1)
        slots.advance()
        for text, token in zip(texts, chosen.tolist(), strict=True):
            text.append(token)


# %% [markdown]
# The six prompts are A to F, in slots 0, 1, 2, 4, 5 and 6 of eight; slots 3 and 7 are idle. A block of the picture has
# eight places, and the grey one is scratch.

# %%
WHERE = [0, 1, 2, 4, 5, 6]
pool = KVPool.for_model(model, num_blocks=16, block_size=8)
view = watch(pool, place="place")
with view.sequence("scratch"):
    slots = PagedSlotKVCache(pool, num_slots=8)
admit(slots, PROMPTS, WHERE)
for label, slot, prompt in zip("ABCDEF", WHERE, PROMPTS, strict=True):
    view.follow(label, slots.tables[slot], [tokenizer.decode([token]) for token in prompt])
view

# %% [markdown]
# Not one pad is in there. Six owners came in at once, and each has just the blocks that its own tokens need.

# %%
blocks = sum(len(table.block_ids) for table in slots.tables.values())
with_pads = len(PROMPTS) * -(-longest // 8)
print(f"{sum(LENGTHS)} tokens lie in {blocks} blocks; with their pads, it would be {with_pads} blocks")
print(f"offsets: {slots.offsets}")

small = nanoserve.PagedSlotKVCache(KVPool.for_model(model, 8, block_size=16), 3)
_, three = prefill([PROMPTS[3][:1] * length for length in (3, 9, 30)])
small.admit([0, 1, 2], three, three.pad_lens)
blocks, position = small.allocator.num_used - 1, small.positions(1)[0].item()  # one is scratch
print("\n3, 9 and 30 tokens")
for what, came, guess in (("blocks", blocks, guessed_blocks), ("position", position, guessed_position)):
    print(f"  {what}: {came}; " + ("no guess" if guess is None else f"your guess: {guess}"))

# %% [markdown]
# The 3-token prompt stood in columns 27, 28 and 29, so its next token stands at 30. RoPE does not care where a text
# begins: what counts is the *distance* between a query and a key. But the distances must be right. What if the slot
# forgets its offset?

# %%
crowd = PagedSlotKVCache(KVPool.for_model(model, num_blocks=28, block_size=8), num_slots=8)
texts = admit(crowd, PROMPTS, WHERE)
decode(crowd, WHERE, texts, num_steps=12)

forgetful = PagedSlotKVCache(KVPool.for_model(model, num_blocks=28, block_size=8), num_slots=8)
wrong = admit(forgetful, PROMPTS, WHERE)
forgetful.offsets = [0] * 8
decode(forgetful, WHERE, wrong, num_steps=12)

for prompt, pads, text, other in zip(TEXTS, cache.pad_lens, texts, wrong, strict=True):
    print(f"pads: {pads:2}  …{prompt[-24:]}")
    print(f"  with offset     {tokenizer.decode(text)!r}")
    print(f"  without         {tokenizer.decode(other)!r}")

# %% [markdown]
# The prompt without pads keeps its text; of the five others, four change. To a new query, the prompt's last key seems
# to lie `pads - 1` positions *ahead*. There is no error and no NaN, and some of the wrong texts read well, which is
# why such a fault can stay unseen for long. Unsloth's users [met
# it](https://github.com/unslothai/unsloth/issues/3699): in a left-padded batch, only the longest prompt was continued
# rightly.

# %% [markdown]
# ## Prove
#
# Each text in company equals the text alone, for the reference's `generate` and for transformers. These are the
# texts with offset, 13 new tokens each.

# %%
from nanoserve.course.oracle import transformers_tokens

for text, prompt, tokens in zip(TEXTS, PROMPTS, texts, strict=True):
    assert tokens == nanoserve.generate(model, prompt, max_new_tokens=13)
    assert tokens == transformers_tokens(prompt, max_new_tokens=13)
    print(f"prompt of {len(prompt):2}, then {len(tokens)} as alone: {(text + tokenizer.decode(tokens))[-60:]!r}")

# %% [markdown]
# And a text that comes later? One leaves, and another takes its slot, in the middle of the others' texts.

# %%
crowd.release(1)
newcomer = tokenizer.encode("A slot is free again, and")
late = admit(crowd, [newcomer], [1])
everyone = [texts[0], late[0], *texts[2:]]
decode(crowd, WHERE, everyone, num_steps=10)
assert late[0] == transformers_tokens(newcomer, max_new_tokens=11)
assert texts[0] == transformers_tokens(PROMPTS[0], max_new_tokens=23)
print(tokenizer.decode(newcomer + late[0]))
print(tokenizer.decode(PROMPTS[0] + texts[0]))
crowd.free()
assert crowd.allocator.num_used == 0

# %% [markdown]
# ## Measure
#
# What does company cost? Steps with 1, 2, 4, 8 and 16 texts of one length, in turns, so that whatever else slows this
# machine down affects them all. First a count: what does a step read for each of its tokens?

# %%
counts = [1, 2, 4, 8, 16]
weights = sum(weight.nbytes for weight in model.parameters())
history = 20 * nanoserve.kv_bytes_per_token(model.config, model.dtype)  # a text's keys and values, for 20 tokens
read = {count: weights / count + history for count in counts}
for count in counts:
    print(f"texts: {count:2}   MB read for each token: {read[count] / 1e6:5.1f}, of them {history / 1e6:.1f} its own")

# %% tags=["nbval-ignore-output"]
from statistics import median
from time import perf_counter

crowds = {}
for count in counts:
    company, where = nanoserve.PagedSlotKVCache(KVPool.for_model(model, 2 * count + 1), count), list(range(count))
    crowds[count] = company, where, admit(company, [PROMPTS[3][:16]] * count, where)


def step_seconds(count):
    """The time of one decode step of so many texts."""
    start = perf_counter()
    decode(*crowds[count], num_steps=1)
    return perf_counter() - start


turns = []
for turn in range(9):
    order = counts if turn % 2 else counts[::-1]
    seconds = {count: step_seconds(count) for count in order}
    turns.append({count: seconds[count] / seconds[1] for count in counts})
step = {count: median(turn[count] for turn in turns[1:]) for count in counts}  # the first one warms up
for count in counts:
    print(f"texts: {count:2}   a step's time: {step[count]:4.1f} times that of one text alone")

# %%
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.plot(counts, [step[count] / count for count in counts], color="#0072b2", marker="o", label="time, measured")
axes.plot(counts, [read[count] / read[1] for count in counts], color="#7f8895", linestyle=":", label="bytes, counted")
axes.set(xlabel="texts in a step", ylabel="for each token,\none text alone = 1", xticks=counts, ylim=(0, None))
axes.set_title("The more texts share a step, the less each token costs")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# The dotted line is a machine that does nothing but read: the weights are read once, whoever shares them. Where the
# measured line runs higher, the arithmetic counts as well: soon on a CPU, much later on a GPU, which computes far
# more for each byte that it reads. As long as another text is almost free, only the memory for keys and values keeps
# the batch small. That is why it pays to save that memory.
#
# (A bend at few texts, even one below the dotted line, is the matrix library's: it multiplies one row in another way
# than two or four.)

# %% [markdown]
# ## Break
#
# This engine has a fault, and passes every test that its authors wrote. `SuspectSlots` is in `planted.py`; do not
# look yet. First, what the authors saw: a fresh pool, one text, three idle slots.

# %%
from nanoserve.course.exercises.day22.planted import SuspectSlots

fresh = KVPool.for_model(model, num_blocks=8, block_size=8)
suspect = SuspectSlots(fresh, num_slots=4)
fine = admit(suspect, PROMPTS[:1], [2])
decode(suspect, [2], fine, num_steps=12)
print(fine[0] == texts[0][:13])

# %% [markdown]
# Then it goes into production. Another text, the lodger, runs by itself in the same pool, in Day 16's `PagedKVCache`,
# and is not in the batch. Its prompt is prefilled, the suspect makes one step, and the lodger goes on.


# %%
def alone(cache, tokens, num_new):
    """Greedy tokens of one text, by itself."""
    for _ in range(num_new):
        tokens = [int(model(torch.tensor([tokens]), cache)[0, -1].argmax())]
        yield tokens[0]


shared = KVPool.for_model(model, num_blocks=8, block_size=8)
lodger = PagedKVCache(shared)
before = list(alone(lodger, PROMPTS[4], 1))

suspect = SuspectSlots(shared, num_slots=4)
guest = admit(suspect, PROMPTS[:1], [2])
keys = shared.k.clone()
decode(suspect, [2], guest, num_steps=1)
keys_later = shared.k.clone()

after = before + list(alone(lodger, before, 12))
print("the text alone:      ", repr(tokenizer.decode(texts[4][:13])))
print("beside the suspect:  ", repr(tokenizer.decode(after)))

# %% [markdown]
# The guest's text is right. The lodger's is not. Here is where that one step wrote (stars):

# %%
from nanoserve.course.exercises.day22.write_map import draw_writes

owners = {"lodger": lodger.table.block_ids, "guest": suspect.tables[2].block_ids}
draw_writes(keys, keys_later, owners, suspect.scratch)

# %%
whose_star = None  # which star is one too many, and who wrote it?
why_not_seen = None  # why did the fresh pool not show it?
print("no suspicion yet" if whose_star is None else f"you suspect {whose_star}, unseen because {why_not_seen}")

# %% [markdown]
# <details><summary><b>The answer</b></summary>
#
# Two stars would be right: the guest's new key, and the idle slots' in the scratch block. There is none in scratch. The
# idle slots wrote to place 0 of block 0, over the lodger's first key, since the suspect's block tables begin as
# zeros:
#
# ```python
# self.block_tables = torch.zeros_like(self.block_tables)
# ```
#
# In a fresh pool block 0 is the first one out, and the first to take one is the suspect itself: for scratch. There
# the fault *is* the right behaviour. Only a pool that was used before shows it.
#
# A number that stands for "nowhere" should not be the number of a place. But -1 is not safe either: as an index it is
# the *last* place. In vLLM the padded rows of a CUDA graph carry -1, and its kernels skip them; a path that used
# plain indexing instead wrote over the last place of the last block
# ([#43810](https://github.com/vllm-project/vllm/issues/43810)).
#
# </details>

# %% [markdown]
# ## In a real engine
#
# - **No pads in the prefill.** vLLM does not pad prompts at all: the tokens of all requests lie end to end in one flat
#   tensor, with `query_start_loc` to say where each request begins
#   ([`vllm/v1/worker/gpu/input_batch.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/worker/gpu/input_batch.py)),
#   and attention kernels that read it. Each token then has its true position, and there is no offset to remember.
#   Padding is the price of an attention that takes only rectangles, such as torch's.
# - **Places.** `BlockTables.compute_slot_mappings` in
#   [`vllm/v1/worker/gpu/block_table.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/worker/gpu/block_table.py)
#   is your `places`, as a Triton kernel: block number times block size plus offset. What a CUDA graph has too many of
#   is filled with `PAD_SLOT_ID`, -1, and `reshape_and_cache_flash_kernel`
#   ([`csrc/libtorch_stable/cache_kernels.cu`](https://github.com/vllm-project/vllm/blob/main/csrc/libtorch_stable/cache_kernels.cu))
#   returns at once for it.
# - **A block that nobody gets.** `BlockPool`
#   ([`vllm/v1/core/block_pool.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/core/block_pool.py)) takes
#   block 0 out of its own queue when it begins, as `null_block`: a placeholder in tables, never given out.

# %% [markdown]
# ## Recap
#
# <details><summary><b>Why are pads on the left, and not on the right?</b></summary>
#
# So that every row ends in the same column: the last logits are everyone's next token, and the mask of a later step
# need not skip pads in the middle of a text.
#
# </details>
#
# <details><summary><b>The pads are gone from the cache. Why must their number stay?</b></summary>
#
# The prompt's keys were rotated for columns that began behind the pads. A later query must be counted in the same
# way, or its distance to every key of the prompt is wrong by that number.
#
# </details>
#
# <details><summary><b>Why does an idle slot write at all?</b></summary>
#
# So that a step is the same for any set of busy slots: one shape, no `if`, no list made on the CPU. What it writes
# needs a place, and that must be nobody's.
#
# </details>
#
# **Tomorrow** requests come and go by themselves: continuous batching.
