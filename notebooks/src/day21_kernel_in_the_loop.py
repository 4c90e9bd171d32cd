# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Day 21 · The kernel in the loop
#
# The decode kernel is right, but nothing calls it yet. Today you put it behind `attend` and decode a text through it.
# Before that, you let many programs share a long sequence: one text alone would leave a GPU nearly idle.
#
# *About 50 minutes. You need PyTorch, and a little Triton, as on Day 19.*

# %% [markdown]
# ## Setup

# %% tags=["setup"]

# %%
from nanoserve.course.kernels import launch, triton_day

triton_day()

# %% [markdown]
# ## Where we are
#
# A program of Day 20's kernel serves one sequence and one KV head, and walks over all tokens of that sequence. Many
# sequences are many programs. But one long chat with SmolLM2, which has 3 KV heads, is 3 programs, and an H100 SXM
# has 132 **multiprocessors** ([NVIDIA](https://developer.nvidia.com/blog/nvidia-hopper-architecture-in-depth/)), each
# of which could run several programs.

# %%
from importlib.util import find_spec

import matplotlib.pyplot as plt
import torch
import triton
import triton.language as tl

from nanoserve import KVPool, gathered_attention, paged_attention
from nanoserve.course.exercises.day21.pictures import draw_programs, draw_shares

draw_programs({f"{batch} sequences" if batch > 1 else "1 sequence": 3 * batch for batch in (1, 8, 64)}, 132)

# %% [markdown]
# What limits a decode step's attention is how fast keys and values come from memory, and an idle multiprocessor fetches
# nothing. So let several programs share a sequence, each with a part of its tokens (**split-KV**, or Flash-Decoding),
# and let a second kernel put together what they found.

# %% [markdown]
# ## Predict
#
# How many programs should share a sequence? The engine's rule: enough that each multiprocessor gets four programs,
# but none with fewer than 256 tokens, and at most 128. It counts the tokens that the block table has room for: the
# true lengths lie on the GPU, and reading them would mean waiting for it. One sequence of 4,096 tokens, 3 KV heads,
# 132 multiprocessors: how many multiprocessors have work? Write down your guess; *See* answers.

# %%
guess = None  # of 132

# %% [markdown]
# ## Build
#
# Three tasks: a program's share of a sequence, the kernel that puts the shares together, and the cache that calls
# the decode kernel.
#
# ### A share
#
# The grid gets a third axis: (sequences, KV heads, **splits**). All programs along it have the same sequence and the
# same head, and each works out from its number which tokens are its own.

# %% [markdown]
# {task 21.1}
#
# Day 20's kernel calls this function, and then walks from `first` to `end`, `TILE` tokens at a time. So a share
# should be whole tiles: half a tile costs its program as much as a whole one. Only the last tile of the sequence may
# be cut short. No share should be longer than necessary, since the longest one decides when the step is done. Where
# there are more programs than tiles, some have nothing to do: their `end` is not greater than their `first`.
#
# <details><summary><b>Hint</b></summary>
#
# `tl.cdiv(a, b)` divides and rounds up. How many tiles has the sequence, how many of them does a program take, where
# does this program begin? `tl.program_id(2)` is its place among those that share, `tl.num_programs(2)` how many there
# are.
#
# </details>

# %% task="21.1"

# %% [markdown]
# ### Two shares, by hand
#
# Each program ends with a finished softmax over its own tokens. Two of them cannot simply be averaged:

# %%
scores = torch.tensor([1.0, 3.0, 2.0, 8.0])
values = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 2.0]])
parts = torch.stack([scores[:2].softmax(0) @ values[:2], scores[2:].softmax(0) @ values[2:]])
print("parts ", *parts)
print("mean  ", parts.mean(0))
print("wanted", scores.softmax(0) @ values)

# %% [markdown]
# What is missing is how much each share weighs in the whole. In a softmax over all tokens a share weighs as much as
# its tokens together: the sum of exp(score), which is the denominator of its own softmax. That sum can overflow, so
# programs hand on its logarithm, the **log-sum-exp**:

