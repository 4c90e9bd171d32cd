# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Day 20 · The paged-attention kernel
#
# Today you write the kernel that this course leads up to: it computes a decode step's attention, and leaves keys and
# values in the blocks where they lie. You write it in four parts, each checked alone. No GPU is needed.
#
# *About 75 minutes. You need Day 18 (the online softmax) and Day 19 (programs, lanes, masks).*

# %% [markdown]
# ## Setup

# %% tags=["setup"]

# %%
from nanoserve.course.kernels import AccessView, compiled, launch, triton_day

triton_day()

# %% [markdown]
# ## Where we are
#
# Day 18 walked over the blocks in a Python loop: right, and slow. Day 19 wrote kernels, none of which computed
# attention. Today both meet:

# %%
from nanoserve.course.exercises.day20.picture import ProgramPicture

ProgramPicture()

# %% [markdown]
# One program serves **one sequence and one KV head**. It loads the queries of that head's group once, then walks over
# the sequence a **tile** of tokens at a time: where do they lie, what are their scores, fold them in. At the end it
# divides and stores. Nearly all that it reads is keys and values (tomorrow we count the bytes), so it reads each of
# them once, for all the query heads that share it.

# %%
import torch
import triton
import triton.language as tl


def unwritten(*shape):
    return torch.full(shape, torch.nan)


# %% [markdown]
# ## Predict
#
# SmolLM2 has 9 query heads and 3 KV heads. Four sequences take a step, of 5, 40, 17 and 0 tokens. How many programs
# start, and how many of them read no key at all? Write down your guess; *See* answers.

# %%
guess = None  # (programs, programs that read no key)

# %% [markdown]
# ## Build
#
# Four tasks: three functions, and the kernel that calls them.
#
# ### The tile is not the block
#
# A tile is the tokens that a program fetches at a time. Their number must be a power of two, as in every Triton
# shape, and it should suit the GPU. A block is what the allocator hands out. The two need not match: each lane finds
# its own token's block. Here a tile of 8 tokens over blocks of 3:

