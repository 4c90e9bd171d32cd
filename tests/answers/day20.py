"""Day 20: what people write in place of the decode kernel and its parts, and right answers of other styles.

A wrong answer is the reference with one place changed, as a learner would have it who sees all else.
"""

import linecache
import math
from textwrap import indent

import torch
import triton
import triton.language as tl

from nanoserve.course.tasks import find
from nanoserve.kernels.paged_decode import fold, my_tokens, scores, store_lse, token_offsets
from tests.answers import Right, Wrong

BLOCK_SIZE = 2
NAMES = {
    "math": math,
    "torch": torch,
    "triton": triton,
    "tl": tl,
    "token_offsets": token_offsets,
    "scores": scores,
    "fold": fold,
    "my_tokens": my_tokens,
    "store_lse": store_lse,
    "BLOCK_SIZE": BLOCK_SIZE,
    "SIZES": [BLOCK_SIZE],
}


def changed(task_id: str, slip: str, *changes: tuple[str, str]) -> Wrong:
    """The task's reference with each `(old, new)` replaced, which must stand there exactly once."""
    task = find(task_id)
    source = task.answer()
    for old, new in changes:
        assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {task.name}"
        source = source.replace(old, new)
    name, file = slip.replace("-", "_"), f"<{task_id} {slip}>"
    source = source.replace(f"def {task.name}(", f"def {name}(")
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = {"__name__": __name__, **NAMES}
    exec(compile(source, file, "exec"), namespace)
    return Wrong(task_id, slip, namespace[name])


LOOKUP = "tl.load(table_ptr + tokens // block_size, mask=held, other=0).to(tl.int64)"
OFFSETS = "block_ids * block_stride + (tokens % block_size) * token_stride"

WRONG_OFFSETS = [
    changed("20.1", "no-return", (f"return {OFFSETS}", f"offsets = {OFFSETS}")),
    changed("20.1", "index-for-id", (LOOKUP, "(tokens // block_size).to(tl.int64)")),
    changed("20.1", "stride-forgotten", ("block_ids * block_stride", "block_ids")),
    changed("20.1", "token-forgotten", (f"return {OFFSETS}", "return block_ids * block_stride")),
    changed("20.1", "slot-for-offset", (OFFSETS, "block_ids * block_size + tokens % block_size")),
    changed("20.1", "strides-swapped", (OFFSETS, "block_ids * token_stride + (tokens % block_size) * block_stride")),
    changed("20.1", "bytes", (OFFSETS, f"4 * ({OFFSETS})")),
    changed("20.1", "token-for-entry", ("table_ptr + tokens // block_size", "table_ptr + tokens")),
    changed("20.1", "if-on-a-vector", (f"    return {OFFSETS}", f"    if held:\n        pass\n    return {OFFSETS}")),
    changed(
        "20.1",
        "plain-global",
        ("tokens // block_size", "tokens // BLOCK_SIZE"),
        ("tokens % block_size", "tokens % BLOCK_SIZE"),
    ),
    changed(
        "20.1",
        "not-compiled",
        (f"    block_ids = {LOOKUP}", f"    lookups = []\n    lookups.append({LOOKUP})\n    block_ids = lookups[0]"),
    ),
    changed("20.1", "offset-not-reduced", ("(tokens % block_size) * token_stride", "tokens * token_stride")),
    changed(
        "20.1",
        "counted-on",
        (LOOKUP, "tl.load(table_ptr).to(tl.int64)"),
        ("(tokens % block_size) * token_stride", "tokens * token_stride"),
    ),
    changed("20.1", "one-entry-for-all", (LOOKUP, "tl.load(table_ptr).to(tl.int64)")),
    changed("20.1", "wrong-offsets", ("(tokens % block_size)", "(block_size - 1 - tokens % block_size)")),
    changed("20.1", "wrong-tile", ("tokens // block_size", "tl.minimum(tokens // block_size, 1)")),
    changed("20.1", "table-not-masked", (", mask=held, other=0", "")),
    changed("20.1", "size-written-in", ("tokens // block_size", "tokens // 2"), ("tokens % block_size", "tokens % 2")),
    changed("20.1", "stride-from-the-size", ("block_ids * block_stride", "block_ids * block_size * token_stride")),
    changed("20.1", "int32", (".to(tl.int64)", ""), (f"return {OFFSETS}", f"return ({OFFSETS}).to(tl.int64)")),
    changed("20.1", "counted-in-floats", ("block_ids * block_stride", "block_ids.to(tl.float32) * block_stride")),
    changed("20.1", "program-counted", ("tokens // block_size", "tl.program_id(0) + tokens // block_size")),
    changed("20.1", "indexed", (LOOKUP, "table_ptr[tokens // block_size].to(tl.int64)")),
    changed("20.1", "shape-of-a-pointer", ("mask=held", "mask=tokens // block_size < table_ptr.shape[0]")),
    changed("20.1", "other-sizes", ("tokens // block_size", "tl.minimum(tokens // block_size, 4)")),
    changed("20.1", "address-for-id", (LOOKUP, "(table_ptr + tokens // block_size).to(tl.int64)")),
    changed("20.1", "other-return", (OFFSETS, OFFSETS.replace(" + ", ", "))),
    changed("20.1", "host-function", ("tokens // block_size", "triton.cdiv(tokens + 1, block_size) - 1")),
    changed("20.1", "float-in-a-pointer", ("tokens // block_size", "tokens / block_size")),
    changed("20.1", "no-pointer", ("table_ptr + tokens // block_size", "tokens // block_size")),
    changed("20.1", "outside-the-kernel", ("tokens // block_size", "tokens // SIZES[0]")),
    changed("20.1", "print-without-a-text", ("    return", "    print(block_ids)\n    return")),
]