# %%
lse = torch.stack([scores[:2].logsumexp(0), scores[2:].logsumexp(0)])
weights = (lse - lse.max()).exp()
weights = weights / weights.sum()
print("log-sum-exps", lse)
print("weights     ", weights)
print("mixed       ", weights @ parts)

# %% [markdown]
# Two numbers would have done as well, the largest score and the sum under it, as in Day 18's `fold`. One is enough: a
# share without any token has -inf, and exp(-inf) is 0.
#
# {task 21.2}
#
# A program of this kernel puts one head of one sequence together: the grid is (batch, num_heads). It loads all of the
# head's log-sum-exps at once, and all of its parts as a tile, `SPLITS_PAD` high and `DIM_PAD` wide.
#
# Watch the lanes behind the last share, and the sequence that has no token at all, whose shares are all empty.
#
# <details><summary><b>Hint</b></summary>
#
# With `row` the block of the head's rows, `(batch * num_heads + head) * splits + share`, a share's log-sum-exp lies at
# `lse_ptr + row`, and its part at `parts_ptr + row[:, None] * DIM + dims[None, :]`. Load the first with
# `other=float("-inf")`. Then the cell above: the largest, the weights, their sum, and the mix. -inf less -inf is NaN,
# and so is 0 / 0.
#
# </details>

# %% task="21.2"

# %% [markdown]
# ### Behind `attend`
#
# A model calls `cache.attend(layer, q, k, v)` in each layer. So far a paged cache answers with `KVCache.attend`:
# `append` stores the new tokens and gathers the history, then comes torch's attention. For the kernel it already has
# `store`, which grows the table and writes, and gathers nothing:

# %%
from inspect import getsource
from textwrap import dedent

print(dedent(getsource(yours("16.3").store)))

# %% [markdown]
# The index tensors are made in a step's first layer, and the other layers use them again. This matters: making a
# tensor out of Python numbers is a copy to the GPU, and looking at a tensor's value (`item()`, `tolist()`, an `if`)
# waits until the GPU has caught up.
#
# {task 21.3}
#
# A step of one token goes through the kernel, `paged_attention(q, k_pool, v_pool, block_tables, seq_lens)`. A prompt
# has many queries, and goes the old way. `self.kernel` decides: `True` means the kernel on any device, `False` means
# never, and `None` means only on a GPU, if Triton is there.
#
# <details><summary><b>Hint</b></summary>
#
# `super().attend(layer, q, k, v)` is the old way, mask included. The kernel wants q as (batch, num_heads, head_dim),
# one layer of each pool, a table for each sequence as (batch, blocks), and a length for each. `find_spec("triton")` is
# None where there is no Triton.
#
# The solution first asks `self.require_query`, the engine's guard: a query that does not fit is refused before anything
# is stored. Yours may leave it out.
#
# </details>

# %% task="21.3"

# %% [markdown]
# ## See
#
# First the answer to *Predict*, from the rule itself:

# %%
from nanoserve.kernels.launch import splits_for

rows = {}
for tokens in (1024, 4096, 32_768):
    splits = splits_for(programs=3, longest=tokens, multiprocessors=132)
    rows[f"{tokens:,} tokens, shared by {splits}"] = 3 * splits
splits = splits_for(programs=3 * 64, longest=4096, multiprocessors=132)
rows[f"64 times 4,096, shared by {splits}"] = 3 * 64 * splits
draw_programs(rows, 132)
busy = min(132, 3 * splits_for(programs=3, longest=4096, multiprocessors=132))
print(f"{busy} of 132 have work at 4,096 tokens", end="\n" if guess is None else f", and you guessed {guess}\n")

# %% [markdown]
# At 4,096 tokens the second part of the rule decides: 16 shares of 256. A share has a cost too: a program to start,
# and a part to write and read again. For few tokens that is not worth it.
#
# Now your shares: 37 tokens in blocks of 4, and in 5 tiles of 8. The lower picture is the pool, and shows where each
# program's tokens lie.

# %%
from nanoserve.course.exercises.day21.shares import shares_of

