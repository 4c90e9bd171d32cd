# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Day 18 · Attention without the gather
#
# The paged cache copies a text's whole history at every step, only to read it once. Today attention goes to the
# blocks instead, one after the other, and keeps two numbers and one row for each head. The trick is the *online
# softmax*, and you build it in plain torch.
#
# *About 50 minutes. You need a little PyTorch, and to know what a softmax is.*

# %% [markdown]
# ## Setup

# %% tags=["setup"]

# %% [markdown]
# ## Where we are
#
# `PagedKVCache` (Day 16) stores keys and values in blocks, and hands them to torch's attention in one piece. So a step
# reads every block, writes a copy, and reads the copy. How many bytes is that, and how many does attention itself need?

# %%
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from matplotlib.ticker import LogLocator

from nanoserve import KVPool, NaiveKVCache, PagedKVCache, gather_by_table, load_model, load_tokenizer

model, tokenizer = load_model(), load_tokenizer()
config = model.config


def history_bytes(num_tokens):
    """Of the keys and values of a text, in all layers, in fp32."""
    return num_tokens * config.num_hidden_layers * 2 * config.num_key_value_heads * config.head_dim * 4


megabytes = history_bytes(2048) / 1e6
print(f"a step at 2,048 tokens: {3 * megabytes:.0f} MB moved with the gather, {megabytes:.0f} MB needed")

# %%
figure, axes = plt.subplots(figsize=(8, 1.7), layout="constrained")
for place, (name, colour) in enumerate({"read blocks": "#0072b2", "write": "#d55e00", "read copy": "#5a6572"}.items()):
    axes.barh("gather, then attention", megabytes, left=place * megabytes, color=colour, edgecolor="white")
    axes.text((place + 0.5) * megabytes, 0, name, ha="center", va="center", color="white")
axes.barh("in place", megabytes, color="#0072b2", edgecolor="white")
axes.text(0.5 * megabytes, 1, "read blocks", ha="center", va="center", color="white")
axes.set(xlabel="MB moved in one step, all layers, 2,048 tokens held", ylim=(1.6, -0.6))
axes.set_title("The gather moves three times the bytes")
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# What stands in the way of reading in place is the softmax: it divides by a sum over *all* tokens, and it seems that
# no value can be weighed before the last score is known.

# %% [markdown]
# ## Predict
#
# A head's scores lie in two blocks: 1 and 3 in the first, 2 and 8 in the second. After the first block alone, the
# softmax gives the token of score 3 a share of 88%. How much is left of it once the second block has been read?
#
# Write down your guess; *Build* answers.

# %%
guess = None  # per cent

# %% [markdown]
# ## Build
#
# ### First, by hand
#
# A softmax subtracts the largest score before it exponentiates. This does not change the shares, and without it fp32
# overflows:

# %%
print(torch.tensor([88.0, 89.0]).exp())

# %% [markdown]
# So two things are known only at the end: the largest score, and the sum. Here are all four tokens at once:

# %%
scores, values = torch.tensor([1.0, 3.0, 2.0, 8.0]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 2.0]])
weights = (scores - 8).exp()
print("weights", weights, "\nshares ", weights / weights.sum(), "\nresult ", weights @ values / weights.sum())

# %% [markdown]
# Now as if only the first block were there. Its largest score is 3. Keep three things, and divide by nothing yet:

# %%
largest = scores[:2].max()
weights = (scores[:2] - largest).exp()
total, mixed = weights.sum(), weights @ values[:2]
print(f"largest {largest:.0f}, total {total:.4f}, mixed {mixed}; the second token's share is {weights[1] / total:.0%}")

# %% [markdown]
# The second block brings an 8. Every weight so far was `exp(score - 3)`, and should be `exp(score - 8)`. That is a
# factor, the same for all of them, so the *sums* can be corrected without going back to a single token:

# %%
shrink = (largest - 8).exp()
weights = (scores[2:] - 8).exp()
total, mixed = total * shrink + weights.sum(), mixed * shrink + weights @ values[2:]
print(f"shrink {shrink:.4f}; result {mixed / total}")
print(f"the second token's share is now {shrink / total:.1%};", end=" ")
print("you made no guess" if guess is None else f"you guessed {guess} %")

