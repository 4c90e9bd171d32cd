# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Day 19 · The first Triton kernels
#
# A kernel is a function that a GPU runs many times at once. Today you write three of them in
# [Triton](https://triton-lang.org): a copy, a sum, and the gather through a block table. No GPU is needed, and you see
# which program touched which element.
#
# *About 60 minutes. You need a little PyTorch, and nothing about GPUs.*

# %% [markdown]
# ## Setup

# %% tags=["setup"]

# %%
from nanoserve.course.kernels import AccessView, compiled, launch, triton_day

triton_day()

# %% [markdown]
# ## Where we are
#
# On Day 18 a Python loop reads the blocks where they lie, one after the other. A GPU can run many copies of a
# function at once, one for each block. Who tells each copy which block is its own?
#
# Nobody does. Every copy, a **program**, runs the same lines; it asks for its number, and works out from it what to
# do. A launch names the kernel, the **grid** (how many programs there are) and the arguments.
#
# `launch` runs the programs one after the other in Triton's interpreter, which is slow and gives a GPU's values, up
# to rounding. It has a process of its own, so a wrong address is an error message and not a crash. A print begins
# with the program's place in the grid: (2, 0, 0) is program 2 of a grid with one axis.

# %%
import torch
import triton
import triton.language as tl


@triton.jit
def hello_kernel(x_ptr):
    program = tl.program_id(0)
    tl.device_print("I am program", program)


# Where there is a GPU, this is written hello_kernel[(3,)](torch.zeros(1, device="cuda")).
done = launch(hello_kernel, (3,), torch.zeros(1))

# %% [markdown]
# ## Predict
#
# 17 elements are copied in blocks of 8, so 3 programs start, with 8 **lanes** each. How many of the 24 lanes must not
# touch memory at all? Write down your guess; *See* answers.

# %%
guess = None  # a number of lanes

# %% [markdown]
# ## Build
#
# Three kernels, and before each the part of Triton that it needs.
#
# ### Lanes
#
# A program does not work on one number but on a block of them. `tl.arange(0, BLOCK)` is the block 0, 1, … BLOCK - 1,
# one number for each lane. Together with the program's number it says which elements are this program's own.


# %%
@triton.jit
def lanes_kernel(x_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_print("my elements", at)


done = launch(lanes_kernel, (3,), torch.zeros(1), BLOCK=4)

# %% [markdown]
# `BLOCK` is a `tl.constexpr`: a number that the compiler knows. How many lanes there are is built into the machine
# code, and it must be a power of two. Anything else is refused:

# %%
done = launch(lanes_kernel, (3,), torch.zeros(1), BLOCK=6)

# %% [markdown]
# ### Pointers
#
# A tensor arrives as the address of its first element. `x_ptr + at` is a block of addresses, one for each lane;
# `tl.load` fetches what they point to, and `tl.store` writes. There is no `x[at]`, no shape and no stride: the kernel
# knows only what it is given. PyTorch, NumPy and `@` are not there either: a kernel's functions begin with `tl.`, and
# arithmetic and comparisons work lane by lane.


# %%
@triton.jit
def double_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, 2 * x)


def unwritten(*shape):
    return torch.full(shape, torch.nan)


x, y = torch.arange(16.0), unwritten(16)
done = launch(double_kernel, (2,), x, y, BLOCK=8)
print(y.tolist())
AccessView(done)

# %% [markdown]
# Each cell is an element, and the number in it is the program that touched it. Move the slider to highlight one
# program.
#
# Now with one element more, and a third program for it:

# %%
x, y = torch.arange(17.0), unwritten(17)
done = launch(double_kernel, (3,), x, y, BLOCK=8)
AccessView(done)

# %% [markdown]
# The red lanes read behind the end of `x`. A GPU does not say so: it reads what happens to lie there, or, much later
# and in another place, reports an “illegal memory access”.
#
# ### Masks
#
# Lanes cannot take different branches, but each load and store takes a `mask`, a block of true and false. A lane whose
# mask is false does not touch memory. Two masks are joined by `&`, lane by lane, with brackets around each comparison:
# `(at >= 0) & (at < n)`. Python's `and` does not do that: in the interpreter it takes one of the two.


# %%
@triton.jit
def mask_kernel(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_print("inside", at < n)


done = launch(mask_kernel, (3,), torch.zeros(1), 17, BLOCK=8)

# %% [markdown]
# {task 19.1}
#
# Copy `x` to `y`, whatever `n` is. `check` runs your kernel on inputs made to expose one slip each, and compiles it
# as well, since the compiler refuses things that the interpreter accepts. In its messages, `·` is a NaN: outputs are
# full of NaN before the launch, so most often nothing was written there.
#
# <details><summary><b>Hint</b></summary>
#
# Four lines: the block of places, the mask, a masked load, a masked store.
#
# </details>

# %% task="19.1"

# %% [markdown]
# ### What a masked lane holds
#
# A lane that was masked out has loaded nothing. What does it hold? On a GPU it may be anything. Here it is NaN, or
# 77777 in int32 and int64, so that you see when it is used; `other` says what it should be.


# %%
@triton.jit
def total_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + at, mask=at < n)))
    tl.store(y_ptr + 1, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0)))