table = [9, 4, 14, 1, 6, 12, 3, 15, 0, 10]
dealt = {splits: shares_of(my_tokens, 37, splits, tile=8) for splits in (1, 2, 7, 3)}
draw_shares(dealt, tile=8, table=table, block_size=4, num_blocks=16)

# %% [markdown]
# Of seven programs, two have nothing to do. They write zeros and -inf, and your `combine_kernel` gives them no
# weight.

# %% [markdown]
# ## Prove
#
# Split or not, the result must be the same. Here are five sequences, one of them empty, in scattered blocks, with NaN
# in every slot that is nobody's; your two functions in the engine's kernel, against float64:

# %%
from nanoserve.course.exercises.day21.split import ragged_step, split_attention

step = ragged_step([100, 0, 1, 37, 64])
exact = gathered_attention(*(tensor.double() for tensor in step[:3]), *step[3:])
for splits in (1, 2, 3, 8):
    out = split_attention(my_tokens, combine_kernel, *step, splits=splits)
    off = (out - exact).abs().max() / exact.abs().max()
    print(f"split in {splits}: off by less than 1e-5: {bool(off < 1e-5)}")

# %% [markdown]
# Then text. Here is a small Llama of 4 layers with random weights, once in this engine and once in transformers. Your
# cache decodes with the gather, then with the kernel:

# %%
from nanoserve.course.small_llama import small_llamas

device = "cuda" if torch.cuda.is_available() else "cpu"


def greedy(model, prompt, num_new, kernel):
    """The likeliest next token, again and again, through your cache."""
    cache = PagedKVCache(KVPool.for_model(model, num_blocks=16, block_size=4))
    cache.kernel = kernel
    step, tokens = prompt, []
    for _ in range(num_new):
        with torch.inference_mode():
            logits = model(torch.tensor([step], device=device), cache)
        step = [int(logits[0, -1].argmax())]
        tokens += step
    return tokens


ours, theirs = small_llamas(device)
prompt = [5, 17, 3, 42, 8, 11, 29]
ids = torch.tensor([prompt], device=device)
judge = theirs.generate(ids, max_new_tokens=12, do_sample=False)[0, len(prompt) :].tolist()
for name, kernel in {"gather": False, "kernel": True}.items():
    tokens = greedy(ours, prompt, 12, kernel)
    print(f"{name}: {tokens}, as transformers: {tokens == judge}")

# %% [markdown]
# And the real model: it has 30 layers, so 30 launches a token. The interpreter needs some seconds.

# %%
from nanoserve import load_model, load_tokenizer
from nanoserve.course.oracle import transformers_tokens

model, tokenizer = load_model().to(device), load_tokenizer()
prompt = tokenizer.encode("A kernel reads the keys and values where")
tokens = greedy(model, prompt, 5, kernel=True)
assert tokens == transformers_tokens(prompt, max_new_tokens=5)
print(tokenizer.decode(prompt + tokens))
print(f"{len(tokens)} tokens, four of them through the kernel, each equal to transformers'")

# %% [markdown]
# ## Measure
#
# How fast can attention be at best? In a decode step it is nearly all memory traffic, so count bytes. The kernel
# reads each key and each value once. The gather reads them, writes a copy, and attention reads the copy. Splitting
# adds a little: a part in fp32 to write and to read, and a log-sum-exp, for each head and share.

# %%
heads, kv_heads, dim, batch = 32, 8, 64, 8  # Llama-3.2-1B, in fp16


def needed(context):
    """Bytes of the keys and values that one layer's attention needs."""
    return 2 * batch * context * kv_heads * dim * 2


for context in (1024, 8192, 32_768):
    splits = splits_for(batch * kv_heads, context, 132)
    parts = 2 * batch * heads * splits * (dim + 1) * 4 if splits > 1 else 0
    line = f"{needed(context) / 1e6:4.0f} MB needed, {3 * needed(context) / 1e6:5.0f} MB with the gather"
    print(f"{context:6,} tokens each: {line}; {splits} shares add {parts / needed(context):.1%}")

# %% [markdown]
# Bytes divided by bandwidth is a time, about the least that a step's attention can take. The bandwidth is not the
# data sheet's but what a plain copy reaches. Without a GPU here, it and the times come from a table that was
# measured on one, if the course has such a table.