DOT_SCORES = "tl.dot(q, tl.trans(k))"
SUM = "tl.sum(q.to(tl.float32)[:, None, :] * k.to(tl.float32)[None, :, :], axis=2)"
MASKED = 'tl.where(held[None, :], products * scale, float("-inf"))'

WRONG_SCORES = [
    changed("20.2", "no-return", (f"return {MASKED}", f"s = {MASKED}")),
    changed("20.2", "wrong-axis", ("axis=2", "axis=1")),
    changed("20.2", "not-transposed", (SUM, "tl.sum(q.to(tl.float32)[:, :, None] * k.to(tl.float32)[None], axis=1)")),
    changed("20.2", "exp-already", (MASKED, "tl.exp(products * scale)")),
    changed("20.2", "softmax-already", (MASKED, "tl.softmax((products * scale).trans()).trans()")),
    changed("20.2", "wrong-scores", ("products * scale", "tl.maximum(products * scale, 0.0)")),
    changed("20.2", "wrong-shape", ("held[None, :]", "held[:, None]")),
    changed("20.2", "if-on-a-vector", (f"    return {MASKED}", f"    if held:\n        pass\n    return {MASKED}")),
    changed("20.2", "plain-global", (f"    return {MASKED}", f"    size = BLOCK_SIZE\n    return {MASKED}")),
    changed(
        "20.2",
        "not-compiled",
        (f"    return {MASKED}", f"    parts = [products]\n    parts.append(products)\n    return {MASKED}"),
    ),
    changed("20.2", "dot-always", (SUM, "tl.dot(q, tl.trans(k))")),
    changed("20.2", "no-scale", ("products * scale", "products")),
    changed("20.2", "scale-of-its-own", ("products * scale", "products / tl.sqrt(1.0 * q.shape[1])")),
    changed("20.2", "divided-by-the-scale", ("products * scale", "products / scale")),
    changed("20.2", "scaled-twice", ("products * scale", "products * scale * scale")),
    changed("20.2", "scores-in-16-bits", (MASKED, f"({MASKED}).to(tl.float16)")),
    changed("20.2", "mask-added", (MASKED, 'products * scale + tl.where(held[None, :], 0.0, float("-inf"))')),
    changed("20.2", "not-in-bf16", ("tl.dot(q, tl.trans(k))", "tl.dot(q.to(tl.float16), tl.trans(k).to(tl.float16))")),
    changed("20.2", "not-masked", (MASKED, "products * scale")),
    changed("20.2", "masked-with-zero", ('float("-inf")', "0.0")),
    changed("20.2", "masked-with-a-number", ('float("-inf")', "-1e9")),
    changed("20.2", "masked-the-wrong-way-round", ("held[None, :]", "(held == 0)[None, :]")),
    changed("20.2", "masked-with-plus-infinity", ('float("-inf")', 'float("inf")')),
    changed("20.2", "wrong-mask", ('float("-inf")', 'float("nan")')),
    changed("20.2", "multiplied-in-half", (SUM, "tl.sum(q[:, None, :] * k[None, :, :], axis=2)")),
    changed("20.2", "dot-not-transposed", ("tl.dot(q, tl.trans(k))", "tl.dot(q, k)")),
    changed("20.2", "wrong-dot", ("tl.dot(q, tl.trans(k))", "tl.dot(q, tl.trans(k)) * scale")),
    changed(
        "20.2",
        "tf32-by-the-order",
        (SUM, "tl.sum(q.to(tl.float32)[:, :, None] * tl.trans(k.to(tl.float32))[None, :, :], axis=1)"),
    ),
    changed("20.2", "dot-in-half", ("tl.dot(q, tl.trans(k))", "tl.dot(q, tl.trans(k)).to(q.dtype)")),
    changed("20.2", "matrix-product", (SUM, "q @ k.T")),
    changed("20.2", "torch-in-a-kernel", ("return tl.where", "return torch.where")),
    changed("20.2", "made-bf16", (DOT_SCORES, f"{DOT_SCORES}.to(tl.bfloat16)")),
    changed("20.2", "made-in-16-bits", (DOT_SCORES, f"{DOT_SCORES}.to(tl.bfloat16).to(tl.float32)")),
    changed("20.2", "unknown-function", ('float("-inf")', "-tl.inf")),
    changed("20.2", "one-branch-only", (f"    else:\n        products = {SUM}\n", "")),
    changed("20.2", "other-return", (MASKED, f"{MASKED}, scale")),
    changed("20.2", "dot-ignored", ("tl.dot(q, tl.trans(k))", SUM)),
    changed("20.2", "other-sizes", (SUM, SUM.replace("q.to", "tl.where(tl.arange(0, q.shape[1]) < 16, q, 0.0).to"))),
]