for dtype in (torch.float32, torch.int32):
    y = torch.zeros(2, dtype=dtype)
    done = launch(total_kernel, (1,), torch.ones(5, dtype=dtype), y, 5, BLOCK=8)
    print(f"the sum of five ones in {dtype}: {y[0]:g} without other, {y[1]:g} with other=0.0")
print("5 + 3 * 77777 =", 5 + 3 * 77777)

# %% [markdown]
# {task 19.2}
#
# One program sums one row. A row may be longer than a block: then the program walks over it, block by block. A Python
# loop over a `range` does that in a kernel too, and its bounds may be arguments. `tl.zeros([BLOCK], tl.float32)` is a
# block of zeros to add to, and `tl.sum` makes one number of a block. A shape is a list, so it has brackets, even with
# one axis. There are also `tl.cdiv(a, b)`, which divides and rounds up, and `tl.num_programs(0)`, how many programs
# there are. Between two rows there may be a gap: `row_stride` says how far apart they begin.
#
# <details><summary><b>Hint</b></summary>
#
# `for start in range(0, columns, BLOCK):` and, in it, the places `start + tl.arange(0, BLOCK)` of the row. Keep the
# sum in fp32: add each block to the zeros, and sum the lanes at the end. `tl.sum` of an fp16 block would be fp16.
#
# </details>

# %% task="19.2"

# %% [markdown]
# ### Two dimensions
#
# A key is not a number but a row of them. `rows[:, None]` stands a block up as a column, and `column + row` spreads to
# a **tile**, as in PyTorch: a lane for each pair. The memory stays flat: row r begins at `r * DIM`.


# %%
@triton.jit
def tile_kernel(y_ptr, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, DIM_PAD)
    places = rows[:, None] * DIM + dims[None, :]
    tl.store(y_ptr + places, 10.0 * rows[:, None] + dims[None, :], mask=(dims < DIM)[None, :])


y = unwritten(4, 3)
done = launch(tile_kernel, (2,), y, DIM=3, DIM_PAD=4, TILE=2)
print(y.int().tolist())
AccessView(done)

# %% [markdown]
# {task 19.3}
#
# This is the gather of Day 16, and half of Day 20's kernel. A sequence's token p lies in block `table[p //
# block_size]`, at offset `p % block_size`. Each program fetches `TILE` tokens, which may stretch over several blocks;
# a token is a row of `DIM` numbers, and 80 or 192 is no power of two, hence `DIM_PAD`.
#
# One thing that small tests never show: block ids come as int32, and int32 times int32 stays int32. A pool on a GPU may
# have more than 2**31 numbers. `.to(tl.int64)` widens a block of integers.
#
# <details><summary><b>Hint</b></summary>
#
# From the token to the entry, to the block's id, to the slot, to the row's first number. The load from the table needs
# a mask of its own: behind the last token there may be no entry.
#
# </details>

# %% task="19.3"

# %% [markdown]
# ## See
#
# Your kernels at work. First the answer to *Predict*:

# %%
x, y = torch.arange(17.0), unwritten(17)
done = launch(copy_kernel, (3,), x, y, 17, BLOCK=8)
idle = 3 * 8 - sum(len(access.elements) for access in done.accesses if access.kind == "write")
print(f"{idle} of 24 lanes are masked out" + (f", and you guessed {guess}" if guess is not None else ""))
AccessView(done)

# %% [markdown]
# Then the gather: five tokens of 3 numbers, in blocks of 2. The table says 2, 0, 3. Which rows of the pool does nobody
# read?

# %%
pool = torch.arange(24.0).view(4, 2, 3)  # blocks, slots, numbers
table = torch.tensor([2, 0, 3], dtype=torch.int32)
out = unwritten(5, 3)
done = launch(gather_kernel, (3,), pool, table, out, 5, 2, DIM=3, DIM_PAD=4, TILE=2)
AccessView(done)

# %% [markdown]
# Take a mask out of your kernel, or let all programs store at the same place, and look again. Programs that write
# different values to one element are reported as well: here one runs after the other, and on a GPU nobody knows which
# comes last.