# %% tags=["nbval-ignore-output"]
from nanoserve.course.exercises.day21.bandwidth import attention_seconds, by_context, committed, copy_rate

rate, contexts, measured = copy_rate(device), [1024, 4096, 16_384, 32_768], None
print(f"a copy on this machine: {rate / 1e9:,.1f} GB/s")
if device == "cuda":
    measured = attention_seconds(heads, kv_heads, dim, batch, contexts)
    print(f"measured now on {torch.cuda.get_device_name()}")
elif found := committed():
    rate = found["copy_bytes_per_second"]
    contexts, measured = by_context(found, "Llama-3.2-1B", batch)
    print(f"no GPU here; measured on {found['gpu']}, {found['date']}, where a copy makes {rate / 1e9:,.0f} GB/s")
else:
    print("no GPU here, and no measured table: the lines below are arithmetic, bytes over this machine's bandwidth")

# %% tags=["nbval-ignore-output"]
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for way, colour in {"kernel": "#0072b2", "sdpa": "#7f8895", "gather": "#d55e00"}.items():
    if measured:
        milliseconds = [1000 * second for second in measured[way]]
        axes.plot(contexts, milliseconds, color=colour, marker="o", ms=4, label=f"measured: {way}")
for times, colour in {"three times": "#d55e00", "once": "#0072b2"}.items():
    moved = [(3 if times == "three times" else 1) * needed(context) for context in contexts]
    least = [1000 * bytes_moved / rate for bytes_moved in moved]
    axes.plot(contexts, least, color=colour, ls=":", label=f"keys and values {times}, at a copy's speed")
axes.set_xscale("log", base=2)
axes.set_yscale("log")
axes.set_xticks(contexts, [f"{context:,}" for context in contexts])
axes.set(xlabel=f"tokens of each of {batch} sequences", ylabel="ms for one layer's attention")
axes.spines[["top", "right"]].set_visible(False)
unmeasured = "Nothing measured: arithmetic, at this CPU's copy speed"
axes.set_title("The gather moves three times the bytes" if measured else unmeasured)
figure.legend(frameon=False, loc="outside upper left", ncols=2, fontsize=9)
plt.show()
for way in measured or ():
    share = needed(contexts[-1]) / measured[way][-1] / rate
    print(f"{way}: {share:.0%} of a copy's bandwidth, at {contexts[-1]:,} tokens")

# %% [markdown]
# Dotted is what bytes alone would take, once for the kernel and three times for the gather. As long as all of them
# come from memory, no kernel gets far below the lower line. (It may get a little below: a copy also writes, and
# reading alone can be faster.) How near a measured line comes to it says how good the kernel is, on any GPU. Where
# only dotted lines are drawn, nothing was measured: `benchmarks/gpu_check.py` does it, on a machine that has a GPU.

# %% [markdown]
# ## Break
#
# A colleague brings another decode kernel, and it has a fault. GPUs have an instruction for powers of 2 and none for
# powers of e, so it scales the scores by log2(e) once and then works in powers of 2. On a short text, which is one
# share, it agrees with the softmax, and it goes into the engine in front of your `combine_kernel`.

# %%
from nanoserve.course.exercises.day21.planted import suspect_shares


def combined(parts, lse):
    """Your reduce, for one head of one sequence."""
    out = torch.full((1, 1, 8), torch.nan)
    pads = {"SPLITS_PAD": triton.next_power_of_2(len(lse)), "DIM": 8, "DIM_PAD": 8}
    launch(combine_kernel, (1, 1), parts[None, None], lse[None, None], out, len(lse), 8, 8, **pads)
    return out[0, 0]


torch.manual_seed(21)
for splits in (1, 2, 6):
    scores, values = 2 * torch.randn(splits, 32) + torch.randn(splits, 1), torch.randn(splits, 32, 8)
    wanted = scores.flatten().softmax(0) @ values.flatten(0, 1)
    off = (combined(*suspect_shares(scores, values)) - wanted).abs().max() / wanted.abs().max()
    print(f"{splits} shares: off by {off:.0%}" if off > 1e-5 else f"{splits} share: right")