# %% [markdown]
# The same result, to the last digit shown, and the first block was never touched again. This is the **online softmax**
# (Milakov and Gimelshein, 2018); FlashAttention (Dao et al., 2022) is built on it.
#
# One thing before you write it: what is the largest score *before the first block*? Below any score, so -inf looks
# right. But a block can be masked as a whole (a sliding window does that), with all its scores -inf:

# %%
masked = torch.tensor([-torch.inf, -torch.inf])
print("beginning at -inf: ", (masked - -torch.inf).exp())
print("beginning at -1e30:", (masked - -1e30).exp())

# %% [markdown]
# Infinity minus infinity is not a number, and one NaN spoils every sum after it. With -1e30, which is finite and
# below any score that fp32 attention will meet, `exp(-inf)` is 0 and the block counts for nothing, as it should.
#
# ### Now you
#
# Two tasks: one block, then the walk over all of them. When you change the first task, run the second again.
#
# {task 18.1}
#
# The cells above, for several heads at once. Each head has its own largest score, its own total and its own mix.
#
# <details><summary><b>Hint</b></summary>
#
# `scores.amax(-1)` is each head's maximum in this block; `torch.maximum` compares it with what is known. To multiply
# `(num_heads, head_dim)` by one number a head, write `[:, None]` behind that number. The sum over the block's tokens is
# `(weights[:, :, None] * values).sum(1)`.
#
# </details>

# %% task="18.1"

# %% [markdown]
# {task 18.2}
#
# Now the walk: for each sequence, block after block in the order of its table. Make the scores of the block's tokens,
# and let `fold` take them in. After the last one, divide.
#
# Three things are easily overlooked. The last block is seldom full, and what lies behind the newest token may be
# anything, even NaN. Query heads share KV heads in consecutive groups: with 9 and 3, query heads 0, 1 and 2 read KV
# head 0. And an idle row has no tokens at all.
#
# <details><summary><b>Hint</b></summary>
#
# `block_tables.tolist()` and `seq_lens.tolist()` give plain numbers for the loops. `k_pool[block_id, :held]` is a view,
# `(held, num_kv_heads, head_dim)`: nothing is copied. `transpose(0, 1)` puts the heads first, and
# `repeat_interleave(group, 0)` spreads them over the query heads. The scores of a block are
# `keys @ q[row][:, :, None]`, less the last dimension.
#
# </details>

# %% task="18.2"

# %% [markdown]
# ## See
#
# A real text, a real query: SmolLM2 has read 19 tokens, and they lie scattered. This cache also keeps the last
# token's queries, so that we can walk again and look at one head.

# %%
from nanoserve.course.exercises.day18.recording import recorded
from nanoserve.course.exercises.day18.walk_view import WalkView


class Listening(PagedKVCache):
    """Day 16's cache, which keeps each layer's newest query."""

    def attend(self, layer, q, k, v):
        self.queries = getattr(self, "queries", {}) | {layer: q[:, :, -1]}
        return super().attend(layer, q, k, v)


pool = KVPool.for_model(model, num_blocks=8, block_size=5)
pool.allocator.allocate_for(8 * 5)
pool.allocator.free_all([2, 0, 6, 3])  # the others are another text's
cache = Listening(pool)
prompt = tokenizer.encode("Paging leaves a text where it lies, and attention has to follow its table from block to")
with torch.inference_mode():
    model(torch.tensor([prompt]), cache)
print(f"{cache.seq_len} tokens in blocks {cache.table.block_ids}")

# %%
layer, head = 11, 3
table, held = torch.tensor([cache.table.block_ids]), torch.tensor([cache.seq_len])
with recorded(blockwise_attention, pool.v[layer], head) as turns:
    out = blockwise_attention(cache.queries[layer], pool.k[layer], pool.v[layer], table, held)