RETURNED = "return new_largest, total * shrink + tl.sum(weights, axis=1), mixed * shrink[:, None] + product"
PRODUCT = "tl.sum(v.to(tl.float32)[None, :, :] * weights[:, :, None], axis=1)"
NEW = "tl.maximum(largest, tl.max(s, axis=1))"
SHRINK = "shrink = tl.exp(largest - new_largest)"
WEIGHTS = "weights = tl.exp(s - new_largest[:, None])"

WRONG_FOLDS = [
    changed("20.3", "not-three", (RETURNED, RETURNED.replace("return", "result ="))),
    changed("20.3", "no-maximum", (WEIGHTS, "weights = tl.exp(s)")),
    changed("20.3", "one-maximum-for-all-heads", (NEW, "tl.maximum(largest, tl.max(s))")),
    changed("20.3", "no-exp", (WEIGHTS, "weights = s - new_largest[:, None]")),
    changed("20.3", "softmax-of-the-tile", (WEIGHTS, f"{WEIGHTS}\n    weights /= tl.sum(weights, axis=1)[:, None]")),
    changed(
        "20.3",
        "divided-in-every-tile",
        (RETURNED, RETURNED.replace("mixed *", "(mixed *") + ") / (total * shrink + tl.sum(weights, axis=1))[:, None]"),
    ),
    changed("20.3", "values-unweighted", (PRODUCT, "tl.sum(v.to(tl.float32), axis=0)[None, :]")),
    changed("20.3", "wrong-axis", (PRODUCT, PRODUCT.replace("axis=1", "axis=2"))),
    changed(
        "20.3",
        "other-order",
        (
            "return new_largest, total * shrink + tl.sum(weights, axis=1),",
            "return total * shrink + tl.sum(weights, axis=1), new_largest,",
        ),
    ),
    changed("20.3", "total-of-all-heads", ("tl.sum(weights, axis=1)", "tl.sum(weights)")),
    changed("20.3", "total-down-the-heads", ("tl.sum(weights, axis=1)", "tl.sum(weights, axis=0)")),
    changed("20.3", "wrong-shape", ("mixed * shrink[:, None]", "mixed * shrink")),
    changed("20.3", "other-first-tile", (WEIGHTS, "weights = tl.exp2(s - new_largest[:, None])")),
    changed("20.3", "if-on-a-vector", (f"    {SHRINK}", f"    if largest < new_largest:\n        pass\n    {SHRINK}")),
    changed("20.3", "plain-global", (f"    {SHRINK}", f"    size = BLOCK_SIZE\n    {SHRINK}")),
    changed("20.3", "not-compiled", (f"    {SHRINK}", f"    known = []\n    known.append(total)\n    {SHRINK}")),
    changed(
        "20.3", "type-changes", (RETURNED, RETURNED.replace("return new_largest", "return new_largest.to(tl.float64)"))
    ),
    changed("20.3", "dot-always", (PRODUCT, "tl.dot(weights.to(v.dtype), v)")),
    changed("20.3", "neither-shrinks", (SHRINK, "shrink = tl.exp(largest - largest)")),
    changed("20.3", "mixed-does-not-shrink", ("mixed * shrink[:, None]", "mixed")),
    changed("20.3", "total-does-not-shrink", ("total * shrink", "total")),
    changed("20.3", "shrinks-upside-down", (SHRINK, "shrink = tl.exp(tl.minimum(new_largest - largest, 80.0))")),
    changed(
        "20.3",
        "new-ones-shrink-too",
        (
            RETURNED,
            "return new_largest, (total + tl.sum(weights, axis=1)) * shrink, (mixed + product) * shrink[:, None]",
        ),
        (SHRINK, "shrink = tl.where(total == 0, 1.0, tl.exp(largest - new_largest))"),
    ),
    changed("20.3", "forgets-the-past", (RETURNED, "return new_largest, tl.sum(weights, axis=1), product")),
    changed(
        "20.3",
        "old-maximum",
        (
            f"    {SHRINK}",
            "    reference = tl.where(total == 0, new_largest, largest)\n    shrink = tl.exp(largest - reference)",
        ),
        (WEIGHTS, "weights = tl.exp(s - reference[:, None])"),
    ),
    changed(
        "20.3", "old-maximum-returned", ("return new_largest", "return tl.where(total == 0, new_largest, largest)")
    ),
    changed("20.3", "other-second-tile", (SHRINK, "shrink = tl.exp2(largest - new_largest)")),
    changed("20.3", "maximum-of-the-tile", (NEW, "tl.max(s, axis=1)")),
    changed("20.3", "shrinks-by-the-tile", (WEIGHTS, "weights = tl.exp(s - tl.max(s, axis=1)[:, None])")),
    changed(
        "20.3",
        "nan-from-inf",
        (f"    {SHRINK}", f"    new_largest = tl.where(total == 0, tl.max(s, axis=1), new_largest)\n    {SHRINK}"),
    ),
    changed(
        "20.3",
        "maximum-set-to-0",
        (f"    {SHRINK}", f"    new_largest = tl.where(new_largest == -1e30, 0.0, new_largest)\n    {SHRINK}"),
    ),
    changed(
        "20.3",
        "masked-tile-counts",
        (WEIGHTS, 'weights = tl.where(s == float("-inf"), 1e-3, tl.exp(s - new_largest[:, None]))'),
    ),
    changed("20.3", "summed-in-half", (PRODUCT, "tl.sum(v[None, :, :] * weights.to(v.dtype)[:, :, None], axis=1)")),
    changed("20.3", "dot-of-two-types", ("tl.dot(weights.to(v.dtype), v)", "tl.dot(weights, v)")),
    changed(
        "20.3",
        "wrong-dot",
        ("tl.dot(weights.to(v.dtype), v)", "tl.dot(weights.to(v.dtype), v) / tl.sum(weights, axis=1)[:, None]"),
    ),
    changed("20.3", "not-in-bf16", ("weights.to(v.dtype)", "weights.to(tl.float16)")),
    changed(
        "20.3",
        "tf32-by-the-order",
        (PRODUCT, "tl.sum(weights[:, :, None] * v.to(tl.float32)[None, :, :], axis=1)"),
    ),
    changed("20.3", "dot-in-half", ("tl.dot(weights.to(v.dtype), v)", "tl.dot(weights.to(v.dtype), v).to(v.dtype)")),
    changed("20.3", "matrix-product", (PRODUCT, "weights @ v")),
    changed("20.3", "torch-in-a-kernel", ("tl.max(s, axis=1)", "s.amax(1)")),
    changed("20.3", "one-choice-for-all-heads", (NEW, "max(largest, tl.max(s, axis=1))")),
    changed("20.3", "total-in-half", ("    if DOT:\n", "    if DOT:\n        weights = weights.to(v.dtype)\n")),
    changed("20.3", "one-number-wanted", (SHRINK, SHRINK.replace("tl.exp", "math.exp"))),
    changed("20.3", "axis-out-of-bounds", (NEW, "tl.max(largest, tl.max(s, axis=1))")),
    changed("20.3", "maximum-down-the-heads", ("tl.max(s, axis=1)", "tl.max(s, axis=0)")),
    changed("20.3", "largest-across", (WEIGHTS, "weights = tl.exp(s - new_largest)")),
    changed("20.3", "other-return", (RETURNED, "return mixed * shrink[:, None] + product, total, new_largest")),
    changed(
        "20.3",
        "made-in-16-bits",
        ("tl.dot(weights.to(v.dtype), v)", "tl.dot(weights.to(v.dtype), v).to(tl.bfloat16)"),
    ),
    changed("20.3", "dot-ignored", ("tl.dot(weights.to(v.dtype), v)", PRODUCT)),
    changed(
        "20.3",
        "other-sizes",
        (WEIGHTS, "weights = tl.where(s < new_largest[:, None] - 9, 0.0, tl.exp(s - new_largest[:, None]))"),
    ),
]