# %% [markdown]
# Which of the two numbers that a share hands on is wrong, and by how much? Both can be asked of torch:

# %%
parts, lse = suspect_shares(scores, values)
right_parts = (scores.softmax(1)[:, :, None] * values).sum(1)
right_lse = scores.logsumexp(1)
print("parts right:", torch.allclose(parts, right_parts, atol=1e-5))

figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
places = torch.arange(6)
axes.bar(places - 0.2, right_lse.softmax(0), 0.36, color="#0072b2", label="by torch's log-sum-exp")
axes.bar(places + 0.2, lse.softmax(0), 0.36, color="#d55e00", label="by the suspect's")
axes.set(xlabel="share", ylabel="weight in the whole")
axes.set_title("The suspect's heavy shares weigh too much")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
plt.show()
print("suspect's ÷ torch's:", [f"{ratio:.4f}" for ratio in (lse / right_lse).tolist()])

# %%
what_is_wrong = None  # your suspicion, in a sentence: where have you met this number?
print("no suspicion yet" if what_is_wrong is None else f"you suspect: {what_is_wrong}")

# %% [markdown]
# <details><summary><b>The answer</b></summary>
#
# 1.4427 is log2(e). The parts are right, for the power of 2 of a scaled score is the power of e of the score. But the
# log-sum-exp is a logarithm *to base 2*, and your kernel takes it for one to base e: the heavy shares grow heavier
# and the light ones lighter. A single share has the weight 1 in any base, so nothing shows. Either side can be
# mended: multiply by ln 2 on the way out, or combine with `exp2`. What helps in the long run is to write the base
# down.
#
# A FlashInfer kernel returned base 2 ([issue 2113](https://github.com/flashinfer-ai/flashinfer/issues/2113)), and
# FlashAttention returns base e. vLLM put the one into the other's reduce twice in 2026: with a context split
# [over several GPUs](https://github.com/vllm-project/vllm/pull/47079), and behind
# [a cached prefix](https://github.com/vllm-project/vllm/pull/52796), where the text began to repeat itself.
#
# </details>

# %% [markdown]
# ## In a real engine
#
# - **The rule.** vLLM's
#   [`triton_attn.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/attention/backends/triton_attn.py) splits
#   when there are at most `seq_threshold_3D` sequences, 128 over the number of KV heads, and then always into 16.
# - **The split.** `kernel_unified_attention` in
#   [`triton_unified_attention.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/attention/ops/triton_unified_attention.py)
#   is launched over a third axis of segments, as your grid is, and `reduce_segments` puts them together. It hands on
#   the largest score and the sum, where you have the log-sum-exp.
# - **One number.** `_fwd_kernel_stage1` and `_fwd_kernel_stage2` in
#   [`triton_decode_attention.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/attention/ops/triton_decode_attention.py)
#   hand on `e_max + tl.log(e_sum)`: your log-sum-exp.
# - **Across GPUs.** `correct_attn_out` in
#   [`common.py`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/attention/ops/common.py) is the same reduce for
#   shares that lie on different GPUs. One of its arguments is `is_lse_base_on_e`.

# %% [markdown]
# ## Recap
#
# <details><summary><b>When is a sequence worth splitting?</b></summary>
#
# When sequences times KV heads are too few programs to keep all multiprocessors fetching, and the sequence is long
# enough that each share is still worth a program. With many sequences there is nothing to gain.
#
# </details>
#
# <details><summary><b>What must a share hand on, and why is the softmax over it not enough?</b></summary>
#
# Its softmax's result and the log of its denominator. The result alone does not say how much the share weighs beside
# the others.
#
# </details>
#
# <details><summary><b>What should a decode step not do in each of its layers?</b></summary>
#
# Copy the history, make tensors out of Python numbers, or look at a tensor's value. The first costs bandwidth, the
# second a copy to the GPU, and the third makes Python wait for it. Tensors out of numbers are made once, in the first
# layer, for all of them.
#
# </details>
#
# **Tomorrow** there are many sequences, and one step serves them all: one table for each, prompts of different
# lengths, and padding that never reaches the pool.
