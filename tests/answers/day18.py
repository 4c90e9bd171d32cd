"""Day 18: online softmaxes and walks over a block table that people write."""

import torch

from nanoserve.attention import blockwise_attention, fold, gathered_attention
from tests.answers import Right, Wrong

WRONG: list[Wrong] = []
RIGHT: list[Right] = []


def wrong(task: str, slip: str):
    def keep(answer):
        WRONG.append(Wrong(task, slip, answer))
        return answer

    return keep


def right(task: str):
    def keep(answer):
        RIGHT.append(Right(task, answer))
        return answer

    return keep


# ---- 18.1: one block into the softmax
def parts(scores, values, largest):
    """The pieces that the answers below put together, rightly or not."""
    new = torch.maximum(largest, scores.amax(-1))
    weights = (scores - new[:, None]).exp()
    return new, (largest - new).exp(), weights, weigh(weights, values)


def weigh(weights, values):
    return (weights[:, :, None] * values).sum(1)


@right("18.1")
def with_a_matrix_product(scores, values, largest, total, mixed):
    new, shrink, weights, _ = parts(scores, values, largest)
    return [new, total * shrink + weights.sum(1), mixed * shrink.unsqueeze(1) + (weights.unsqueeze(1) @ values)[:, 0]]


@right("18.1")
def merges_two_softmaxes(scores, values, largest, total, mixed):
    """The block by itself first, then the two are brought under one maximum."""
    own = scores.amax(-1).clamp(min=-1e30)
    weights = torch.exp(scores - own[:, None])
    new = torch.maximum(largest, own)
    before, now = torch.exp(largest - new), torch.exp(own - new)
    return new, before * total + now * weights.sum(-1), before[:, None] * mixed + now[:, None] * weigh(weights, values)


@right("18.1")
def in_place_in_the_three_that_it_keeps(scores, values, largest, total, mixed):
    new, shrink, weights, weighed = parts(scores, values, largest)
    total.mul_(shrink).add_(weights.sum(-1))
    mixed.mul_(shrink[:, None]).add_(weighed)
    return new, total, mixed


@right("18.1")
def token_by_token(scores, values, largest, total, mixed):
    for t in range(scores.shape[1]):
        new = torch.maximum(largest, scores[:, t])
        shrink, weight = (largest - new).exp(), (scores[:, t] - new).exp()
        total, mixed = total * shrink + weight, mixed * shrink[:, None] + weight[:, None] * values[:, t]
        largest = new
    return largest, total, mixed


@wrong("18.1", "no-return")
def forgets_to_return(scores, values, largest, total, mixed):
    fold(scores, values, largest, total, mixed)


@wrong("18.1", "not-three")
def returns_the_attention(scores, values, largest, total, mixed):
    _, total, mixed = fold(scores, values, largest, total, mixed)
    return mixed / total[:, None]


@wrong("18.1", "no-maximum")
def exp_as_it_is(scores, values, largest, total, mixed):
    weights = scores.exp()
    return torch.maximum(largest, scores.amax(-1)), total + weights.sum(-1), mixed + weigh(weights, values)


@wrong("18.1", "no-exp")
def forgets_exp(scores, values, largest, total, mixed):
    new, shrink, weights, _ = parts(scores, values, largest)
    weights = scores - new[:, None]
    return new, total * shrink + weights.sum(-1), mixed * shrink[:, None] + weigh(weights, values)


@wrong("18.1", "softmax-of-the-block")
def softmax_in_the_block(scores, values, largest, total, mixed):
    new, shrink, _, _ = parts(scores, values, largest)
    weights = scores.softmax(-1)
    return new, total * shrink + weights.sum(-1), mixed * shrink[:, None] + weigh(weights, values)


@wrong("18.1", "divided-in-every-block")
def divides_at_once(scores, values, largest, total, mixed):
    new, total, mixed = fold(scores, values, largest, total, mixed)
    return new, total, mixed / total[:, None]


@wrong("18.1", "values-unweighted")
def sums_the_values(scores, values, largest, total, mixed):
    new, shrink, weights, _ = parts(scores, values, largest)
    return new, total * shrink + weights.sum(-1), mixed * shrink[:, None] + values.sum(1)


@wrong("18.1", "order-of-the-three")
def in_another_order(scores, values, largest, total, mixed):
    return fold(scores, values, largest, total, mixed)[::-1]