HEADS = "heads = kv_head * GROUP + member"
BEGIN = """    largest = tl.full([GROUP_PAD], -1e30, tl.float32)
    total = tl.zeros([GROUP_PAD], tl.float32)
    mixed = tl.zeros([GROUP_PAD, DIM_PAD], tl.float32)
"""
LOOP = "for start in tl.range(first, end, TILE):"
ROWS = "token_offsets(table_ptr + batch * table_stride, tokens, held, block_size, block_stride, token_stride)"
FETCHED = "held[:, None] & (dims < DIM)[None, :]"
LOAD_V = "v = tl.load(v_ptr + at, mask=fetched, other=0.0)"
OUT_AT = "out_ptr + batch * out_batch_stride + heads[:, None] * out_head_stride + split * out_split_stride"
STORE = "    tl.store(out_at + dims[None, :], attended, mask=wanted)\n"
LSE = "    store_lse(lse_ptr, heads, largest, total, GROUP)\n"
ATTENDED = "attended = mixed / tl.where(total == 0, 1.0, total)[:, None]"
FOLDED = "fold(scores(q, k, held, scale, DOT), v, largest, total, mixed, DOT)"

WRONG_KERNELS = [
    changed("20.4", "nothing-stored", (STORE, "")),
    changed("20.4", "not-divided", (ATTENDED, "attended = mixed")),
    changed("20.4", "scale-left-out", ("held, scale, DOT", "held, 1.0, DOT")),
    changed("20.4", "keys-for-values", (LOAD_V, LOAD_V.replace("v_ptr", "k_ptr"))),
    changed("20.4", "values-for-keys", ("k = tl.load(k_ptr", "k = tl.load(v_ptr")),
    changed("20.4", "last-token-left-out", ("held = tokens < end", "held = tokens < end - 1")),
    changed(
        "20.4",
        "one-too-far",
        ("held = tokens < end", "held = tokens <= end"),
        ("tl.range(first, end, TILE)", "tl.range(first, end + 1, TILE)"),
    ),
    changed("20.4", "wrong-attention", (ATTENDED, "attended = mixed / (total + 1.0)[:, None]")),
    changed("20.4", "not-compiled", (LOOP, f"{LOOP}\n        if start > 1000000:\n            break")),
    changed("20.4", "plain-global", (LOOP, f"size = BLOCK_SIZE\n    {LOOP}")),
    changed("20.4", "if-on-a-vector", (LOOP, f"if wanted:\n        pass\n    {LOOP}")),
    changed(
        "20.4",
        "type-changes",
        ("total = tl.zeros([GROUP_PAD], tl.float32)", "total = tl.zeros([GROUP_PAD], tl.float16)"),
    ),
    changed("20.4", "neighbours-keys", (HEADS, "heads = kv_head + member * tl.num_programs(1)"), (LSE, "")),
    changed("20.4", "one-kv-head-for-all", ("kv_head * kv_head_stride", "0 * kv_head_stride")),
    changed("20.4", "one-query-for-all", ("heads[:, None] * q_head_stride", "kv_head * GROUP * q_head_stride")),
    changed(
        "20.4", "one-head-of-the-group", (STORE, STORE.replace("mask=wanted", "mask=wanted & (member == 0)[:, None]"))
    ),
    changed("20.4", "heads-in-one-place", (HEADS, "heads = member"), (LSE, "")),
    changed("20.4", "heads-too-far", (HEADS, "heads = kv_head * tl.num_programs(1) * GROUP + member"), (LSE, "")),
    changed("20.4", "wrong-heads", (OUT_AT, OUT_AT.replace("heads", "(2 * kv_head * GROUP + GROUP - 1 - heads)"))),
    changed("20.4", "not-padded", ("member = tl.arange(0, GROUP_PAD)", "member = tl.arange(0, GROUP)")),
    changed("20.4", "group-by-the-pad", (HEADS, "heads = kv_head * GROUP_PAD + member")),
    changed("20.4", "dot-not-for-both", (LOAD_V, f"{LOAD_V}.to(tl.float32)")),
    changed(
        "20.4",
        "lse-of-nothing",
        ("total = tl.zeros([GROUP_PAD], tl.float32)", "total = tl.full([GROUP_PAD], 1.0, tl.float32)"),
    ),
    changed("20.4", "padding-stored", (STORE, STORE.replace("mask=wanted", "mask=(dims < DIM)[None, :]"))),
    changed(
        "20.4",
        "padding-loaded",
        ("q = tl.load(q_at, mask=wanted, other=0.0)", "q = tl.load(q_at, mask=(dims < DIM)[None, :], other=0.0)"),
    ),
    changed("20.4", "wrong-group", (STORE, STORE.replace("mask=wanted", "mask=wanted & (member < 2)[:, None]"))),
    changed("20.4", "first-tile-only", ("tokens = start + tl.arange(0, TILE)", "tokens = tl.arange(0, TILE)")),
    changed("20.4", "last-tile-only", (LOOP, f"{LOOP}\n" + indent(BEGIN, "    ").rstrip())),
    changed("20.4", "step-of-a-block", ("tl.range(first, end, TILE)", "tl.range(first, end, block_size)")),
    changed("20.4", "step-of-one", ("tl.range(first, end, TILE)", "tl.range(first, end)")),
    changed(
        "20.4",
        "divided-in-every-turn",
        (FOLDED, f"{FOLDED}\n        mixed = mixed / total[:, None]\n        total = total"),
        (ATTENDED, "attended = mixed"),
    ),
    changed("20.4", "wrong-loop", ("tokens = start + tl", "tokens = start // 2 + tl")),
    changed("20.4", "values-not-masked", (LOAD_V, "v = tl.load(v_ptr + at, mask=(dims < DIM)[None, :], other=0.0)")),
    changed("20.4", "one-token-too-many", ("held = tokens < end", "held = tokens <= end")),
    changed("20.4", "no-other", (LOAD_V, "v = tl.load(v_ptr + at, mask=fetched)")),
    changed("20.4", "whole-tiles-only", ("tl.range(first, end, TILE)", "tl.range(first, end // TILE * TILE, TILE)")),
    changed("20.4", "zeros-counted", ("scores(q, k, held,", "scores(q, k, tokens < end + TILE,")),
    changed(
        "20.4",
        "table-too-far",
        ("tokens, held, block_size", "tokens, tokens < end + TILE, block_size"),
    ),
    changed("20.4", "wrong-end", ("held = tokens < end", "held = tokens < tl.where(end % TILE == 0, end, end - 1)")),
    changed(
        "20.4",
        "no-other-in-the-width",
        ("k = tl.load(k_ptr + at, mask=fetched, other=0.0)", "k = tl.load(k_ptr + at, mask=fetched)"),
    ),
    changed("20.4", "width-not-masked", (FETCHED, "held[:, None] & (dims < DIM_PAD)[None, :]")),
    changed("20.4", "padded-stride", ("heads[:, None] * q_head_stride", "heads[:, None] * DIM_PAD")),
    changed(
        "20.4",
        "wrong-width",
        (STORE, STORE.replace("mask=wanted", "mask=wanted & (dims < 2 * DIM - DIM_PAD)[None, :]")),
    ),
    changed("20.4", "table-of-the-first", ("table_ptr + batch * table_stride", "table_ptr")),
    changed("20.4", "query-of-the-first", ("q_ptr + batch * q_batch_stride", "q_ptr")),
    changed("20.4", "length-of-another", ("tl.load(lens_ptr + batch)", "tl.load(lens_ptr)")),
    changed("20.4", "sequences-in-one-place", ("out_ptr + batch * out_batch_stride", "out_ptr")),
    changed("20.4", "wrong-batch", (OUT_AT, OUT_AT.replace("batch *", "(tl.num_programs(0) - 1 - batch) *"))),
    changed("20.4", "empty-is-nan", (ATTENDED, "attended = mixed / total[:, None]")),
    changed("20.4", "empty-not-stored", (LOOP, f"if end == 0:\n        return\n    {LOOP}")),
    changed("20.4", "empty-reads", (LOOP, "end = tl.maximum(end, 1)\n    for start in tl.range(first, end, TILE):")),
    changed(
        "20.4",
        "query-strides",
        (
            "batch * q_batch_stride + heads[:, None] * q_head_stride",
            "(batch * tl.num_programs(1) * GROUP + heads)[:, None] * DIM",
        ),
    ),
    changed(
        "20.4",
        "pool-strides",
        (ROWS, ROWS.replace("block_stride, token_stride", "block_size * token_stride, token_stride")),
    ),
    changed(
        "20.4",
        "output-strides",
        (
            "batch * out_batch_stride + heads[:, None] * out_head_stride",
            "(batch * tl.num_programs(1) * GROUP + heads)[:, None] * DIM",
        ),
    ),
    changed("20.4", "wrong-strides", ("batch * q_batch_stride", "batch * tl.minimum(q_batch_stride, 31)")),
    changed("20.4", "maximum-begins-at-0", ("-1e30", "0.0")),
    changed("20.4", "wrong-sums", ("-1e30", "-200.0")),
    changed("20.4", "tile-and-block", (ROWS, ROWS.replace("block_size", "tl.minimum(block_size, TILE)"))),
    changed("20.4", "int32", (f"rows = {ROWS}", f"rows = {ROWS}.to(tl.int32)")),
    changed("20.4", "no-lse", (LSE, "")),
    changed(
        "20.4",
        "wrong-lse",
        (
            "store_lse(lse_ptr, heads, largest, total, GROUP)",
            "store_lse(lse_ptr, heads, largest, tl.exp(total), GROUP)",
        ),
    ),
    changed("20.4", "splits-in-one-place", (OUT_AT, OUT_AT.removesuffix(" + split * out_split_stride"))),
    changed(
        "20.4",
        "share-ignored",
        (f"    {LOOP}", f"    end = tl.load(lens_ptr + batch)\n    {LOOP.replace('first', '0')}"),
    ),
    changed("20.4", "share-begins-at-0", (LOOP, LOOP.replace("first", "0"))),
    changed("20.4", "wrong-share", (OUT_AT, OUT_AT.replace("split *", "(tl.num_programs(2) - 1 - split) *"))),
    changed("20.4", "input-written", (f"    {LOOP}", f"    tl.store(q_at, q * scale, mask=wanted)\n    {LOOP}")),
    changed("20.4", "dot-always", ("held, scale, DOT", "held, scale, True")),
    changed("20.4", "scaled-twice", ("scores(q,", "scores(q * scale,")),
    changed("20.4", "grid-axes", ("tl.load(lens_ptr + batch)", "tl.load(lens_ptr + kv_head)")),
    changed("20.4", "and-between-masks", (FETCHED, FETCHED.replace("&", "and"))),
    changed("20.4", "pointer-for-a-number", ("tl.load(lens_ptr + batch)", "lens_ptr + batch")),
    changed("20.4", "wrong-shape", (ATTENDED, ATTENDED.replace("[:, None]", ""))),
    changed("20.4", "no-tile-folded", (f"largest, total, mixed = {FOLDED}", FOLDED)),
    changed("20.4", "stored-in-16-bits", ("attended, mask", "attended.to(tl.float16), mask")),
    changed("20.4", "pointers-renamed", ("    q_ptr,\n", "    query_ptr,\n"), ("q_ptr + batch", "query_ptr + batch")),
    changed("20.4", "no-mask", (STORE, "    tl.store(out_at + dims[None, :], wanted, attended)\n")),
    changed("20.4", "unknown-name", ("token_offsets(", "offsets_of_tokens(")),
    changed("20.4", "no-constexpr", ("tl.arange(0, TILE)", "tl.arange(0, end)")),
    changed("20.4", "shape-without-brackets", ("tl.zeros([GROUP_PAD], tl.float32)", "tl.zeros(GROUP_PAD, tl.float32)")),
    changed("20.4", "scale-of-its-own", ("held, scale, DOT", "held, DIM**-0.5, DOT")),
    changed("20.4", "outside-with-two-tiles", (ROWS, ROWS.replace("block_size", "16"))),
    changed("20.4", "kv-heads-follow", ("kv_head * kv_head_stride", "kv_head * DIM")),
    changed(
        "20.4",
        "lanes-in-block-0",
        (
            "k = tl.load(k_ptr + at, mask=fetched, other=0.0)",
            "k = tl.load(k_ptr + at, mask=(dims < DIM)[None, :], other=0.0)",
        ),
    ),
    changed("20.4", "other-sizes", (STORE, STORE.replace("mask=wanted", "mask=wanted & (dims < 64)[None, :]"))),
]
WRONG = [*WRONG_OFFSETS, *WRONG_SCORES, *WRONG_FOLDS, *WRONG_KERNELS]