WalkView(turns, [tokenizer.decode(token) for token in prompt], num_blocks=8, block_size=5, others=[1, 4, 5, 7])

# %% [markdown]
# Take the slider back to 1 and go forward. Each row is what one head knew after a block. With every block, the bars of
# all earlier tokens shrink by one common factor: the old `total`, brought under the new `largest`, over the new
# `total`. Nothing was copied together: what goes from block to block is `largest`, `total` and one row of `mixed`.

# %% [markdown]
# ## Prove
#
# First against softmax itself, in float64, on scores small and large:

# %%
torch.manual_seed(18)
q, keys, values = torch.randn(1, 9, 64), torch.randn(64, 16, 3, 64), torch.randn(64, 16, 3, 64)
shuffled = torch.randperm(64)[None]
for size in (1, 10, 60):
    ours = blockwise_attention(size * q, keys, values, shuffled, torch.tensor([1000]))
    k, v = (pool[shuffled[0]].flatten(0, 1)[:1000].transpose(0, 1)[None].double() for pool in (keys, values))
    theirs = F.scaled_dot_product_attention(size * q[:, :, None].double(), k, v, enable_gqa=True)[:, :, 0]
    largest_score = (k.repeat_interleave(3, 1) @ (size * q[0, :, :, None].double())).max() / 8
    off = (ours - theirs).abs().max()
    print(f"largest score {largest_score:5.1f}: off by less than {size}e-6: {bool(off < size * 1e-6)}")

# %% [markdown]
# The result is right to 1e-6 where scores are of the usual size. A score of 264.9 is rounded in fp32, by up to 2e-5,
# and no softmax can be more exact than its scores.
#
# Then a whole model. This cache stores as before; when a single token comes, your walk reads the blocks. A prompt has
# many queries at once, and still takes the gather. The judge of the text is Hugging Face transformers:

# %%
from textwrap import fill

from nanoserve.course.oracle import transformers_tokens


class InPlaceCache(PagedKVCache):
    """Decode steps read the blocks where they lie."""

    steps = 0

    def attend(self, layer, q, k, v):
        if q.shape[2] > 1:
            return super().attend(layer, q, k, v)
        self.store(layer, k, v)
        self.steps += 1
        table, held = torch.tensor([self.table.block_ids]), torch.tensor([self.seq_len])
        return blockwise_attention(q[:, :, 0], self.pool.k[layer], self.pool.v[layer], table, held)[:, :, None]


# %%
def greedy(prompt, cache, num_new):
    """The likeliest next token, again and again."""
    step = prompt
    for _ in range(num_new):
        with torch.inference_mode():
            step = [int(model(torch.tensor([step]), cache)[0, -1].argmax())]
        yield step[0]


prompt = tokenizer.encode("Attention reads the blocks where they lie, and")
cache = InPlaceCache(KVPool.for_model(model, num_blocks=4))
ours = list(greedy(prompt, cache, 30))
assert ours == transformers_tokens(prompt, max_new_tokens=30)
print(fill(tokenizer.decode(prompt + ours), 88))
print(f"\n{cache.steps:,} calls of your attention; {len(ours)} tokens, each equal to transformers'")

# %% [markdown]
# ## Measure
#
# What does a step cost as the history grows? It reads the weights, always the same, and it reads the history. Here is
# a step with the gather, a step that finds the history in one piece, and a step with your walk. Each time is that of
# the model without a history, plus that of the attention, measured over 8 layers and scaled to all 30.

# %% tags=["nbval-ignore-output"]
from functools import partial
from itertools import pairwise

from nanoserve.course.timing import arrivals

query = torch.randn(1, 9, 1, 64)


def milliseconds(call, times):
    """The fastest of some calls."""
    with torch.inference_mode():
        return 1000 * min(b - a for a, b in pairwise(arrivals(call() for _ in range(times + 1))))


def in_one_piece(n, ids, keys, values):
    F.scaled_dot_product_attention(query, keys, values, enable_gqa=True)


def with_gather(n, ids, *memories):
    in_one_piece(n, ids, *(gather_by_table(memory, ids, n) for memory in memories))