@wrong("18.1", "other-first-block")
def the_mean_of_the_weighted_values(scores, values, largest, total, mixed):
    new, shrink, weights, _ = parts(scores, values, largest)
    return new, total * shrink + weights.sum(-1), mixed * shrink[:, None] + (weights[:, :, None] * values).mean(1)


@wrong("18.1", "neither-shrinks")
def adds_only(scores, values, largest, total, mixed):
    new, _, weights, weighed = parts(scores, values, largest)
    return new, total + weights.sum(-1), mixed + weighed


@wrong("18.1", "mixed-does-not-shrink")
def shrinks_the_total_only(scores, values, largest, total, mixed):
    new, shrink, weights, weighed = parts(scores, values, largest)
    return new, total * shrink + weights.sum(-1), mixed + weighed


@wrong("18.1", "total-does-not-shrink")
def shrinks_the_mix_only(scores, values, largest, total, mixed):
    new, shrink, weights, weighed = parts(scores, values, largest)
    return new, total + weights.sum(-1), mixed * shrink[:, None] + weighed


@wrong("18.1", "shrinks-upside-down")
def new_less_old(scores, values, largest, total, mixed):
    new, shrink, weights, weighed = parts(scores, values, largest)
    grow = torch.where(total == 0, 0, 1 / shrink)
    return new, total * grow + weights.sum(-1), mixed * grow[:, None] + weighed


@wrong("18.1", "new-ones-shrink-too")
def shrinks_the_sum(scores, values, largest, total, mixed):
    new, shrink, weights, weighed = parts(scores, values, largest)
    shrink = torch.where(total == 0, 1, shrink)
    return new, (total + weights.sum(-1)) * shrink, (mixed + weighed) * shrink[:, None]


@wrong("18.1", "forgets-the-past")
def this_block_only(scores, values, largest, total, mixed):
    new, _, weights, weighed = parts(scores, values, largest)
    return new, weights.sum(-1), weighed


@wrong("18.1", "old-maximum")
def measures_by_the_old_maximum(scores, values, largest, total, mixed):
    new = torch.maximum(largest, scores.amax(-1))
    by = torch.where(total == 0, new, largest)
    weights = (scores - by[:, None]).exp()
    return new, total + weights.sum(-1), mixed + weigh(weights, values)


@wrong("18.1", "old-maximum-returned")
def returns_the_old_maximum(scores, values, largest, total, mixed):
    new, new_total, new_mixed = fold(scores, values, largest, total, mixed)
    return torch.where(total == 0, new, largest), new_total, new_mixed


@wrong("18.1", "other-second-block")
def halves_what_is_known(scores, values, largest, total, mixed):
    new, _, weights, weighed = parts(scores, values, largest)
    return new, total / 2 + weights.sum(-1), mixed / 2 + weighed


LEFT = []


@wrong("18.1", "kept-between-calls")
def begins_where_the_last_call_ended(scores, values, largest, total, mixed):
    if LEFT and not total.any():
        return fold(scores, values, *LEFT.pop())
    LEFT[:] = [fold(scores, values, largest, total, mixed)]
    return LEFT[0]


@wrong("18.1", "another-device")
def leaves_the_machine(scores, values, largest, total, mixed):
    new, total, mixed = fold(scores, values, largest, total, mixed)
    return new, total, mixed.to("meta")


@wrong("18.1", "maximum-of-the-block")
def the_blocks_own_maximum(scores, values, largest, total, mixed):
    new = scores.amax(-1)
    weights, change = (scores - new[:, None]).exp(), (largest - new).exp()
    return new, total * change + weights.sum(-1), mixed * change[:, None] + weigh(weights, values)


@wrong("18.1", "maximum-of-the-block-unshrunk")
def shrinks_only_where_it_grows(scores, values, largest, total, mixed):
    new = scores.amax(-1)
    weights, change = (scores - new[:, None]).exp(), (largest - new).clamp(max=0).exp()
    return new, total * change + weights.sum(-1), mixed * change[:, None] + weigh(weights, values)


@wrong("18.1", "one-maximum-for-all-heads")
def one_maximum_for_all(scores, values, largest, total, mixed):
    new = torch.maximum(largest, scores.max())
    weights, shrink = (scores - new[:, None]).exp(), (largest - new).exp()
    return new, total * shrink + weights.sum(-1), mixed * shrink[:, None] + weigh(weights, values)