@triton.jit
def pointers_to_entries(table_ptr, tokens, held, block_size, block_stride, token_stride):
    entries = tl.where(held, tokens // block_size, 0)
    ids = tl.cast(tl.load(table_ptr + entries, mask=held), tl.int64)
    return tl.cast(block_stride, tl.int64) * ids + (tokens - tokens // block_size * block_size) * token_stride


@triton.jit
def products_turned(q, k, held, scale, DOT: tl.constexpr):
    if DOT:
        s = scale * tl.dot(q, k.T)
    else:
        s = tl.sum((q.to(tl.float32) * scale).T[None, :, :] * k.to(tl.float32)[:, :, None], axis=1).T
    return tl.where(held[None, :], s, -float("inf"))


@triton.jit
def shrinks_in_place(s, v, largest, total, mixed, DOT: tl.constexpr):
    higher = tl.max(s, 1)
    new_largest = tl.where(higher > largest, higher, largest)
    weights = tl.exp2((s - new_largest[:, None]) * 1.4426950408889634)
    shrink = tl.exp2((largest - new_largest) * 1.4426950408889634)
    total *= shrink
    mixed *= shrink[:, None]
    total += tl.sum(weights, 1)
    if DOT:
        mixed = tl.dot(weights.to(v.dtype), v, acc=mixed)
    else:
        mixed += tl.sum(v.to(tl.float32)[None, :, :] * weights[:, :, None], 1)
    return new_largest, total, mixed


@triton.jit
def counts_tiles_and_begins_at_inf(
    q_ptr, k_ptr, v_ptr, table_ptr, lens_ptr, out_ptr, lse_ptr, scale, size,
    qb, qh, ks, kt, kh, ts, ob, oh, osp,
    GROUP: tl.constexpr, GROUP_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr,
    DOT: tl.constexpr,
):  # fmt: skip
    b, n = tl.program_id(0), tl.program_id(1)
    dims = tl.arange(0, DIM_PAD)
    heads = n * GROUP + tl.arange(0, GROUP_PAD)
    mine = (heads < (n + 1) * GROUP)[:, None] & (dims < DIM)
    q = tl.load(q_ptr + b * qb + heads[:, None] * qh + dims, mask=mine, other=0)
    first, end = my_tokens(tl.load(lens_ptr + b), TILE)
    largest = tl.full([GROUP_PAD], float("-inf"), tl.float32)
    total = tl.full([GROUP_PAD], 0, tl.float32)
    mixed = tl.full([GROUP_PAD, DIM_PAD], 0, tl.float32)
    for tile in range(tl.cdiv(end - first, TILE)):
        tokens = first + tile * TILE + tl.arange(0, TILE)
        held = tokens < end
        at = token_offsets(table_ptr + b * ts, tokens, held, size, ks, kt)[:, None] + (n * kh + dims)[None, :]
        k = tl.load(k_ptr + at, mask=held[:, None] & (dims < DIM)[None, :], other=0)
        v = tl.load(v_ptr + at, mask=held[:, None] & (dims < DIM)[None, :], other=0)
        largest, total, mixed = fold(scores(q, k, held, scale, DOT), v, largest, total, mixed, DOT)
    mixed = tl.where((total > 0)[:, None], mixed / tl.maximum(total, 1e-30)[:, None], 0.0)
    tl.store(out_ptr + b * ob + tl.program_id(2) * osp + heads[:, None] * oh + dims, mixed, mask=mine)
    store_lse(lse_ptr, heads, largest, total, GROUP)


@triton.jit
def moves_the_pointers(
    q_ptr, k_ptr, v_ptr, table_ptr, lens_ptr, out_ptr, lse_ptr, scale, size,
    qb, qh, ks, kt, kh, ts, ob, oh, osp,
    GROUP: tl.constexpr, GROUP_PAD: tl.constexpr, DIM: tl.constexpr, DIM_PAD: tl.constexpr, TILE: tl.constexpr,
    DOT: tl.constexpr,
):  # fmt: skip
    b, n = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    group, dims, lanes = tl.arange(0, GROUP_PAD)[:, None], tl.arange(0, DIM_PAD)[None, :], tl.arange(0, TILE)
    q_ptr += b * qb + n * GROUP * qh
    out_ptr += b * ob + n * GROUP * oh + tl.program_id(2) * osp
    k_ptr += n * kh
    v_ptr += n * kh
    table_ptr += b * ts
    q = tl.load(q_ptr + group * qh + dims, mask=(group < GROUP) & (dims < DIM), other=0.0)
    start, end = my_tokens(tl.load(lens_ptr + b), TILE)
    largest = tl.zeros([GROUP_PAD], tl.float32) - 1e30
    total = tl.zeros([GROUP_PAD], tl.float32)
    mixed = tl.zeros([GROUP_PAD, DIM_PAD], tl.float32)
    while start < end:
        held = start + lanes < end
        rows = token_offsets(table_ptr, start + lanes, held, size, ks, kt)
        there = held[:, None] & (dims < DIM)
        s = scores(q, tl.load(k_ptr + rows[:, None] + dims, mask=there, other=0.0), held, scale, DOT)
        v = tl.load(v_ptr + rows[:, None] + dims, mask=there, other=0.0)
        largest, total, mixed = fold(s, v, largest, total, mixed, DOT)
        start += TILE
    nonzero = total + (total == 0).to(tl.float32)
    tl.store(out_ptr + group * oh + dims, mixed / nonzero[:, None], mask=(group < GROUP) & (dims < DIM))
    store_lse(lse_ptr, (n * GROUP).to(tl.int32) + tl.arange(0, GROUP_PAD), largest, total, GROUP)


RIGHT = [
    Right("20.1", pointers_to_entries),
    Right("20.2", products_turned),
    Right("20.3", shrinks_in_place),
    Right("20.4", counts_tiles_and_begins_at_inf),
    Right("20.4", moves_the_pointers),
]