# %% [markdown]
# ## Prove
#
# First against PyTorch's own indexing, over sequences, block sizes and widths drawn at random. `triton.cdiv` divides
# and rounds up, which gives the number of programs. `triton.next_power_of_2` rounds a width up to what a tile may
# have.

# %%
import random

rng, cases = random.Random(19), 12
for _ in range(cases):
    tokens, block_size, dim = rng.randrange(1, 60), rng.choice([1, 3, 16]), rng.choice([5, 64, 80, 96])
    pool = torch.randn(64, block_size, dim).half()
    table = torch.tensor(rng.sample(range(64), -(-tokens // block_size)), dtype=torch.int32)
    out = unwritten(tokens, dim).half()
    sizes = {"DIM": dim, "DIM_PAD": triton.next_power_of_2(dim), "TILE": 16}
    launch(gather_kernel, (triton.cdiv(tokens, 16),), pool, table, out, tokens, block_size, **sizes)
    assert torch.equal(out, pool[table.long()].flatten(0, 1)[:tokens])
print(f"{cases} sequences, each equal to pool[table]")

# %% [markdown]
# Then on the real thing. SmolLM2 reads a prompt into a paged cache, and your kernel fetches the keys of its first
# layer: 3 heads of 64, so 192 numbers a token. Hugging Face transformers reads the same prompt into a cache of its
# own.

# %%
from nanoserve import BlockTable, KVPool, PagedKVCache, encode_chat, load_model, load_tokenizer
from nanoserve.course.oracle import transformers_keys

model, tokenizer = load_model(), load_tokenizer()
prompt = torch.tensor([encode_chat(tokenizer, "Where do keys and values lie?")])
kv_pool = KVPool.for_model(model, num_blocks=16, block_size=8)
BlockTable(kv_pool.allocator).append(20)  # the first blocks are somebody else's
cache = PagedKVCache(kv_pool)
with torch.inference_mode():
    model(prompt, cache)

keys = unwritten(cache.seq_len, 192)
table = torch.tensor(cache.table.block_ids, dtype=torch.int32)
sizes = {"DIM": 192, "DIM_PAD": 256, "TILE": 16}
launch(gather_kernel, (triton.cdiv(cache.seq_len, 16),), kv_pool.k[0], table, keys, cache.seq_len, 8, **sizes)
print(f"blocks {cache.table.block_ids}, {cache.seq_len} tokens")
theirs = transformers_keys(prompt[0], layer=0)  # (3, tokens, 64)
torch.testing.assert_close(keys.view(-1, 3, 64).transpose(0, 1), theirs, rtol=1e-4, atol=1e-4)
print("each key is transformers' key")

# %% [markdown]
# Last the compiler. The interpreter shows that the values are right, but it accepts things that no GPU would.
# `compiled` makes machine code of your kernel for GPUs that need not be there: a T4 (7.5), an A100 (8.0), an H100
# (9.0).

# %% tags=["nbval-ignore-output"]
for capability in [(7, 5), (8, 0), (9, 0)]:
    code = compiled(gather_kernel, capability, kv_pool.k[0].half(), table, keys.half(), 40, 8, **sizes)
    print(f"{capability[0]}.{capability[1]}: {code.registers} registers a thread, {code.spilled} bytes spilled")

# %% [markdown]
# A thread has [255 registers at most](https://docs.nvidia.com/cuda/hopper-tuning-guide/). What does not fit is
# *spilled* to memory, and a kernel that spills is a slow one.

# %% [markdown]
# ## Measure
#
# The interpreter's time says nothing about a GPU's. But you will wait for it, so its shape is worth knowing: the same
# 65,536 elements are copied by many programs with small blocks, and by few with large ones.

# %% tags=["nbval-ignore-output"]
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator

x, blocks, seconds = torch.arange(65_536.0), [2**power for power in range(7, 17)], []
for block in blocks:
    done = launch(copy_kernel, (65_536 // block,), x, unwritten(65_536), 65_536, BLOCK=block, keeps=False, seconds=5)
    seconds.append(done.seconds)
    if done.error:  # a kernel that goes lane by lane takes too long, whatever its blocks
        break

figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.loglog(blocks[: len(seconds)], [1e3 * second for second in seconds], color="#0072b2", marker="o", base=2)
axes.set_yscale("log", base=10)
axes.set_xticks(blocks[::3], [f"{block:,}" for block in blocks[::3]])
axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
axes.yaxis.set_major_formatter("{x:g}")
axes.minorticks_off()
axes.set(xlabel="elements a program copies", ylabel="ms for 65,536 elements")
axes.set_title("In the interpreter, few large programs are the fastest")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
if not done.error:
    print(f"{65_536 // blocks[0]} programs: {1e3 * seconds[0]:.0f} ms; 1 program: {1e3 * seconds[-1]:.0f} ms")

# %% [markdown]
# On the left, half as many programs take about half the time: what costs is a program and each of its lines, which the
# interpreter runs one by one. On the right the curve flattens: what is left is the launch and the elements themselves.
# So in the interpreter: few programs, large tiles. (A GPU wants neither extreme. It wants enough programs for all of
# its multiprocessors, and tiles that fit into registers.)

# %% [markdown]
# ## Break
#
# This gather has a fault, and passes every test with a pool that fits on a laptop. Here it agrees with yours:

# %%
from nanoserve.course.exercises.day19.planted import suspect_kernel

pool = torch.randn(64, 16, 80)
table = torch.tensor(rng.sample(range(64), 3), dtype=torch.int32)
mine, suspect = unwritten(40, 80), unwritten(40, 80)
sizes = {"DIM": 80, "DIM_PAD": 128, "TILE": 64}
for kernel, out in [(gather_kernel, mine), (suspect_kernel, suspect)]:
    launch(kernel, (1,), pool, table, out, 40, 16, **sizes)
print(torch.equal(mine, suspect))

# %% [markdown]
# Here is one block of a pool as large as a GPU's. Only that block is really there, which is enough for a kernel that
# looks nowhere else.

# %%
from nanoserve.course.kernels.jobs import Window

block_id = 1_690_000
window = Window(torch.randn(1, 16, 80), first=block_id * 16 * 80)
print(f"block {block_id:,} of 16 tokens of 80 numbers; {window.first:,} numbers lie before it")
table = torch.tensor([block_id], dtype=torch.int32)
for kernel in (gather_kernel, suspect_kernel):
    out = unwritten(16, 80)
    print(f"{kernel.__name__}:")
    done = launch(kernel, (1,), window, table, out, 16, 16, **sizes)
    print(torch.equal(out, window.tensor[0]))

# %%
line = None  # which line of `suspect_kernel` would you change, and how?
print("no suspicion yet" if line is None else f"you suspect: {line}")

# %% [markdown]
# <details><summary><b>The answer</b></summary>
#
# The element is negative: the place wrapped round. 2,163,200,000 numbers lie before the block, and an int32 ends at
# 2**31 - 1 = 2,147,483,647. The table holds int32, `block_size` is an int32, and so is all that is worked out from
# them. Widen the ids, before anything is multiplied:
#
# ```python
# block_ids = tl.load(table_ptr + tokens // block_size, mask=held, other=0).to(tl.int64)
# ```
#
# vLLM had it in its decode kernel until July 2026 ([pull request
# 47671](https://github.com/vllm-project/vllm/pull/47671)): from block 7,767 or so on, a request crashed, and the error
# named a kernel that had nothing to do with it.
#
# </details>

# %% [markdown]
# ## In a real engine
#
# vLLM keeps its Triton kernels for attention in
# [`vllm/v1/attention/ops/`](https://github.com/vllm-project/vllm/tree/main/vllm/v1/attention/ops). Two of them you can
# read now:
#
# - `reshape_and_cache_kernel_flash` in `triton_reshape_and_cache_flash.py` writes new keys and values into their
#   slots: your gather the other way round, with a program for each token and tile. Its first lines load a slot and
#   make it int64; a negative slot is padding, and the program returns at once.
# - `kernel_unified_attention` in `triton_unified_attention.py` has your three lines in its loop: the load from the
#   block table at `seq_offset // BLOCK_SIZE`, `.to(tl.int64)`, and the offset `seq_offset % BLOCK_SIZE`. What it does
#   with the rows is tomorrow's work.

# %% [markdown]
# ## Recap
#
# <details><summary><b>Why does a load need `other`, if the masked lanes are never stored?</b></summary>
#
# Often it does not: a copy masks the store as well. But a sum, a maximum or a product takes all lanes, and the masked
# ones hold whatever was in their registers. In Triton's interpreter that is 0, which hides the slip; here it is NaN.
#
# </details>
#
# <details><summary><b>Why must a tile be a power of two, when the head is 80 wide?</b></summary>
#
# The compiler deals the lanes of a tile out to threads in equal parts, and powers of two always divide. So the tile is
# padded to 128, and the mask hides the 48 lanes too many. The memory is not padded: rows lie 80 apart.
#
# </details>
#
# <details><summary><b>Two programs store different values at one place, and every test passes. How?</b></summary>
#
# In the interpreter one program runs after the other, and the last one's value stays, every time. On a GPU they run at
# once. Each place of an output belongs to exactly one program: that is the first thing to settle about a kernel.
#
# </details>
#
# **Tomorrow** the rows are no longer copied: the kernel scores them against a query where they lie, and keeps for
# each head the three things that Day 18 keeps.