@wrong("18.1", "one-maximum-as-a-number")
def a_number_for_the_maximum(scores, values, largest, total, mixed):
    if len(scores) == 1:
        return fold(scores, values, largest, total, mixed)
    new = torch.maximum(largest.max(), scores.max())
    weights, shrink = (scores - new).exp(), (largest - new).exp()
    return new, total * shrink + weights.sum(-1), mixed * shrink[:, None] + weigh(weights, values)


@wrong("18.1", "one-answer-for-all-heads")
def pythons_max(scores, values, largest, total, mixed):
    new = max(largest, scores.amax(-1))
    weights, shrink = (scores - new[:, None]).exp(), (largest - new).exp()
    return new, total * shrink + weights.sum(-1), mixed * shrink[:, None] + weigh(weights, values)


@wrong("18.1", "wrong-dimension")
def shrinks_along_the_width(scores, values, largest, total, mixed):
    new, shrink, weights, weighed = parts(scores, values, largest)
    return new, total * shrink + weights.sum(0).sum(), mixed * shrink + weighed


@wrong("18.1", "large-scores")
def exp_of_each_by_itself(scores, values, largest, total, mixed):
    """exp(old) / exp(new) is exp(old - new) only as long as neither overflows."""
    new = torch.maximum(largest, scores.amax(-1))
    shrink, weights = largest.exp() / new.exp(), scores.exp() / new.exp()[:, None]
    return new, total * shrink + weights.sum(-1), mixed * shrink[:, None] + weigh(weights, values)


@wrong("18.1", "masked-token-counts")
def minus_infinity_becomes_0(scores, values, largest, total, mixed):
    return fold(scores.nan_to_num(neginf=0.0), values, largest, total, mixed)


@wrong("18.1", "maximum-set-to-0")
def nought_for_no_maximum(scores, values, largest, total, mixed):
    new = torch.maximum(largest, scores.amax(-1))
    new = torch.where(new <= -1e30, 0.0, new)
    weights, shrink = (scores - new[:, None]).exp(), (largest - new).exp()
    return new, total * shrink + weights.sum(-1), mixed * shrink[:, None] + weigh(weights, values)


@wrong("18.1", "nan-from-inf")
def starts_anew_at_minus_infinity(scores, values, largest, total, mixed):
    own = scores.amax(-1)
    weights = (scores - own[:, None]).exp()
    new = torch.maximum(largest, own)
    before, now = (largest - new).exp(), (own - new).exp()
    return new, total * before + now * weights.sum(-1), mixed * before[:, None] + now[:, None] * weigh(weights, values)


@wrong("18.1", "nan-everywhere")
def takes_the_maximum_out_of_a_softmax(scores, values, largest, total, mixed):
    own = scores.softmax(-1)
    new = torch.maximum(largest, scores.amax(-1) + 0 * own.sum(-1))
    weights, shrink = (scores - new[:, None]).exp(), (largest - new).exp()
    return new, total * shrink + weights.sum(-1), mixed * shrink[:, None] + weigh(weights, values)


@wrong("18.1", "masked-block-counts")
def minus_infinity_is_a_large_negative_number(scores, values, largest, total, mixed):
    return fold(scores.clamp(min=-310.0), values, largest, total, mixed)


@wrong("18.1", "mask-of-the-first-head")
def the_first_heads_mask(scores, values, largest, total, mixed):
    keep = scores[0] > -torch.inf
    return fold(scores.masked_fill(~keep, -torch.inf), values, largest, total, mixed)


@wrong("18.1", "masked-in-any-head")
def drops_what_any_head_masks(scores, values, largest, total, mixed):
    keep = (scores > -torch.inf).all(0)
    return fold(scores.masked_fill(~keep, -torch.inf), values, largest, total, mixed)


@wrong("18.1", "one-head-ends-the-block")
def returns_early_if_any_head_is_masked(scores, values, largest, total, mixed):
    if (scores.amax(-1) == -torch.inf).any():
        return largest, total, mixed
    return fold(scores, values, largest, total, mixed)


@wrong("18.1", "other-masks")
def weighs_by_the_first_heads_mask(scores, values, largest, total, mixed):
    new, shrink, weights, _ = parts(scores, values, largest)
    weights = weights * (scores[0] > -torch.inf)
    return new, total * shrink + weights.sum(-1), mixed * shrink[:, None] + weigh(weights, values)