def walking(n, ids, *memories):
    blockwise_attention(query[:, :, 0], *memories, ids[None], torch.tensor([n]))


ways = {
    "gather, then attention": (with_gather, 5),
    "attention, in one piece": (in_one_piece, 5),
    "your walk": (walking, 1),
}

# %% tags=["nbval-ignore-output"]
weights_alone = milliseconds(lambda: model(torch.tensor([[1]]), NaiveKVCache()), 5)
lengths, steps = [64 << i for i in range(9)], {name: [] for name in ways}
for n in lengths:
    ids, blocks = torch.randperm(n // 16), torch.randn(2, 8, n // 16, 16, 3, 64)  # keys and values, 8 layers
    pieces = torch.randn(2, 8, 1, 3, n, 64)
    for name, (way, times) in ways.items():
        layers = zip(*(pieces if way is in_one_piece else blocks), strict=True)
        calls = [partial(way, n, ids, keys, values) for keys, values in layers]
        history = milliseconds(lambda calls=calls: [call() for call in calls], times)
        steps[name].append(weights_alone + history / 8 * config.num_hidden_layers)
for name, column in steps.items():
    print(f"{name:23} {column[0]:6.0f} ms a step at {lengths[0]} tokens, {column[-1]:6.0f} ms at {lengths[-1]:,}")

# %%
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
looks = [("#d55e00", "-"), ("#7f8895", "--"), ("#0072b2", "-")]
for (name, column), (colour, line) in zip(steps.items(), looks, strict=True):
    axes.plot(lengths, column, color=colour, ls=line, marker="o", markersize=3, label=name)
axes.set_xscale("log", base=2)
axes.set_yscale("log")
axes.set_xticks(lengths[::2], [f"{n:,}" for n in lengths[::2]])
axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
axes.yaxis.set_major_formatter("{x:,g}")
axes.yaxis.set_minor_formatter("")
axes.set(xlabel="tokens held", ylabel="ms for one step of the model")
axes.set_title("In Python, the walk takes longer than the copy that it saves")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="upper left")
plt.show()

# %% [markdown]
# Two regimes. To the left the weights are nearly all that counts, and the lines of the gather and of the history in
# one piece lie flat. To the right the history is what counts, and of these two lines that of the gather bends upwards
# first: it moves three times the bytes, and once its copies have outgrown the CPU's caches, each copy costs its full
# time.
#
# And your walk? It copies no history, and still it is the **slowest** of the three on a CPU. Each block costs some
# calls from Python into torch, and 16 tokens are too little work for that. The loop is right, but Python is the wrong
# language for it: inside a GPU kernel a turn of the loop costs no call, and then the bytes decide.

# %% [markdown]
# ## Break
#
# This `fold` has a fault. It comes from an engine whose models have a *sliding window*: a token sees only the newest
# tokens, and older ones get the score -inf. It passes every test that its authors wrote: with a window and without,
# the result is the softmax.

# %%
from nanoserve.course.exercises.day18.planted import suspect_fold, suspect_start


def by_blocks(fold, known, scores, values):
    """Six blocks of four tokens, one after the other."""
    for block in range(0, 24, 4):
        known = fold(scores[:, block : block + 4], values[:, block : block + 4], *known)
    _, total, mixed = known
    return mixed / torch.where(total == 0, 1, total)[:, None]


def mine(scores, values):
    return by_blocks(fold, (torch.full((1,), -1e30), torch.zeros(1), torch.zeros(1, 8)), scores, values)


def suspect(scores, values):
    return by_blocks(suspect_fold, suspect_start(1, 8), scores, values)


torch.manual_seed(18)
scores, values = 3 * torch.randn(1, 24), torch.randn(1, 24, 8)
window = scores.clone()
window[:, :10] = -torch.inf  # two blocks and a half are out of sight
for name, seen in {"all tokens": scores, "with a window": window}.items():
    right = (seen.softmax(-1)[:, None] @ values)[:, 0]
    off = [(way(seen, values) - right).abs().max() < 1e-6 for way in (mine, suspect)]
    print(f"{name:14}: yours {'right' if off[0] else 'wrong'}, the suspect {'right' if off[1] else 'wrong'}")