# %%
tokens = torch.arange(8, 16)
print("token ", tokens.tolist())
print("entry ", (tokens // 3).tolist())
print("offset", (tokens % 3).tolist())

# %% [markdown]
# A block begins at its id times `block_stride`, counted in elements. Ids are int32, and so is the product:

# %%
block_id, block_stride = torch.tensor([700_000], dtype=torch.int32), 16 * 3 * 64
print((block_id * block_stride).item(), "in int32;", (block_id.long() * block_stride).item(), "in int64")

# %% [markdown]
# {task 20.1}
#
# A function that kernels call. It has no `program_id` and no loop: it takes a block of token positions and returns a
# block of offsets, in elements. There may be a gap between one block of this layer and the next, so both strides are
# handed over.
#
# <details><summary><b>Hint</b></summary>
#
# Two lines. The load from the table is Day 19's, with `mask=held, other=0` and `.to(tl.int64)`. Then the block's
# beginning plus the token's beginning in it.
#
# </details>

# %% task="20.1"

# %% [markdown]
# ### Every row with every row
#
# The scores are each query with each key: two tiles, `(GROUP, DIM)` and `(TILE, DIM)`, give one of `(GROUP, TILE)`.
# With a third axis, both spread over `(GROUP, TILE, DIM)`, and a sum over the last axis removes it. Here is the same
# with distances:


# %%
@triton.jit
def distances(a, b):
    apart = a[:, None, :] - b[None, :, :]  # (2, 1, 4) and (1, 2, 4) spread to (2, 2, 4)
    return tl.sum(apart * apart, axis=2)


@triton.jit
def distance_kernel(a_ptr, b_ptr, out_ptr):
    rows, dims = tl.arange(0, 2), tl.arange(0, 4)
    places = rows[:, None] * 4 + dims[None, :]
    found = distances(tl.load(a_ptr + places), tl.load(b_ptr + places))
    tl.store(out_ptr + rows[:, None] * 2 + rows[None, :], found)


a, b, out = torch.tensor([[0.0] * 4, [1.0] * 4]), torch.tensor([[1.0] * 4, [3.0] * 4]), unwritten(2, 2)
done = launch(distance_kernel, (1,), a, b, out)
print(out.tolist())

# %% [markdown]
# Tensor cores multiply whole tiles at once, and `tl.dot(a, b)` asks for them: a matrix product, `(GROUP, DIM)` times
# `(DIM, TILE)`; `tl.trans` turns a tile. The sum must run over at least 16 numbers, here DIM, both sides must have
# one type (16 bits are best), and the result is fp32. On a T4, for fp32, and in the interpreter, it is better to
# multiply and sum. `DOT` says which; it is a `tl.constexpr`, so the compiler drops the branch that is not taken.
#
# The order of two factors matters. Where the compiler recognises a matrix product in a multiplication and its sum, it
# makes a dot of it by itself, and on tensor cores a dot of fp32 numbers is rounded to tf32, with three digits. A sum
# over the last axis, as here, is left in fp32.
#
# {task 20.2}
#
# Both forms, the scale, and -inf for tokens that are not held: then `exp` makes 0 of them. In their rows `k` may hold
# NaN, and NaN plus -inf is still NaN, so choose lane by lane: `tl.where(condition, yes, no)`. Minus infinity is
# `float("-inf")`, as in Python. The scores are fp32 in both forms, as `tl.dot` gives them; fp16 would end at 65504.
#
# <details><summary><b>Hint</b></summary>
#
# `if DOT:` `tl.dot(q, tl.trans(k))`, `else:` the three axes of the cell above, in fp32: `x.to(tl.float32)`. Then
# `tl.where`, with `held[None, :]` as the condition, so that it spreads over the heads.
#
# </details>

# %% task="20.2"

# %% [markdown]
# ### Two numbers and a row a head
#
# Day 18's `fold` in torch, over two tiles of two tokens, for one head:


# %%
def torch_fold(s, v, largest, total, mixed):
    new_largest = torch.maximum(largest, s.amax(1))
    shrink, weights = torch.exp(largest - new_largest), torch.exp(s - new_largest[:, None])
    return new_largest, total * shrink + weights.sum(1), mixed * shrink[:, None] + weights @ v


known = torch.tensor([-1e30]), torch.zeros(1), torch.zeros(1, 2)
for s, v in [([[1.0, 3.0]], [[1.0, 0.0], [0.0, 1.0]]), ([[5.0, 2.0]], [[2.0, 0.0], [0.0, 2.0]])]:
    known = torch_fold(torch.tensor(s), torch.tensor(v), *known)
    largest, total, mixed = (number[0] for number in known)
    print(f"largest {largest:.0f}  total {total:.4f}  mixed {mixed[0]:.4f} {mixed[1]:.4f}")

# %% [markdown]
# {task 20.3}
#
# The same in Triton. `tl.max(s, axis=1)` is a row's largest; `tl.maximum` and `tl.exp` are like torch's. Python's
# `max` is not: in the interpreter it would choose once for all heads. A function may return several blocks, as in
# Python.
#
# There is no `@`. The axes of the product are (GROUP, TILE, DIM) again, but this time the sum goes over the tokens,
# the middle axis. Here the order counts: write the values first, `v[None, :, :] * weights[:, :, None]`, or the
# compiler makes a dot of it. The values may be fp32, fp16 or bf16, and all three that come back are fp32, with DOT as
# well.
#
# <details><summary><b>Hint</b></summary>
#
# Without DOT: that product summed over `axis=1`, with `v` in fp32. With DOT: `tl.dot(weights.to(v.dtype), v)`, since
# both sides of a dot have one type; its sum is kept in fp32.
#
# </details>

# %% task="20.3"

# %% [markdown]
# ### Two axes, and a group that is padded
#
# The grid has an axis for sequences and one for KV heads; a program asks for both. KV head n serves the query heads
# from `n * GROUP` on. A group of 3 is no power of two: the tile has 4 rows, and a mask knows which of them are heads.


# %%
@triton.jit
def heads_kernel(x_ptr, GROUP: tl.constexpr, GROUP_PAD: tl.constexpr):
    member = tl.arange(0, GROUP_PAD)
    tl.device_print("heads", tl.program_id(1) * GROUP + member)
    tl.device_print("count", member < GROUP)


done = launch(heads_kernel, (1, 2), torch.zeros(1), GROUP=3, GROUP_PAD=4)

# %% [markdown]
# Rows and programs count from 0: row 3 of program 0 would be head 3, which is program 1's. Storing it would overwrite
# head 3.
#
# Two functions are given, for tomorrow, when several programs share one long sequence: `my_tokens(seq_len, TILE)`
# gives `first, end`, which are 0 and `seq_len` as long as a sequence has one program; `store_lse` leaves a number a
# head, by which the parts are put together. The check tries two programs as well.

# %%
from nanoserve.kernels.paged_decode import my_tokens, store_lse

# %% [markdown]
# {task 20.4}
#
# The whole kernel, about 24 lines, in three parts. It calls your three functions, so run their cells first; in place
# of one that does not pass yet, it calls the reference's. The check takes some seconds.
#
# 1. **Before the loop.** Who am I: sequence, KV head, heads, dims. Load the group's queries, with `other=0.0`: lanes
#    that are only padding must add nothing. Load one number, this sequence's length: `tl.load(lens_ptr + batch)`.
#    `largest`, `total` and `mixed` begin at -1e30, 0 and 0, in fp32: `tl.full(shape, value, tl.float32)`.
# 2. **The loop**, `for start in tl.range(first, end, TILE)`; Python's `range` works too. The tile's tokens, which of
#    them are held, their offsets, then keys and values; `scores`, `fold`.
# 3. **After it.** Divide; store; `store_lse(lse_ptr, heads, largest, total, GROUP)`.
#
# Beware of three things. Slots behind the newest token may hold NaN, and 0 times NaN is NaN. `DIM` may be 80, so
# `DIM_PAD` lanes need a mask. And a sequence of no tokens should give zeros, not 0 / 0.
#
# <details><summary><b>Hint: before the loop</b></summary>
#
# ```python
# member = tl.arange(0, GROUP_PAD)
# heads = kv_head * GROUP + member
# wanted = (member < GROUP)[:, None] & (dims < DIM)[None, :]
# ```
#
# The queries' pointers are `q_ptr + batch * q_batch_stride + heads[:, None] * q_head_stride + dims[None, :]`.
# `tl.full([GROUP_PAD], -1e30, tl.float32)`, `tl.zeros([GROUP_PAD], tl.float32)` and
# `tl.zeros([GROUP_PAD, DIM_PAD], tl.float32)` make the three.
#
# </details>
#
# <details><summary><b>Hint: the loop</b></summary>
#
# `token_offsets` wants this sequence's row of the table: `table_ptr + batch * table_stride`. A tile of places is
# `rows[:, None] + kv_head * kv_head_stride + dims[None, :]`, the same in both pools. Its mask has two parts, tokens
# and dims, and `other=0.0`.
#
# </details>
#
# <details><summary><b>Hint: after it</b></summary>
#
# `tl.where(total == 0, 1.0, total)` is a safe divisor. The output's pointers are built like the queries', with
# `out_batch_stride` and `out_head_stride`; add `tl.program_id(2) * out_split_stride`, which is 0 for the first of
# a sequence's programs. The mask is the queries' mask.
#
# </details>

# %% task="20.4"

# %% [markdown]
# A launch hands over pointers, sizes and strides, and says how large the padded tiles are:


# %%
def attend(kernel, q, k_pool, v_pool, tables, lens, tile=16, keeps=False):
    """Attention of one decode step through a kernel, and what the launch did."""
    (batch, heads, dim), (block_size, kv_heads) = q.shape, k_pool.shape[1:3]
    group, out, lse = heads // kv_heads, unwritten(*q.shape), unwritten(batch, heads, 1)
    strides = (*q.stride()[:2], *k_pool.stride()[:3], tables.stride(0), *out.stride()[:2], 0)
    shape = {"GROUP": group, "GROUP_PAD": triton.next_power_of_2(group), "TILE": tile, "DOT": False}
    shape |= {"DIM": dim, "DIM_PAD": triton.next_power_of_2(dim), "keeps": keeps}
    tensors = (q, k_pool, v_pool, tables, lens, out, lse)
    return out, launch(kernel, (batch, kv_heads, 1), *tensors, dim**-0.5, block_size, *strides, **shape)


# %% [markdown]
# ## See
#
# Two sequences, of 5 tokens and of 3, in blocks of 2 with 2 KV heads of 2 numbers. Their tables say 4, 1, 5 and 2, 0.
# Each cell of `k` names the programs that read it: `0,1` is sequence 0 and KV head 1. A last 0 is left out, so `1` is
# sequence 1 and KV head 0.

# %%
from dataclasses import replace


def only(done, *names):
    """What a launch did to these of its tensors."""
    kept = [access for access in done.accesses if access.tensor in names]
    return replace(done, tensors={name: done.tensors[name] for name in names}, accesses=kept)


torch.manual_seed(20)
q, k, v = torch.randn(2, 4, 2), torch.randn(6, 2, 2, 2), torch.randn(6, 2, 2, 2)
tables, lens = torch.tensor([[4, 1, 5], [2, 0, -1]], dtype=torch.int32), torch.tensor([5, 3], dtype=torch.int32)
out, done = attend(paged_decode_kernel, q, k, v, tables, lens, tile=4, keeps=True)
AccessView(only(done, "k", "out"))

# %% [markdown]
# Block 3 is nobody's. The second slots of blocks 5 and 0 lie behind the last tokens: no program reads them. Every key
# has one reader, although two query heads need it.
#
# Now the answer to *Predict*:

# %%
q, k, v = torch.randn(4, 9, 8), torch.randn(8, 16, 3, 8), torch.randn(8, 16, 3, 8)
tables, lens = torch.arange(12, dtype=torch.int32).view(4, 3) % 8, torch.tensor([5, 40, 17, 0], dtype=torch.int32)
out, done = attend(paged_decode_kernel, q, k, v, tables, lens, keeps=True)
programs = {access.program for access in done.accesses}
readers = {access.program for access in done.accesses if access.tensor == "k"}
print(
    f"{len(programs)} programs, {len(programs - readers)} of them read no key", f"· you guessed {guess}" * bool(guess)
)

# %% [markdown]
# ## Prove
#
# First against `gathered_attention` in float64, over ragged sequences in scattered blocks. The pool is poisoned: NaN in
# every slot that no sequence holds, and in the tables, behind the last block, ids that no pool has.

# %%
import random

from nanoserve import gathered_attention


def a_step(lengths, heads, kv_heads, dim, block_size, left=torch.full, order=None):
    """One step's random inputs; `left` makes what lies in the slots that no sequence holds."""
    order = order or random.sample(range(200), 200)
    k, v = left((2, 200, block_size, kv_heads, dim), torch.nan)
    tables, lens = torch.full((len(lengths), 61), 2**30, dtype=torch.int32), torch.tensor(lengths, dtype=torch.int32)
    for row, length in enumerate(lengths):
        for token in range(length):
            tables[row, token // block_size] = order[61 * row + token // block_size]
            slot = tables[row, token // block_size], token % block_size
            k[slot], v[slot] = torch.randn(2, kv_heads, dim)
    return torch.randn(len(lengths), heads, dim), k, v, tables, lens


def furthest(kernel, step, tile=16):
    """The largest difference from float64."""
    q, k, v, tables, lens = step
    out, _ = attend(kernel, *step, tile=tile)
    return (out - gathered_attention(q.double(), k.double(), v.double(), tables, lens)).abs().max()


random.seed(20)
off, cases = [], 10
for _ in range(cases):
    heads = random.choice([(9, 3), (7, 1), (4, 4), (6, 2)])
    lengths = [random.randrange(60) for _ in range(3)]
    step = a_step(lengths, *heads, dim=random.choice([64, 80, 5]), block_size=random.choice([1, 3, 16]))
    off.append(furthest(paged_decode_kernel, step, tile=random.choice([16, 64])))
print(f"{cases} steps, off by less than 1e-5: {bool(max(off) < 1e-5)}")

# %% [markdown]
# Then on the real thing. SmolLM2 reads a prompt, and this cache keeps the last token's queries in each layer. Your
# kernel against torch's own attention, over one layer's real keys and values:

# %%
import torch.nn.functional as F

from nanoserve import KVPool, PagedKVCache, encode_chat, load_model, load_tokenizer

model, tokenizer = load_model(), load_tokenizer()


class Listening(PagedKVCache):
    """Keeps each layer's newest query, (1, 9, 64)."""

    def attend(self, layer, q, k, v):
        self.queries = getattr(self, "queries", {}) | {layer: q[:, :, -1]}
        return super().attend(layer, q, k, v)


pool = KVPool.for_model(model, num_blocks=16, block_size=8)
pool.allocator.allocate_for(5 * 8)  # the first blocks are somebody else's
cache = Listening(pool)
prompt = encode_chat(tokenizer, "How does a GPU find the keys?")
with torch.inference_mode():
    model(torch.tensor([prompt]), cache)
print(f"{cache.seq_len} tokens in blocks {cache.table.block_ids}")

# %%
layer = 7
table, lens = torch.tensor([cache.table.block_ids], dtype=torch.int32), torch.tensor([cache.seq_len])
mine, _ = attend(paged_decode_kernel, cache.queries[layer], pool.k[layer], pool.v[layer], table, lens, tile=64)
keys, values = (
    memory[layer][cache.table.block_ids].flatten(0, 1)[: cache.seq_len].transpose(0, 1)[None]
    for memory in (pool.k, pool.v)
)
theirs = F.scaled_dot_product_attention(cache.queries[layer][:, :, None], keys, values, enable_gqa=True)[:, :, 0]
torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)
print("each of the 9 heads equals torch's attention")

# %% [markdown]
# And a few tokens of text. Each goes through 30 layers, so it needs 30 launches of an interpreted kernel, each in a
# process of its own. The first token comes from the prompt and two more through your kernel; tomorrow the engine does
# it.

# %%
from nanoserve.course.oracle import transformers_tokens


class InPlaceCache(PagedKVCache):
    """Decode steps go through your kernel."""

    def attend(self, layer, q, k, v):
        if q.shape[2] > 1:
            return super().attend(layer, q, k, v)
        self.store(layer, k, v)
        table, lens = torch.tensor([self.table.block_ids], dtype=torch.int32), torch.tensor([self.seq_len])
        out, _ = attend(paged_decode_kernel, q[:, :, 0], self.pool.k[layer], self.pool.v[layer], table, lens, tile=64)
        return out[:, :, None]


cache, step, ours = InPlaceCache(KVPool.for_model(model, num_blocks=4)), prompt, []
for _ in range(3):
    with torch.inference_mode():
        step = [int(model(torch.tensor([step]), cache)[0, -1].argmax())]
    ours += step
assert ours == transformers_tokens(prompt, max_new_tokens=3)
print(f"{tokenizer.decode(ours)!r}: each token equals transformers'")

# %% [markdown]
# ## Measure
#
# The compiler knows a GPU that is not here. A tile lives in **registers**, of which a thread has [255 at
# most](https://docs.nvidia.com/cuda/hopper-tuning-guide/); for what the compiler finds no register it uses memory.
# That is *spilling*, and a kernel that spills much is slow. So how long may a tile be? Here is your kernel for
# SmolLM2's heads in fp16, compiled for three GPUs:

# %% tags=["nbval-ignore-output"]
import matplotlib.pyplot as plt

half = torch.float16
step = a_step([60, 20, 3], 9, 3, 64, 16)
q, k, v, tables, lens = (tensor.to(half) if tensor.is_floating_point() else tensor for tensor in step)
strides = (*q.stride()[:2], *k.stride()[:3], tables.stride(0), *q.stride()[:2], 0)
ways = {
    "T4, multiply and sum": ((7, 5), False, 4, [4, 8, 16, 32, 64], "#0072b2"),
    "A100, tl.dot": ((8, 0), True, 16, [16, 32, 64, 128], "#009e73"),
    "H100, tl.dot": ((9, 0), True, 16, [16, 32, 64, 128], "#d55e00"),
}
figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
for name, (capability, dot, group_pad, tiles, colour) in ways.items():
    shape = {"GROUP": 3, "GROUP_PAD": group_pad, "DIM": 64, "DIM_PAD": 64, "DOT": dot}
    arguments = (q, k, v, tables, lens, q, unwritten(3, 9, 1), 0.125, 16, *strides)
    made = [compiled(paged_decode_kernel, capability, *arguments, **shape, TILE=tile) for tile in tiles]
    axes.plot(tiles, [code.registers for code in made], color=colour, marker="o", markersize=4, label=name)
    spills = [tile for tile, code in zip(tiles, made, strict=True) if code.spilled]
    axes.plot(spills, [made[tiles.index(tile)].registers for tile in spills], "x", color=colour, markersize=12, mew=2)
    told = ", ".join(f"{tile}: {code.registers} ({code.spilled})" for tile, code in zip(tiles, made, strict=True))
    print(f"{name:21} registers (bytes spilled) by tile: {told}")
axes.axhline(255, color="#7f8895", ls=":")
axes.text(4, 258, "255, the most a thread has", color="#667280", fontsize=8)
axes.set_xscale("log", base=2)
axes.set_xticks([4, 8, 16, 32, 64, 128], labels=["4", "8", "16", "32", "64", "128"])
axes.set(xlabel="tokens in a tile (a cross: it spills)", ylabel="registers of a thread", ylim=(0, 280))
axes.set_title("A longer tile takes more registers")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="lower right")
plt.show()

# %% [markdown]
# The lines climb to a ceiling. Multiplying and summing holds GROUP_PAD x TILE x DIM products at once, and reaches the
# ceiling at a tile for which `tl.dot` has registers left, although its group is padded to 16 rows. A cross may stand
# below the ceiling: the compiler chooses how many registers it takes, and now and then spills a few bytes rather than
# take more. Just below the ceiling is not best either: a GPU has so many registers in all, and threads that need few
# leave room for more programs side by side. The engine's choice is `tile_shape` in `nanoserve/kernels/launch.py`:

# %%
from nanoserve.kernels.launch import tile_shape

for dot in (False, True):
    print(
        f"3 heads of 64, {'tl.dot' if dot else 'multiply and sum'}: a tile of {tile_shape(3, 64, dot)['TILE']} tokens"
    )

# %% [markdown]
# In the interpreter it is the other way round. There a turn of the loop over a long tile takes little longer than one
# over a short tile, and so tiles are long:

# %% tags=["nbval-ignore-output"]
step = a_step([960], 9, 3, 64, 16)
for tile in (16, 64, 256):
    milliseconds, turns = 1e3 * attend(paged_decode_kernel, *step, tile=tile)[1].seconds, 3 * triton.cdiv(960, tile)
    print(f"tiles of {tile:3}: {turns:3} turns, {milliseconds:4.0f} ms, {milliseconds / turns:.1f} ms a turn")

# %% [markdown]
# ## Break
#
# Here is another kernel, and the tests that it came with. It has a fault.

# %%
from nanoserve.course.exercises.day20.planted import suspect_kernel


def zeros(shape, _):
    return torch.zeros(shape)


def old_numbers(shape, _):
    return torch.randn(shape)


sizes = {"heads": 6, "kv_heads": 2, "dim": 16, "block_size": 8}
tests = {
    "one block": a_step([8], **sizes, left=zeros, order=range(200)),
    "three full blocks": a_step([24], **sizes, left=zeros, order=range(200)),
    "three blocks, scattered": a_step([24], **sizes, left=zeros),
    "ragged, scattered": a_step([21, 3, 0], **sizes, left=zeros),
    "ragged, in blocks that others have left": a_step([21, 3, 0], **sizes, left=old_numbers),
}
for name, step in tests.items():
    yours, suspects = (furthest(kernel, step) < 1e-5 for kernel in (paged_decode_kernel, suspect_kernel))
    print(f"{name:40} yours {'right' if yours else 'wrong'}, the suspect {'right' if suspects else 'wrong'}")

# %% [markdown]
# It passes them all. Which slots does it read that yours does not? One sequence of 5 tokens in blocks of 4:

# %%
k, v = torch.randn(2, 3, 4, 1, 4)
tables, lens = torch.tensor([[2, 0]], dtype=torch.int32), torch.tensor([5], dtype=torch.int32)
_, done = attend(suspect_kernel, torch.randn(1, 2, 4), k, v, tables, lens, tile=8, keeps=True)
AccessView(only(done, "v", "out"))

# %%
what_would_show_it = None  # your suspicion: which number in those slots would change the result?
print("no suspicion yet" if what_would_show_it is None else f"you suspect: {what_would_show_it}")

# %% [markdown]
# <details><summary><b>The answer</b></summary>
#
# It loads whole blocks, the slots behind the last token too, and relies on the scores: -inf there, so a weight of 0.
# That is enough for any *number*. But 0 times NaN, or times infinity, is NaN. One request whose values overflow in
# fp16 leaves such a slot behind. The next request that gets this block has NaN in its heads, though it did nothing
# wrong. The mask belongs on the loads: `tokens < end`, for the values above all.
#
# vLLM's Triton kernels [had it until July 2026](https://github.com/vllm-project/vllm/pull/47305): on AMD
# GPUs a warm-up run left NaN behind, and Whisper's first requests came out as garbage. Freed blocks are not cleared,
# there or here.
#
# </details>
#
# Here is the input that shows it:

# %%
step = a_step([21, 3, 0], **sizes)  # NaN in the slots that no sequence holds
for kernel in (paged_decode_kernel, suspect_kernel):
    out, _ = attend(kernel, *step)
    print(f"{kernel.__name__:20} {int(out.isnan().any(-1).sum())} of {out[..., 0].numel()} heads are NaN")

# %% [markdown]
# ## In a real engine
#
# vLLM's Triton kernels for this step, in
# [`vllm/v1/attention/ops/`](https://github.com/vllm-project/vllm/tree/main/vllm/v1/attention/ops):
#
# - `kernel_paged_attention_2d` in `chunked_prefill_paged_decode.py`, for AMD GPUs, is today's kernel with other names:
#   `seq_idx` and `kv_head_idx` from the grid's two axes, a group padded to 16 rows, `head_mask` and `dim_mask`, the
#   table looked up for each token, `kv_load_mask` on the loads, then `M`, `L` and `acc`. Its tile is independent of the
#   block as well: a comment names Qwen3-Next, whose blocks have 544 tokens.
# - `kernel_unified_attention` in `triton_unified_attention.py` serves prompts and decode steps at once. The programs of
#   its grid divide *query tokens* and KV heads, and a long sequence is cut into segments: tomorrow's subject.

# %% [markdown]
# ## Recap
#
# <details><summary><b>Why does one program serve all query heads of a group?</b></summary>
#
# They read the same keys and values, and reading is what costs. With a program for each query head, each key would be
# fetched GROUP times.
#
# </details>
#
# <details><summary><b>Why is the tile independent of the block?</b></summary>
#
# A tile suits registers and tensor cores; a block suits the allocator. With a look-up for each token, any block size
# works, and no tile has to change with it.
#
# </details>
#
# <details><summary><b>The scores are masked. Why must the loads be masked too?</b></summary>
#
# A masked score makes the weight 0, and 0 times NaN is NaN. And behind the sequence's last block the table names no
# block: the address itself would be wrong.
#
# </details>
#
# **Tomorrow** the kernel goes into the engine, behind `attend`; and a single long sequence, which today keeps three
# programs busy, is split among many.