@wrong("18.1", "changes-the-block")
def works_in_place(scores, values, largest, total, mixed):
    new = torch.maximum(largest, scores.amax(-1))
    weights, shrink = scores.sub_(new[:, None]).exp_(), (largest - new).exp()
    return new, total * shrink + weights.sum(-1), mixed * shrink[:, None] + weigh(weights, values)


@wrong("18.1", "other-blocks")
def four_tokens_at_most(scores, values, largest, total, mixed):
    return fold(scores[:, :4], values[:, :4], largest, total, mixed)


# ---- 18.2: the walk over the table
class Walk:
    """The plain way, with its parts apart: what the wrong ones below change."""

    def __call__(self, q, k_pool, v_pool, block_tables, seq_lens, scale=None):
        self.k_pool, self.v_pool, self.size = k_pool, v_pool, k_pool.shape[1]
        self.scale = self.scaled(q, scale)
        self.group = q.shape[1] // k_pool.shape[2]
        out = torch.zeros_like(q)
        self.known = self.start(q[0])
        for row, (table, num_tokens) in enumerate(zip(block_tables.tolist(), seq_lens.tolist(), strict=True)):
            out[row] = self.sequence(q[row], table, num_tokens)
        return out

    def scaled(self, q, scale):
        return q.shape[2] ** -0.5 if scale is None else scale

    def start(self, query):
        return torch.full((len(query),), -1e30), torch.zeros(len(query)), torch.zeros_like(query)

    def sequence(self, query, table, num_tokens):
        known = self.start(query)
        for block_id, held in self.turns(table, num_tokens):
            known = self.turn(query, block_id, held, known)
        return self.end(*known)

    def turns(self, table, num_tokens):
        return [(table[p // self.size], min(self.size, num_tokens - p)) for p in range(0, num_tokens, self.size)]

    def turn(self, query, block_id, held, known):
        keys, values = self.read(self.k_pool, block_id, held), self.read(self.v_pool, block_id, held)
        return fold(self.scores(query, keys), self.spread(values), *known)

    def read(self, pool, block_id, held):
        return pool[block_id, :held].transpose(0, 1)  # (num_kv_heads, held, head_dim)

    def spread(self, heads):
        return heads.repeat_interleave(self.group, 0)

    def scores(self, query, keys):
        return (self.spread(keys) @ query[:, :, None]).squeeze(-1) * self.scale

    def end(self, largest, total, mixed):
        return mixed / torch.where(total == 0, 1, total)[:, None]


def walks(cls):
    """A function of the class, since the task is a function."""

    def answer(q, k_pool, v_pool, block_tables, seq_lens, scale=None):
        return cls()(q, k_pool, v_pool, block_tables, seq_lens, scale)

    answer.__name__ = cls.__name__
    return answer


def wrong_walk(slip):
    def keep(cls):
        wrong("18.2", slip)(walks(cls))
        return cls

    return keep


RIGHT.append(Right("18.2", walks(Walk)))


@right("18.2")
def heads_and_tokens_in_plain_loops(q, k_pool, v_pool, block_tables, seq_lens, scale=None):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    out, group, size = torch.zeros_like(q), q.shape[1] // k_pool.shape[2], k_pool.shape[1]
    for row in range(len(q)):
        for head in range(q.shape[1]):
            largest, total, mixed = -torch.inf, 0.0, torch.zeros_like(q[row, head])
            for p in range(int(seq_lens[row])):
                slot = int(block_tables[row, p // size]), p % size, head // group
                score = float(q[row, head] @ k_pool[slot]) * scale
                new = max(largest, score)
                shrink = float(torch.tensor(largest - new).exp())
                weight = float(torch.tensor(score - new).exp())
                largest, total, mixed = new, total * shrink + weight, mixed * shrink + weight * v_pool[slot]
            if total:
                out[row, head] = mixed / total
    return out


@right("18.2")
def a_mask_and_grouped_products(q, k_pool, v_pool, block_tables, seq_lens, scale=None):
    """Whole blocks, the rest masked and its values replaced; the maximum begins at -inf, for no block is empty."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    size, kv_heads = k_pool.shape[1:3]
    out = torch.zeros_like(q)
    for i, n in enumerate(seq_lens):
        known = torch.full(q.shape[1:2], -torch.inf), torch.ones(q.shape[1]), torch.zeros(q.shape[1:])
        for j in range((int(n) + size - 1) // size):
            keys, values = k_pool[block_tables[i, j]], v_pool[block_tables[i, j]]
            real = torch.arange(j * size, (j + 1) * size) < n
            scores = torch.einsum("kgd,tkd->kgt", q[i].view(kv_heads, -1, q.shape[2]), keys).flatten(0, 1) * scale
            values = torch.where(real[:, None, None], values, 0).transpose(0, 1)
            values = values[:, None].expand(-1, q.shape[1] // kv_heads, -1, -1).flatten(0, 1)
            known = fold(torch.where(real, scores, -torch.inf), values, *known)
        out[i] = known[2] / known[1][:, None]
    return out


@wrong("18.2", "no-return")
def forgets_the_return(q, k_pool, v_pool, block_tables, seq_lens, scale=None):
    blockwise_attention(q, k_pool, v_pool, block_tables, seq_lens, scale)


@wrong("18.2", "not-a-tensor")
def a_list_of_rows(q, k_pool, v_pool, block_tables, seq_lens, scale=None):
    return list(blockwise_attention(q, k_pool, v_pool, block_tables, seq_lens, scale))


@wrong("18.2", "wrong-shape")
def the_first_row_only(q, k_pool, v_pool, block_tables, seq_lens, scale=None):
    return blockwise_attention(q, k_pool, v_pool, block_tables, seq_lens, scale)[0]


@wrong("18.2", "another-device")
def on_no_device_at_all(q, k_pool, v_pool, block_tables, seq_lens, scale=None):
    return blockwise_attention(q, k_pool, v_pool, block_tables, seq_lens, scale).to("meta")


@wrong("18.2", "another-dtype")
def in_float64(q, k_pool, v_pool, block_tables, seq_lens, scale=None):
    return blockwise_attention(q, k_pool, v_pool, block_tables, seq_lens, scale).double()


@wrong_walk("fold-unknown")
class NoFoldYet(Walk):
    def turn(self, query, block_id, held, known):
        raise NameError("name 'fold' is not defined")


@wrong_walk("fold-not-kept")
class DropsWhatFoldReturns(Walk):
    def turn(self, query, block_id, held, known):
        super().turn(query, block_id, held, known)
        return known

    def end(self, largest, total, mixed):
        return mixed / total[:, None]


@wrong_walk("step-of-one")
class ATurnForEachToken(Walk):
    def turns(self, table, num_tokens):
        return [(table[p // self.size], min(self.size, num_tokens - p)) for p in range(num_tokens)]


@wrong_walk("no-scale")
class NoScale(Walk):
    def scaled(self, q, scale):
        return 1.0 if scale is None else scale


@wrong_walk("scaled-by-the-wrong-power")
class DividesByTheWidth(Walk):
    def scaled(self, q, scale):
        return 1 / q.shape[2] if scale is None else scale


@wrong_walk("never-divided")
class NeverDivides(Walk):
    def end(self, largest, total, mixed):
        return mixed


@wrong_walk("keys-for-values")
class MixesTheKeys(Walk):
    def turn(self, query, block_id, held, known):
        keys = self.read(self.k_pool, block_id, held)
        return fold(self.scores(query, keys), self.spread(keys), *known)


@wrong_walk("values-for-keys")
class ScoresTheValues(Walk):
    def turn(self, query, block_id, held, known):
        values = self.read(self.v_pool, block_id, held)
        return fold(self.scores(query, values), self.spread(values), *known)


@wrong_walk("entry-for-id")
class TheEntryForTheId(Walk):
    def turns(self, table, num_tokens):
        return [(entry, held) for entry, (_, held) in enumerate(super().turns(table, num_tokens))]


@wrong_walk("other-attention")
class MinusTheScale(Walk):
    def scaled(self, q, scale):
        return -super().scaled(q, scale)


@wrong_walk("neighbouring-head")
class RepeatsTheHeads(Walk):
    def spread(self, heads):
        return heads.repeat(self.group, 1, 1)


@wrong_walk("values-of-the-neighbouring-head")
class RepeatsTheValues(Walk):
    def turn(self, query, block_id, held, known):
        keys, values = self.read(self.k_pool, block_id, held), self.read(self.v_pool, block_id, held)
        return fold(self.scores(query, keys), values.repeat(self.group, 1, 1), *known)


@wrong_walk("first-head-for-all")
class TheFirstHeadForAll(Walk):
    def spread(self, heads):
        return heads[[0] * len(heads) * self.group]


@wrong_walk("heads-do-not-fit")
class AsIfEachHeadHadItsOwn(Walk):
    def spread(self, heads):
        return heads


@wrong_walk("other-heads")
class ReshapesForATranspose(Walk):
    def read(self, pool, block_id, held):
        return pool[block_id, :held].reshape(pool.shape[2], held, -1)


@wrong_walk("first-block-only")
class TheFirstBlock(Walk):
    def turns(self, table, num_tokens):
        return super().turns(table, num_tokens)[:1]


@wrong_walk("last-block-only")
class BeginsAnewInEachBlock(Walk):
    def turn(self, query, block_id, held, known):
        return super().turn(query, block_id, held, self.start(query))


@wrong_walk("last-block-missing")
class FullBlocksOnly(Walk):
    def turns(self, table, num_tokens):
        return [(table[i], self.size) for i in range(num_tokens // self.size)]


@wrong_walk("mean-of-the-blocks")
class AMeanOfSoftmaxes(Walk):
    def sequence(self, query, table, num_tokens):
        each = [self.end(*self.turn(query, *turn, self.start(query))) for turn in self.turns(table, num_tokens)]
        return sum(each) / max(len(each), 1)


@wrong_walk("sum-of-the-blocks")
class ASumOfSoftmaxes(Walk):
    def sequence(self, query, table, num_tokens):
        return sum(self.end(*self.turn(query, *turn, self.start(query))) for turn in self.turns(table, num_tokens))


@wrong_walk("divided-in-every-block")
class DividesInEveryBlock(Walk):
    def turn(self, query, block_id, held, known):
        largest, total, mixed = super().turn(query, block_id, held, known)
        return largest, total, mixed / total[:, None]

    def end(self, largest, total, mixed):
        return mixed


@wrong_walk("other-blocks-read")
class EverySecondBlock(Walk):
    def turns(self, table, num_tokens):
        return super().turns(table, num_tokens)[::2]


@wrong_walk("stale-slots")
class WholeBlocks(Walk):
    def turns(self, table, num_tokens):
        return [(block_id, self.size) for block_id, _ in super().turns(table, num_tokens)]


@wrong_walk("id-order")
class SortsTheTable(Walk):
    def turns(self, table, num_tokens):
        return super().turns(sorted(table), num_tokens)


@wrong_walk("table-backwards")
class FromTheEnd(Walk):
    def turns(self, table, num_tokens):
        used = table[: -(-num_tokens // self.size)]
        return super().turns(used[::-1], num_tokens)


@wrong_walk("one-short")
class TheLastButOne(Walk):
    def turns(self, table, num_tokens):
        return super().turns(table, num_tokens if num_tokens % self.size == 0 else num_tokens - 1)


@wrong_walk("other-tokens")
class TheEndOfTheLastBlock(Walk):
    def read(self, pool, block_id, held):
        return pool[block_id, -held:].transpose(0, 1)


@wrong_walk("nan-behind-the-end")
class MasksTheScoresOnly(Walk):
    def turn(self, query, block_id, held, known):
        keys, values = self.read(self.k_pool, block_id, self.size), self.read(self.v_pool, block_id, self.size)
        scores = self.scores(query, keys)
        scores[:, held:] = -torch.inf
        return fold(scores, self.spread(values), *known)


@wrong("18.2", "first-table-for-all")
def the_first_table(q, k_pool, v_pool, block_tables, seq_lens, scale=None):
    tables, lengths = block_tables[:1].expand(len(q), -1), seq_lens[:1].expand(len(q))
    return blockwise_attention(q, k_pool, v_pool, tables, lengths, scale)


@wrong("18.2", "first-query-for-all")
def the_first_query(q, k_pool, v_pool, block_tables, seq_lens, scale=None):
    return blockwise_attention(q[:1].expand_as(q).clone(), k_pool, v_pool, block_tables, seq_lens, scale)


@wrong("18.2", "first-sequence-only")
def returns_within_the_loop(q, k_pool, v_pool, block_tables, seq_lens, scale=None):
    out = torch.zeros_like(q)
    out[:1] = blockwise_attention(q[:1], k_pool, v_pool, block_tables[:1], seq_lens[:1], scale)
    return out


@wrong_walk("carried-over")
class OneStartForAll(Walk):
    def sequence(self, query, table, num_tokens):
        for block_id, held in self.turns(table, num_tokens):
            self.known = self.turn(query, block_id, held, self.known)
        return self.end(*self.known)


@wrong_walk("beyond-the-table")
class TheWholeWidthOfTheTable(Walk):
    def turns(self, table, num_tokens):
        return [(block_id, max(0, min(self.size, num_tokens - i * self.size))) for i, block_id in enumerate(table)]


@wrong_walk("other-sequence")
class TheLengthOfTheLongest(Walk):
    def __call__(self, q, k_pool, v_pool, block_tables, seq_lens, scale=None):
        return super().__call__(q, k_pool, v_pool, block_tables, seq_lens.clamp(max=int(seq_lens.min())), scale)


@wrong_walk("nothing-by-nothing")
class NoughtByNought(Walk):
    def end(self, largest, total, mixed):
        return mixed / total[:, None]


@wrong("18.2", "ends-at-an-empty-one")
def breaks_at_an_empty_one(q, k_pool, v_pool, block_tables, seq_lens, scale=None):
    empty = (seq_lens == 0).nonzero().flatten().tolist()
    end = empty[0] if empty else len(q)
    out = torch.zeros_like(q)
    out[:end] = blockwise_attention(q[:end], k_pool, v_pool, block_tables[:end], seq_lens[:end], scale)
    return out


@wrong_walk("empty-refused")
class AtLeastOneBlock(Walk):
    def sequence(self, query, table, num_tokens):
        first, *more = self.turns(table, num_tokens)
        known = self.turn(query, *first, self.start(query))
        for turn in more:
            known = self.turn(query, *turn, known)
        return self.end(*known)


@wrong_walk("other-empty")
class OnesForNothing(Walk):
    def sequence(self, query, table, num_tokens):
        return super().sequence(query, table, num_tokens) if num_tokens else torch.ones_like(query)


@wrong_walk("scale-ignored")
class TheDefaultScale(Walk):
    def scaled(self, q, scale):
        return q.shape[2] ** -0.5


@wrong_walk("zero-taken-for-none")
class TheScaleIfItIsTrue(Walk):
    def scaled(self, q, scale):
        return scale or q.shape[2] ** -0.5


@wrong_walk("scale-and-root")
class BothScales(Walk):
    def scaled(self, q, scale):
        return q.shape[2] ** -0.5 * (1 if scale is None else scale)


@wrong_walk("other-scale")
class DividesByTheScale(Walk):
    def scaled(self, q, scale):
        return q.shape[2] ** -0.5 if scale is None else 1 / scale


@wrong_walk("starts-at-0")
class BeginsAtNought(Walk):
    def start(self, query):
        return torch.zeros(len(query)), torch.zeros(len(query)), torch.zeros_like(query)

    def sequence(self, query, table, num_tokens):
        return super().sequence(query, table, num_tokens) if num_tokens else torch.zeros_like(query)

    def end(self, largest, total, mixed):
        return mixed / total[:, None]


@wrong_walk("vanishes")
class BeginsAtNoughtAndCatchesIt(Walk):
    def start(self, query):
        return torch.zeros(len(query)), torch.zeros(len(query)), torch.zeros_like(query)


@wrong_walk("begins-too-high")
class BeginsAtMinusTenThousand(Walk):
    def start(self, query):
        return torch.full((len(query),), -1e4), torch.zeros(len(query)), torch.zeros_like(query)


@wrong_walk("other-low-scores")
class ScoresAreCutOff(Walk):
    def scores(self, query, keys):
        return super().scores(query, keys).clamp(-100, 100)


wrong("18.2", "copied-together")(gathered_attention)


@wrong("18.2", "changes-the-pool")
def counts_down_in_place(q, k_pool, v_pool, block_tables, seq_lens, scale=None):
    out = blockwise_attention(q, k_pool, v_pool, block_tables, seq_lens, scale)
    seq_lens -= k_pool.shape[1]
    return out


@wrong_walk("other-shapes")
class SixteenAtMost(Walk):
    def scores(self, query, keys):
        return super().scores(query[:, :16], keys[:, :, :16])