# %% [markdown]
# Then a model arrives in which one head's output is zero. Try this: add the same number to *all* scores. That does
# not change a softmax, so it must not change the result.

# %%
levels = range(-140, 101, 4)
lines = {
    "yours, with a window": (mine, window, {"color": "#0072b2", "lw": 6, "alpha": 0.4}),
    "suspect, all tokens": (suspect, scores, {"color": "#7f8895", "ls": "--"}),
    "suspect, with a window": (suspect, window, {"color": "#d55e00"}),
}
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for name, (way, seen, look) in lines.items():
    right = (seen.softmax(-1)[:, None] @ values).norm()
    axes.plot(levels, [way(seen + level, values).norm() / right for level in levels], label=name, **look)
axes.set(xlabel="added to every score", ylabel="length of the result / right length", ylim=(-0.1, 1.3))
axes.set_title("Where all scores are low, the suspect's result is zero")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="lower right")
plt.show()

# %%
what_is_wrong = None  # your suspicion, in a sentence
print("no suspicion yet" if what_is_wrong is None else f"you suspect: {what_is_wrong}")

# %% [markdown]
# <details><summary><b>The answer</b></summary>
#
# It begins at -inf, and guards against the NaN of a block that is masked as a whole, with this line:
#
# ```python
# new_largest = torch.where(new_largest == -torch.inf, 0.0, new_largest)
# ```
#
# The guard is right for the subtraction, and wrong for what is *kept*: from then on 0 is the largest score, though no
# token has it. As long as the real scores are near 0 or above, nothing shows. Where all of a head's scores lie below
# about -104, every `exp(score - 0)` is 0 in fp32, and the head's output is zero.
#
# FlashAttention [had it](https://github.com/Dao-AILab/flash-attention/issues/2082): a first block all masked, later
# scores all negative, whole heads zeroed, and somebody's training runs with them. FlashInfer had
# [a cousin of it](https://github.com/flashinfer-ai/flashinfer/issues/4267): its maximum began at -50,000, and a model
# was found whose scores lie lower.
#
# </details>

# %% [markdown]
# ## In a real engine
#
# - **The loop.** `kernel_unified_attention` in vLLM's
#   [`triton_unified_attention.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/attention/ops/triton_unified_attention.py)
#   keeps the same three: `M`, `L` and `acc`. For each tile of keys it looks the block ids up in the block table, then
#   comes `M, L, P, alpha = softmax_step(S, M, L)` and `acc = acc * alpha[:, None]`: your `fold`, with `alpha` for
#   `shrink`.
# - **The merge.** A long history can be cut into parts that run side by side; each leaves its own maximum, sum and mix,
#   and `reduce_segments` in the same file brings them under one maximum.
# - **Across kernels.** `merge_attn_states`
#   ([`merge_attn_states.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/attention/ops/merge_attn_states.py))
#   joins the attention over a cached prefix with that over the new tokens. Its Triton form
#   [gave the NaN of today](https://github.com/vllm-project/vllm/pull/39148) where both parts were empty.

# %% [markdown]
# ## Recap
#
# <details><summary><b>What must be kept from one block to the next?</b></summary>
#
# For each head three things: the largest score so far, the sum of the weights under it, and the sum of the values by
# those weights. It is the same amount for 10 tokens and for 100,000.
#
# </details>
#
# <details><summary><b>A new block has a higher score. What becomes of the blocks before it?</b></summary>
#
# Their sums are multiplied by `exp(old - new)`, once, both of them. No key and no value is read again.
#
# </details>
#
# <details><summary><b>Why does the division come last?</b></summary>
#
# Shares are made of the total, and it is known only after the last block. Sums can be corrected by a factor; means of
# different totals cannot simply be added.
#
# </details>
#
# **Tomorrow** you learn the language in which this loop is fast: on a GPU it becomes one kernel, written in Triton. The
# first kernels are small.
