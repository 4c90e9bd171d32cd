"""Day 17: samplers, streams and pools that people write."""

import contextlib
import math

import torch

from nanoserve.allocator import KVCacheExhausted
from nanoserve.cache import KVCache, KVPool, NaiveKVCache, PagedKVCache
from nanoserve.generation import decode
from nanoserve.sampling import check_sampling
from nanoserve.sampling import sample as reference_sample
from nanoserve.sampling import warp as reference_warp
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


# ---- 17.1: what may be drawn
def nucleus(scores, top_p):
    """Top-p alone, as it should be."""
    return reference_warp(scores, 1.0, None, top_p)


def best(scores, top_k):
    """Top-k alone, as it should be."""
    return reference_warp(scores, 1.0, top_k)


@wrong("17.1", "no-row")
def forgets_to_return(logits, temperature=1.0, top_k=None, top_p=None):
    reference_warp(logits, temperature, top_k, top_p)


@wrong("17.1", "other-device")
def gives_a_shape_back(logits, temperature=1.0, top_k=None, top_p=None):
    return reference_warp(logits, temperature, top_k, top_p).to("meta")


@wrong("17.1", "floor-division")
def divides_and_rounds(logits, temperature=1.0, top_k=None, top_p=None):
    return reference_warp(logits // temperature, 1.0, top_k, top_p)


@wrong("17.1", "sorted-by-top-p")
def cuts_the_sorted_row(logits, temperature=1.0, top_k=None, top_p=None):
    scores = best(logits / temperature, top_k)
    if top_p is not None and top_p < 1:
        scores = scores.sort().values
        out = scores.softmax(dim=-1).cumsum(dim=-1) <= 1 - top_p
        out[-1] = False
        scores[out] = -math.inf
    return scores


@wrong("17.1", "share-of-the-tokens")
def so_many_of_the_tokens(logits, temperature=1.0, top_k=None, top_p=None):
    scores = best(logits / temperature, top_k)
    if top_p is not None and top_p < 1:
        scores = best(scores, max(1, int(top_p * len(scores))))
    return scores


@wrong("17.1", "other-dtype")
def gives_half_precision_back(logits, temperature=1.0, top_k=None, top_p=None):
    return reference_warp(logits, temperature, top_k, top_p).half()


@wrong("17.1", "temperature-multiplies")
def multiplies(logits, temperature=1.0, top_k=None, top_p=None):
    return reference_warp(logits * temperature, 1.0, top_k, top_p)


@wrong("17.1", "temperature-ignored")
def divides_and_drops_it(logits, temperature=1.0, top_k=None, top_p=None):
    logits / temperature
    return reference_warp(logits, 1.0, top_k, top_p)


@wrong("17.1", "probabilities")
def returns_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    return reference_warp(logits, temperature, top_k, top_p).softmax(dim=-1)


@wrong("17.1", "softmax-before-scaling")
def softmax_first(logits, temperature=1.0, top_k=None, top_p=None):
    return reference_warp(logits.softmax(dim=-1), temperature, top_k, top_p)


@wrong("17.1", "other-scale")
def returns_log_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    return reference_warp(logits, temperature, top_k, top_p).log_softmax(dim=-1)


@wrong("17.1", "changes-the-row")
def divides_in_place(logits, temperature=1.0, top_k=None, top_p=None):
    logits /= temperature
    return reference_warp(logits, 1.0, top_k, top_p)


@wrong("17.1", "changes-the-row-at-1")
def divides_only_where_it_matters(logits, temperature=1.0, top_k=None, top_p=None):
    scores = logits if temperature == 1 else logits / temperature
    if top_k:
        scores[scores < scores.topk(min(top_k, len(scores))).values[-1]] = -math.inf
    return nucleus(scores, top_p)


@wrong("17.1", "top-k-ignored")
def fills_and_drops_it(logits, temperature=1.0, top_k=None, top_p=None):
    scores = logits / temperature
    if top_k:
        scores.masked_fill(scores < scores.topk(top_k).values[-1], -math.inf)
    return nucleus(scores, top_p)


@wrong("17.1", "kth-removed")
def less_or_equal(logits, temperature=1.0, top_k=None, top_p=None):
    scores = logits / temperature
    if top_k:
        scores = scores.masked_fill(scores <= scores.topk(top_k).values[-1], -math.inf)
    return nucleus(scores, top_p)


@wrong("17.1", "k-and-one")
def counts_places_from_zero(logits, temperature=1.0, top_k=None, top_p=None):
    scores = logits / temperature
    if top_k:
        limit = scores.sort(descending=True).values[top_k]
        scores = scores.masked_fill(scores < limit, -math.inf)
    return nucleus(scores, top_p)


@wrong("17.1", "keeps-the-lowest")
def sorts_the_other_way(logits, temperature=1.0, top_k=None, top_p=None):
    scores = logits / temperature
    if top_k:
        limit = scores.sort().values[top_k - 1]
        scores = scores.masked_fill(scores > limit, -math.inf)
    return nucleus(scores, top_p)


@wrong("17.1", "zero-is-not-out")
def fills_with_zero(logits, temperature=1.0, top_k=None, top_p=None):
    scores = logits / temperature
    if top_k:
        scores = scores.masked_fill(scores < scores.topk(top_k).values[-1], 0)
    return nucleus(scores, top_p)


@wrong("17.1", "not-the-whole-row")
def returns_the_k_values(logits, temperature=1.0, top_k=None, top_p=None):
    scores = logits / temperature
    if top_k:
        scores = scores.topk(top_k).values
    return nucleus(scores, top_p)


@wrong("17.1", "in-order-of-rank")
def returns_them_sorted(logits, temperature=1.0, top_k=None, top_p=None):
    scores = logits / temperature
    if top_k:
        scores = scores.sort(descending=True).values
        scores[top_k:] = -math.inf
    return nucleus(scores, top_p)


@wrong("17.1", "other-top-k")
def at_least_k_of_the_probability(logits, temperature=1.0, top_k=None, top_p=None):
    scores = logits / temperature
    if top_k:
        scores = scores.masked_fill(scores < scores.max() / top_k, -math.inf)
        scores[scores.argmax()] = -math.inf
    return nucleus(scores, top_p)


@wrong("17.1", "not-a-number")
def subtracts_infinity(logits, temperature=1.0, top_k=None, top_p=None):
    scores = logits / temperature
    if top_k:
        scores = scores - (scores < scores.topk(min(top_k, len(scores))).values[-1]) * math.inf
    return nucleus(scores, top_p)


@wrong("17.1", "ties-cut")
def by_the_indices_of_topk(logits, temperature=1.0, top_k=None, top_p=None):
    scores = logits / temperature
    if top_k:
        values, indices = scores.topk(min(top_k, len(scores)))
        scores = torch.full_like(scores, -math.inf).index_copy(0, indices, values)
    return nucleus(scores, top_p)


@wrong("17.1", "k-above-the-vocabulary")
def more_than_there_are(logits, temperature=1.0, top_k=None, top_p=None):
    scores = logits / temperature
    if top_k:
        scores = scores.masked_fill(scores < scores.topk(top_k).values[-1], -math.inf)
    return nucleus(scores, top_p)


@wrong("17.1", "k-of-0")
def off_is_none_only(logits, temperature=1.0, top_k=None, top_p=None):
    scores = logits / temperature
    if top_k is not None:
        scores = scores.masked_fill(scores < scores.topk(min(top_k, len(scores))).values[-1], -math.inf)
    return nucleus(scores, top_p)


@wrong("17.1", "top-p-ignored")
def has_no_top_p_yet(logits, temperature=1.0, top_k=None, top_p=None):
    return best(logits / temperature, top_k)


@wrong("17.1", "crossing-dropped")
def stops_before_the_crossing(logits, temperature=1.0, top_k=None, top_p=None):
    scores = best(logits / temperature, top_k)
    if top_p is not None and top_p < 1:
        values, order = scores.sort(descending=True)
        out = values.softmax(dim=-1).cumsum(dim=-1) > top_p
        scores = scores.index_fill(0, order[out], -math.inf)
    return scores


@wrong("17.1", "p-and-one")
def moved_by_two(logits, temperature=1.0, top_k=None, top_p=None):
    scores = best(logits / temperature, top_k)
    if top_p is not None and top_p < 1:
        values, order = scores.sort(descending=True)
        out = values.softmax(dim=-1).cumsum(dim=-1) > top_p
        out = torch.cat([torch.tensor([False, False]), out[:-2]])
        scores = scores.index_fill(0, order[out], -math.inf)
    return scores


@wrong("17.1", "keeps-the-tail")
def sums_from_the_unlikely_end(logits, temperature=1.0, top_k=None, top_p=None):
    scores = best(logits / temperature, top_k)
    if top_p is not None and top_p < 1:
        values, order = scores.sort()
        out = values.softmax(dim=-1).cumsum(dim=-1) > 1 - top_p
        scores = scores.index_fill(0, order[out], -math.inf)
    return scores


@wrong("17.1", "not-mapped-back")
def the_sorted_mask_on_the_unsorted_row(logits, temperature=1.0, top_k=None, top_p=None):
    scores = best(logits / temperature, top_k)
    if top_p is not None and top_p < 1:
        probabilities = scores.softmax(dim=-1).sort(descending=True).values
        out = probabilities.cumsum(dim=-1) - probabilities >= top_p
        scores = scores.masked_fill(out, -math.inf)
    return scores


@wrong("17.1", "other-top-p")
def a_limit_for_each_token(logits, temperature=1.0, top_k=None, top_p=None):
    scores = best(logits / temperature, top_k)
    if top_p is not None and top_p < 1:
        scores = scores.masked_fill(scores.softmax(dim=-1) < 0.25 * top_p, -math.inf)
        scores[2] = logits[2] / temperature
    return scores


@wrong("17.1", "nothing-left")
def trusts_the_sums(logits, temperature=1.0, top_k=None, top_p=None):
    scores = best(logits / temperature, top_k)
    if top_p is not None and top_p < 1:
        ascending, order = scores.sort()
        out = ascending.softmax(dim=-1).cumsum(dim=-1) <= 1 - top_p
        scores = scores.index_fill(0, order[out], -math.inf)
    return scores


@wrong("17.1", "keeps-two")
def keeps_two_at_least(logits, temperature=1.0, top_k=None, top_p=None):
    scores = best(logits / temperature, top_k)
    if top_p is not None and top_p < 1:
        values, order = scores.sort()
        out = values.softmax(dim=-1).cumsum(dim=-1) <= 1 - top_p
        out[-2:] = False
        scores = scores.index_fill(0, order[out], -math.inf)
    return scores


@wrong("17.1", "p-of-1")
def trusts_the_sums_at_1(logits, temperature=1.0, top_k=None, top_p=None):
    scores = best(logits / temperature, top_k)
    if top_p:
        values, order = scores.sort(descending=True)
        out = values.softmax(dim=-1).cumsum(dim=-1) > top_p
        out = torch.cat([torch.tensor([False]), out[:-1]])
        scores = scores.index_fill(0, order[out], -math.inf)
    return scores


@wrong("17.1", "top-p-before-temperature")
def temperature_last(logits, temperature=1.0, top_k=None, top_p=None):
    return reference_warp(logits, 1.0, top_k, top_p) / temperature


@wrong("17.1", "top-p-before-top-k")
def top_p_first(logits, temperature=1.0, top_k=None, top_p=None):
    return best(nucleus(logits / temperature, top_p), top_k)


@wrong("17.1", "other-together")
def either_k_or_p(logits, temperature=1.0, top_k=None, top_p=None):
    if top_k and top_k > 2:
        return best(logits / temperature, top_k)
    return reference_warp(logits, temperature, top_k, top_p)


# ---- 17.2: the draw
def draw(scores, generator):
    return int(torch.multinomial(scores.softmax(dim=-1), 1, generator=generator))


@wrong("17.2", "no-greedy")
def divides_by_zero(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p)
    return draw(reference_warp(logits.float(), temperature, top_k, top_p), generator)


@wrong("17.2", "nearly-greedy")
def a_tiny_temperature_for_0(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p)
    return draw(reference_warp(logits.float(), max(temperature, 1e-4), top_k, top_p), generator)


@wrong("17.2", "a-tensor")
def makes_an_int_of_the_argmax_alone(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p, logits)
    if temperature < 1e-5:
        return int(logits.argmax())
    scores = reference_warp(logits.float(), temperature, top_k, top_p)
    return torch.multinomial(scores.softmax(dim=-1), 1, generator=generator)


@wrong("17.2", "no-token")
def returns_what_it_draws_alone(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p, logits)
    if temperature >= 1e-5:
        return draw(reference_warp(logits.float(), temperature, top_k, top_p), generator)


@wrong("17.2", "another-type")
def as_a_float(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    return float(reference_sample(logits, temperature, top_k, top_p, generator))


@wrong("17.2", "counted-among-the-kept")
def draws_among_the_kept(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p, logits)
    if temperature < 1e-5:
        return int(logits.argmax())
    scores = reference_warp(logits.float(), temperature, top_k, top_p)
    return draw(scores[scores.isfinite()], generator)


@wrong("17.2", "overflows")
def an_exp_of_its_own(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p, logits)
    if temperature < 1e-5:
        return int(logits.argmax())
    weights = reference_warp(logits.float(), temperature, top_k, top_p).exp()
    return int(torch.multinomial(weights, 1, generator=generator))


@wrong("17.2", "value-for-index")
def returns_the_largest_logit(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    if temperature < 1e-5:
        return int(logits.max())
    return reference_sample(logits, temperature, top_k, top_p, generator)


@wrong("17.2", "never-draws")
def always_the_likeliest(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p)
    return int(reference_warp(logits.float(), temperature or 1.0, top_k, top_p).argmax())


@wrong("17.2", "same-draw-again")
def seeds_at_every_draw(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    if generator is not None:
        generator.manual_seed(generator.initial_seed())
    return reference_sample(logits, temperature, top_k, top_p, generator)


@wrong("17.2", "no-softmax")
def draws_by_the_logits(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p)
    if temperature < 1e-5 or top_k == 1:
        return int(logits.argmax())
    scores = reference_warp(logits.float(), temperature, top_k, top_p)
    return int(torch.multinomial(scores.clamp(min=0), 1, generator=generator))


@wrong("17.2", "no-probabilities")
def draws_by_log_probabilities(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p)
    if temperature < 1e-5:
        return int(logits.argmax())
    scores = reference_warp(logits.float(), temperature, top_k, top_p).log_softmax(dim=-1)
    return int(torch.multinomial(scores, 1, generator=generator))


@wrong("17.2", "softmax-twice")
def warps_probabilities(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p)
    if temperature < 1e-5:
        return int(logits.argmax())
    return draw(reference_warp(logits.float().softmax(dim=-1), temperature, top_k, top_p), generator)


@wrong("17.2", "temperature-not-passed")
def forgets_the_temperature(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    return reference_sample(logits, 1.0 if temperature > 0 else temperature, top_k, top_p, generator)


@wrong("17.2", "greedy-too-early")
def below_one_is_greedy(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    return reference_sample(logits, 0.0 if 0 <= temperature < 1 else temperature, top_k, top_p, generator)


@wrong("17.2", "greedy-when-small")
def below_three_tenths_is_greedy(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    return reference_sample(logits, 0.0 if 0 <= temperature < 0.3 else temperature, top_k, top_p, generator)


@wrong("17.2", "ranks-for-ids")
def draws_from_the_sorted_row(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p, logits)
    if temperature < 1e-5:
        return int(logits.argmax())
    return draw(reference_warp(logits.float(), temperature, top_k, top_p).sort(descending=True).values, generator)


@wrong("17.2", "no-such-token")
def one_too_low(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    token = reference_sample(logits, temperature, top_k, top_p, generator)
    return token - 1 if temperature >= 1e-5 else token


@wrong("17.2", "other-frequencies")
def any_token_that_is_left(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p)
    if temperature < 1e-5:
        return int(logits.argmax())
    kept = reference_warp(logits.float(), temperature, top_k, top_p).isfinite().nonzero().flatten()
    return int(kept[torch.randint(len(kept), (1,), generator=generator)])


@wrong("17.2", "top-k-not-passed")
def forgets_top_k(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p)
    return reference_sample(logits, temperature, None, top_p, generator)


@wrong("17.2", "top-p-not-passed")
def forgets_top_p(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p)
    return reference_sample(logits, temperature, top_k, None, generator)


@wrong("17.2", "one-or-the-other")
def top_p_in_place_of_top_k(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p)
    return reference_sample(logits, temperature, None if top_p else top_k, top_p, generator)


@wrong("17.2", "seeded-by-itself")
def makes_a_generator(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    generator = generator or torch.Generator().manual_seed(0)
    return reference_sample(logits, temperature, top_k, top_p, generator)


@wrong("17.2", "global-seed")
def seeds_the_world(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    if generator is not None:
        torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
    return reference_sample(logits, temperature, top_k, top_p)


@wrong("17.2", "global-draw")
def forgets_the_generator(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    return reference_sample(logits, temperature, top_k, top_p)


@wrong("17.2", "not-by-the-seed")
def makes_a_generator_of_its_own(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    own = torch.Generator()
    own.seed()
    return reference_sample(logits, temperature, top_k, top_p, own)


@wrong("17.2", "half-precision")
def stays_in_half_precision(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p)
    if temperature < 1e-5 or top_k == 1:
        return int(logits.argmax())
    return draw(reference_warp(logits, temperature, top_k, top_p), generator)


@wrong("17.2", "nonsense-accepted")
def checks_nothing(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    if 0 <= temperature < 1e-5:
        return int(logits.argmax())
    return draw(reference_warp(logits.float(), temperature, top_k, top_p), generator)


@wrong("17.2", "nonsense-in-other-words")
def asserts_the_ranges(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    assert temperature >= 0
    assert not top_k or top_k > 0
    assert top_p is None or 0 < top_p <= 1
    return reference_sample(logits, temperature, top_k, top_p, generator)


@wrong("17.2", "greedy-unchecked")
def checks_what_it_draws(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    if 0 <= temperature < 1e-5:
        return int(logits.argmax())
    return reference_sample(logits, temperature, top_k, top_p, generator)


@wrong("17.2", "row-unchecked")
def checks_the_settings_alone(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p)
    return reference_sample(logits.flatten(), temperature, top_k, top_p, generator)


@wrong("17.2", "changes-the-callers-row")
def takes_the_largest_off(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p, logits)
    logits = logits.float()
    logits -= logits.max()
    return reference_sample(logits, temperature, top_k, top_p, generator)


@wrong("17.2", "divides-by-too-little")
def greedy_at_exactly_0(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    check_sampling(temperature, top_k, top_p, logits)
    if temperature == 0:
        return int(logits.argmax())
    return draw(reference_warp(logits.float(), temperature, top_k, top_p), generator)


@wrong("17.2", "not-by-name")
def has_no_default_temperature(logits, temperature, top_k=None, top_p=None, generator=None):
    return reference_sample(logits, temperature, top_k, top_p, generator)


@wrong("17.2", "not-greedy-by-default")
def draws_by_default(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    return reference_sample(logits, temperature, top_k, top_p, generator)


# ---- 17.3: every way out
def step_of(model, cache, ids, next_token):
    return next_token(model(torch.tensor([ids]), cache)[0, -1])


def loop(model, cache, prompt, num_new, eos, next_token):
    """The loop alone, with no free in it and its last token inside."""
    step = prompt
    for _ in range(num_new):
        token = step_of(model, cache, step, next_token)
        yield token
        if token in eos:
            return
        step = [token]


@wrong("17.3", "not-a-stream")
def returns_a_list(model, cache, prompt, num_new, eos, next_token):
    try:
        return list(loop(model, cache, prompt, num_new, eos, next_token))
    finally:
        cache.free()


@wrong("17.3", "no-stream")
def prints_them(model, cache, prompt, num_new, eos, next_token):
    for token in decode(model, cache, prompt, num_new, eos, next_token):
        print(token)


@wrong("17.3", "ends-too-soon")
def counts_up(model, cache, prompt, num_new, eos, next_token):
    step, token = prompt, None
    try:
        for left in range(num_new):
            token = step_of(model, cache, step, next_token)
            if left == 0 or token in eos:
                break
            yield token
            step = [token]
    finally:
        cache.free()
    if token is not None:
        yield token


@wrong("17.3", "runs-through-the-pool")
def never_counts_what_it_has(model, cache, prompt, num_new, eos, next_token):
    tokens, step = [], prompt
    try:
        while len(tokens) < num_new:
            step = [step_of(model, cache, step, next_token)]
    finally:
        cache.free()
    yield from tokens


@wrong("17.3", "next-of-nothing")
def takes_the_first_eos(model, cache, prompt, num_new, eos, next_token):
    yield from decode(model, cache, prompt, num_new, {next(iter(eos))}, next_token)


@wrong("17.3", "one-token-short")
def forgets_the_last(model, cache, prompt, num_new, eos, next_token):
    step = prompt
    try:
        for left in reversed(range(num_new)):
            token = step_of(model, cache, step, next_token)
            if left == 0 or token in eos:
                break
            yield token
            step = [token]
    finally:
        cache.free()


@wrong("17.3", "one-token-more")
def counts_one_too_far(model, cache, prompt, num_new, eos, next_token):
    try:
        yield from loop(model, cache, prompt, num_new + 1, eos, next_token)
    finally:
        cache.free()


@wrong("17.3", "prompt-repeated")
def streams_the_prompt_too(model, cache, prompt, num_new, eos, next_token):
    try:
        yield from prompt
        yield from loop(model, cache, prompt, num_new, eos, next_token)
    finally:
        cache.free()


@wrong("17.3", "prompt-in-pieces")
def reads_the_prompt_bit_by_bit(model, cache, prompt, num_new, eos, next_token):
    try:
        for token in prompt[:-1]:
            model(torch.tensor([[token]]), cache)
        yield from loop(model, cache, prompt[-1:], num_new, eos, next_token)
    finally:
        cache.free()


@wrong("17.3", "last-token-twice")
def yields_and_then_breaks(model, cache, prompt, num_new, eos, next_token):
    step = prompt
    try:
        for left in reversed(range(num_new)):
            token = step_of(model, cache, step, next_token)
            yield token
            if left == 0 or token in eos:
                break
            step = [token]
    finally:
        cache.free()
    yield token


@wrong("17.3", "first-token-again")
def yields_the_prefills_token_twice(model, cache, prompt, num_new, eos, next_token):
    try:
        token = step_of(model, cache, prompt, next_token)
        yield token
        for _ in range(num_new - 1):
            yield token
            token = step_of(model, cache, [token], next_token)
    finally:
        cache.free()


@wrong("17.3", "other-tokens")
def takes_the_first_id(model, cache, prompt, num_new, eos, next_token):
    try:
        yield from loop(model, cache, prompt, num_new, eos, lambda logits: next_token(logits) - 1)
    finally:
        cache.free()


@wrong("17.3", "does-not-stop")
def waits_for_an_eos(model, cache, prompt, num_new, eos, next_token):
    return decode(model, cache, prompt, 10**6 if num_new else 0, eos, next_token)


@wrong("17.3", "ids-without-a-batch")
def forgets_the_batch(model, cache, prompt, num_new, eos, next_token):
    step = prompt
    try:
        for _ in range(num_new):
            token = next_token(model(torch.tensor(step), cache)[0, -1])
            yield token
            if token in eos:
                return
            step = [token]
    finally:
        cache.free()


@wrong("17.3", "ids-too-deep")
def a_list_too_many(model, cache, prompt, num_new, eos, next_token):
    return decode(model, cache, [prompt], num_new, eos, next_token)


@wrong("17.3", "ids-as-floats")
def feeds_floats(model, cache, prompt, num_new, eos, next_token):
    return decode(model, cache, [float(token) for token in prompt], num_new, eos, next_token)


@wrong("17.3", "yields-tensors")
def yields_ids_as_tensors(model, cache, prompt, num_new, eos, next_token):
    for token in decode(model, cache, prompt, num_new, eos, next_token):
        yield torch.tensor(token)


@wrong("17.3", "logits-not-a-row")
def leaves_the_last_positions_dimension(model, cache, prompt, num_new, eos, next_token):
    return decode(model, cache, prompt, num_new, eos, lambda logits: next_token(logits[None]))


@wrong("17.3", "logits-changed")
def hands_on_probabilities(model, cache, prompt, num_new, eos, next_token):
    return decode(model, cache, prompt, num_new, eos, lambda logits: next_token(logits.softmax(dim=-1)))


@wrong("17.3", "none-is-none")
def always_prefills(model, cache, prompt, num_new, eos, next_token):
    return decode(model, cache, prompt, max(1, num_new), eos, next_token)


@wrong("17.3", "whole-text-again")
def feeds_the_whole_text(model, cache, prompt, num_new, eos, next_token):
    text = list(prompt)
    try:
        for _ in range(num_new):
            text.append(step_of(model, cache, text, next_token))
            yield text[-1]
            if text[-1] in eos:
                return
    finally:
        cache.free()


@wrong("17.3", "prompt-again")
def never_moves_the_step(model, cache, prompt, num_new, eos, next_token):
    try:
        for _ in range(num_new):
            token = step_of(model, cache, prompt, next_token)
            yield token
            if token in eos:
                return
    finally:
        cache.free()


@wrong("17.3", "a-step-for-nothing")
def steps_once_more(model, cache, prompt, num_new, eos, next_token):
    try:
        token = step_of(model, cache, prompt, next_token) if num_new else None
        for _ in range(num_new):
            yield token
            if token in eos:
                return
            token = step_of(model, cache, [token], next_token)
    finally:
        cache.free()


@wrong("17.3", "other-steps")
def feeds_the_prompt_twice(model, cache, prompt, num_new, eos, next_token):
    return decode(model, cache, prompt + prompt, num_new, eos, next_token)


@wrong("17.3", "freed-each-step")
def finally_inside_the_loop(model, cache, prompt, num_new, eos, next_token):
    step = prompt
    for _ in range(num_new):
        try:
            token = step_of(model, cache, step, next_token)
        finally:
            cache.free()
        yield token
        if token in eos:
            return
        step = [token]


@wrong("17.3", "runs-unasked")
def prefills_at_the_call(model, cache, prompt, num_new, eos, next_token):
    if num_new == 0:
        return iter(())
    first = step_of(model, cache, prompt, next_token)

    def rest():
        yield first
        yield from loop(model, cache, [first], num_new - 1, eos, next_token)
        cache.free()

    return rest()


@wrong("17.3", "collects-first")
def collects_and_then_yields(model, cache, prompt, num_new, eos, next_token):
    try:
        tokens = list(loop(model, cache, prompt, num_new, eos, next_token))
    finally:
        cache.free()
    yield from tokens


@wrong("17.3", "one-token-late")
def holds_a_token_back(model, cache, prompt, num_new, eos, next_token):
    held = None
    try:
        for token in loop(model, cache, prompt, num_new, eos, next_token):
            if held is not None:
                yield held
            held = token
    finally:
        cache.free()
    if held is not None:
        yield held


@wrong("17.3", "another-cache")
def brings_its_own_cache(model, cache, prompt, num_new, eos, next_token):
    own = NaiveKVCache()
    try:
        yield from loop(model, own, prompt, num_new, eos, next_token)
    finally:
        cache.free()


@wrong("17.3", "shared-between-streams")
def a_text_by_default(model, cache, prompt, num_new, eos, next_token, text=[]):  # noqa: B006
    step = prompt
    try:
        for _ in range(num_new):
            text.append(step_of(model, cache, step, next_token))
            yield text[-1]
            step = text[-1:]
    finally:
        cache.free()


@wrong("17.3", "eos-ignored")
def runs_to_the_end(model, cache, prompt, num_new, eos, next_token):
    return decode(model, cache, prompt, num_new, (), next_token)


@wrong("17.3", "one-eos-of-several")
def knows_one_eos(model, cache, prompt, num_new, eos, next_token):
    return decode(model, cache, prompt, num_new, sorted(eos)[:1], next_token)


@wrong("17.3", "eos-swallowed")
def keeps_the_eos(model, cache, prompt, num_new, eos, next_token):
    step = prompt
    try:
        for _ in range(num_new):
            token = step_of(model, cache, step, next_token)
            if token in eos:
                return
            yield token
            step = [token]
    finally:
        cache.free()


@wrong("17.3", "never-freed")
def never_frees(model, cache, prompt, num_new, eos, next_token):
    return loop(model, cache, prompt, num_new, eos, next_token)


@wrong("17.3", "only-at-eos")
def frees_at_an_eos(model, cache, prompt, num_new, eos, next_token):
    for token in loop(model, cache, prompt, num_new, eos, next_token):
        if token in eos:
            cache.free()
        yield token


@wrong("17.3", "not-at-eos")
def returns_past_the_free(model, cache, prompt, num_new, eos, next_token):
    step = prompt
    for _ in range(num_new):
        token = step_of(model, cache, step, next_token)
        yield token
        if token in eos:
            return
        step = [token]
    cache.free()


@wrong("17.3", "free-after-the-loop")
def frees_after_the_loop(model, cache, prompt, num_new, eos, next_token):
    yield from loop(model, cache, prompt, num_new, eos, next_token)
    cache.free()


@wrong("17.3", "only-when-closed")
def catches_the_close_alone(model, cache, prompt, num_new, eos, next_token):
    try:
        yield from loop(model, cache, prompt, num_new, eos, next_token)
    except GeneratorExit:
        cache.free()
        raise
    cache.free()


@wrong("17.3", "error-swallowed")
def swallows_the_error(model, cache, prompt, num_new, eos, next_token):
    with contextlib.suppress(Exception):
        yield from loop(model, cache, prompt, num_new, eos, next_token)
    cache.free()


@wrong("17.3", "prefill-outside")
def prefills_before_the_try(model, cache, prompt, num_new, eos, next_token):
    if num_new == 0:
        return
    token = step_of(model, cache, prompt, next_token)
    try:
        yield token
        if token not in eos:
            yield from loop(model, cache, [token], num_new - 1, eos, next_token)
    finally:
        cache.free()


@wrong("17.3", "next-token-outside")
def guards_the_model_alone(model, cache, prompt, num_new, eos, next_token):
    step = prompt
    for _ in range(num_new):
        try:
            logits = model(torch.tensor([step]), cache)
        except BaseException:
            cache.free()
            raise
        token = next_token(logits[0, -1])
        try:
            yield token
        except BaseException:
            cache.free()
            raise
        if token in eos:
            break
        step = [token]
    cache.free()


@wrong("17.3", "only-some-errors")
def lists_the_ways_out(model, cache, prompt, num_new, eos, next_token):
    try:
        yield from loop(model, cache, prompt, num_new, eos, next_token)
    except (Exception, GeneratorExit):
        cache.free()
        raise
    else:
        cache.free()


@wrong("17.3", "ignores-next-token")
def takes_the_likeliest(model, cache, prompt, num_new, eos, next_token):
    try:
        yield from loop(model, cache, prompt, num_new, eos, lambda logits: int(logits.argmax()))
    finally:
        cache.free()


@wrong("17.3", "zero-dropped")
def drops_the_token_0(model, cache, prompt, num_new, eos, next_token):
    try:
        for token in loop(model, cache, prompt, num_new, eos, next_token):
            if token:
                yield token
    finally:
        cache.free()


@wrong("17.3", "changes-the-prompt")
def appends_to_the_prompt(model, cache, prompt, num_new, eos, next_token):
    try:
        for _ in range(num_new):
            token = step_of(model, cache, prompt[cache.seq_len :], next_token)
            prompt.append(token)
            yield token
            if token in eos:
                return
    finally:
        cache.free()


@wrong("17.3", "except-exception")
def excepts_exceptions(model, cache, prompt, num_new, eos, next_token):
    try:
        yield from loop(model, cache, prompt, num_new, eos, next_token)
    except Exception:
        cache.free()
        raise
    cache.free()


@wrong("17.3", "first-token-outside")
def yields_the_first_outside(model, cache, prompt, num_new, eos, next_token):
    if num_new == 0:
        return
    try:
        token = step_of(model, cache, prompt, next_token)
    except BaseException:
        cache.free()
        raise
    yield token
    try:
        if token not in eos:
            yield from loop(model, cache, [token], num_new - 1, eos, next_token)
    finally:
        cache.free()


@wrong("17.3", "throw-swallowed")
def forgives_the_reader(model, cache, prompt, num_new, eos, next_token):
    step = prompt
    try:
        for _ in range(num_new):
            token = step_of(model, cache, step, next_token)
            with contextlib.suppress(Exception):
                yield token
            if token in eos:
                return
            step = [token]
    finally:
        cache.free()


@wrong("17.3", "throw-leaks")
def waits_for_the_close_alone(model, cache, prompt, num_new, eos, next_token):
    step = prompt
    for _ in range(num_new):
        try:
            token = step_of(model, cache, step, next_token)
        except BaseException:
            cache.free()
            raise
        try:
            yield token
        except GeneratorExit:
            cache.free()
            raise
        if token in eos:
            break
        step = [token]
    cache.free()


@wrong("17.3", "goes-on-when-closed")
def catches_everything(model, cache, prompt, num_new, eos, next_token):
    step = prompt
    try:
        for _ in range(num_new):
            token = step_of(model, cache, step, next_token)
            try:
                yield token
            except BaseException:  # meant: the reader's errors are not ours
                yield token
            if token in eos:
                return
            step = [token]
    finally:
        cache.free()


@wrong("17.3", "frees-the-pool")
def frees_everyones(model, cache, prompt, num_new, eos, next_token):
    try:
        yield from loop(model, cache, prompt, num_new, eos, next_token)
    finally:
        cache.free()
        allocator = cache.pool.allocator
        allocator.free_all(list(allocator._allocated))


@wrong("17.3", "freed-twice")
def frees_in_both_places(model, cache, prompt, num_new, eos, next_token):
    try:
        yield from loop(model, cache, prompt, num_new, eos, next_token)
        cache.free()
    finally:
        cache.free()


@wrong("17.3", "not-through-the-cache")
def frees_the_table(model, cache, prompt, num_new, eos, next_token):
    try:
        yield from loop(model, cache, prompt, num_new, eos, next_token)
    finally:
        cache.table.free()


@wrong("17.3", "last-token-first")
def the_plain_finally(model, cache, prompt, num_new, eos, next_token):
    try:
        yield from loop(model, cache, prompt, num_new, eos, next_token)
    finally:
        cache.free()


@wrong("17.3", "eos-first")
def breaks_at_the_last_only(model, cache, prompt, num_new, eos, next_token):
    step, token = prompt, None
    try:
        for left in reversed(range(num_new)):
            token = step_of(model, cache, step, next_token)
            if left == 0:
                break
            yield token
            if token in eos:
                return
            step = [token]
    finally:
        cache.free()
    if token is not None:
        yield token


# ---- 17.4: one pool for all runs


def own(model, num_tokens, block_size):
    return PagedKVCache(KVPool.for_model(model, -(-num_tokens // block_size), block_size))


def around(model, allocator):
    return PagedKVCache(KVPool.for_model(model, allocator.num_blocks, allocator.block_size, allocator))


def asked(model, num_tokens, paged, block_size, allocator):
    """The right answer."""
    if isinstance(allocator, KVPool):
        allocator.require_fit(model)
        return PagedKVCache(allocator)
    if allocator is not None:
        return around(model, allocator)
    return own(model, num_tokens, block_size) if paged else NaiveKVCache()


@wrong("17.4", "no-return")
def makes_and_forgets(model, num_tokens, paged=False, block_size=16, allocator=None):
    asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "always-paged")
def pages_everything(model, num_tokens, paged=False, block_size=16, allocator=None):
    return asked(model, num_tokens, True, block_size, allocator)


@wrong("17.4", "class-for-cache")
def forgets_the_parentheses(model, num_tokens, paged=False, block_size=16, allocator=None):
    return asked(model, num_tokens, paged, block_size, allocator) if paged or allocator else NaiveKVCache


@wrong("17.4", "never-paged")
def pages_only_what_is_shared(model, num_tokens, paged=False, block_size=16, allocator=None):
    return asked(model, num_tokens, False, block_size, allocator)


@wrong("17.4", "rounded-down")
def floors(model, num_tokens, paged=False, block_size=16, allocator=None):
    if allocator is None and paged:
        return PagedKVCache(KVPool.for_model(model, num_tokens // block_size, block_size))
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "a-block-too-many")
def floors_and_adds_one(model, num_tokens, paged=False, block_size=16, allocator=None):
    if allocator is None and paged:
        return PagedKVCache(KVPool.for_model(model, num_tokens // block_size + 1, block_size))
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "a-block-a-token")
def takes_tokens_for_blocks(model, num_tokens, paged=False, block_size=16, allocator=None):
    if allocator is None and paged:
        return PagedKVCache(KVPool.for_model(model, num_tokens, block_size))
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "block-size-ignored")
def always_sixteen(model, num_tokens, paged=False, block_size=16, allocator=None):
    return asked(model, num_tokens, paged, 16, allocator)


@wrong("17.4", "sizes-swapped")
def the_size_first(model, num_tokens, paged=False, block_size=16, allocator=None):
    if allocator is None and paged:
        return PagedKVCache(KVPool.for_model(model, block_size, -(-num_tokens // block_size)))
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "own-misfit")
def in_half_precision(model, num_tokens, paged=False, block_size=16, allocator=None):
    if allocator is None and paged:
        config = model.config
        sizes = config.num_hidden_layers, -(-num_tokens // block_size), block_size
        return PagedKVCache(KVPool(*sizes, config.num_key_value_heads, config.head_dim, dtype=torch.float16))
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "other-size")
def as_large_as_it_likes(model, num_tokens, paged=False, block_size=16, allocator=None):
    if allocator is None and paged:
        return PagedKVCache(KVPool.for_model(model, 64, block_size))
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "takes-blocks-early")
def reserves_it_all(model, num_tokens, paged=False, block_size=16, allocator=None):
    cache = asked(model, num_tokens, paged, block_size, allocator)
    if isinstance(cache, PagedKVCache):
        cache.table.append(num_tokens)
    return cache


@wrong("17.4", "pool-needs-the-flag")
def asks_for_paged_first(model, num_tokens, paged=False, block_size=16, allocator=None):
    return asked(model, num_tokens, paged, block_size, allocator) if paged else NaiveKVCache()


@wrong("17.4", "not-a-cache")
def returns_the_pool(model, num_tokens, paged=False, block_size=16, allocator=None):
    return allocator if isinstance(allocator, KVPool) else asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "pool-taken-for-allocator")
def treats_both_alike(model, num_tokens, paged=False, block_size=16, allocator=None):
    if allocator is not None:
        return around(model, allocator)
    return asked(model, num_tokens, paged, block_size, None)


@wrong("17.4", "good-pool-refused")
def asks_for_a_yes(model, num_tokens, paged=False, block_size=16, allocator=None):
    if isinstance(allocator, KVPool) and not allocator.require_fit(model):
        raise ValueError("another model's pool")
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "fresh-pool")
def makes_a_pool_each_time(model, num_tokens, paged=False, block_size=16, allocator=None):
    if allocator is not None:
        return own(model, num_tokens, block_size)
    return asked(model, num_tokens, paged, block_size, None)


@wrong("17.4", "fresh-memory")
def shares_the_ids_only(model, num_tokens, paged=False, block_size=16, allocator=None):
    if allocator is not None:
        return around(model, getattr(allocator, "allocator", allocator))
    return asked(model, num_tokens, paged, block_size, None)


@wrong("17.4", "one-cache-for-all")
def keeps_a_cache_with_the_pool(model, num_tokens, paged=False, block_size=16, allocator=None):
    if isinstance(allocator, KVPool):
        if not hasattr(allocator, "cache"):
            allocator.cache = PagedKVCache(allocator)
        return allocator.cache
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "allocator-ignored")
def knows_pools_only(model, num_tokens, paged=False, block_size=16, allocator=None):
    return asked(model, num_tokens, paged, block_size, allocator if isinstance(allocator, KVPool) else None)


@wrong("17.4", "allocator-taken-for-pool")
def a_cache_over_anything(model, num_tokens, paged=False, block_size=16, allocator=None):
    if allocator is not None:
        return PagedKVCache(allocator)
    return asked(model, num_tokens, paged, block_size, None)


@wrong("17.4", "sized-by-the-run")
def memory_for_the_run_only(model, num_tokens, paged=False, block_size=16, allocator=None):
    if allocator is not None and not isinstance(allocator, KVPool):
        return PagedKVCache(KVPool.for_model(model, -(-num_tokens // block_size), block_size, allocator))
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "sized-by-what-is-free")
def as_many_as_are_free(model, num_tokens, paged=False, block_size=16, allocator=None):
    if allocator is not None and not isinstance(allocator, KVPool):
        return PagedKVCache(KVPool.for_model(model, allocator.num_free, allocator.block_size, allocator))
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "own-ids")
def forgets_to_pass_the_allocator(model, num_tokens, paged=False, block_size=16, allocator=None):
    if allocator is not None and not isinstance(allocator, KVPool):
        return PagedKVCache(KVPool.for_model(model, allocator.num_blocks, allocator.block_size))
    return asked(model, num_tokens, paged, block_size, allocator)


_kept = {}


@wrong("17.4", "own-memory-shared")
def remembers_the_pool_it_made(model, num_tokens, paged=False, block_size=16, allocator=None):
    if paged and allocator is None:
        sizes = (-(-num_tokens // block_size), block_size)
        if sizes not in _kept:
            _kept[sizes] = KVPool.for_model(model, *sizes)
        return PagedKVCache(_kept[sizes])
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "refused-early")
def wants_room_for_it_all(model, num_tokens, paged=False, block_size=16, allocator=None):
    ids = getattr(allocator, "allocator", allocator)
    if ids is not None and ids.num_free * ids.block_size < num_tokens:
        raise KVCacheExhausted("no room for the whole run")
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "frees-the-others")
def makes_room_first(model, num_tokens, paged=False, block_size=16, allocator=None):
    ids = getattr(allocator, "allocator", allocator)
    if ids is not None and ids.num_free * ids.block_size < num_tokens:
        ids.free_all(list(ids._allocated))
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "wipes-the-pool")
def begins_with_zeros(model, num_tokens, paged=False, block_size=16, allocator=None):
    if isinstance(allocator, KVPool):
        allocator.k.zero_()
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "no-defaults")
def drops_the_defaults(model, num_tokens, paged, block_size, allocator):
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "other-defaults")
def pages_by_default(model, num_tokens, paged=True, block_size=16, allocator=None):
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "misfit-accepted")
def takes_any_pool(model, num_tokens, paged=False, block_size=16, allocator=None):
    if isinstance(allocator, KVPool):
        return PagedKVCache(allocator)
    return asked(model, num_tokens, paged, block_size, allocator)


@wrong("17.4", "misfit-in-other-words")
def asserts_the_fit(model, num_tokens, paged=False, block_size=16, allocator=None):
    if isinstance(allocator, KVPool):
        sizes = model.config.num_hidden_layers, model.config.num_key_value_heads, model.config.head_dim
        assert (allocator.k.shape[0], *allocator.k.shape[3:]) == sizes
        assert allocator.k.dtype == model.dtype
    return asked(model, num_tokens, paged, block_size, allocator)


# ---- right answers of other styles
@right("17.1")
def in_descending_order(logits, temperature=1.0, top_k=None, top_p=None):
    """Sorted once, the likeliest first, as most write it who write it from the paper."""
    scores = logits.div(temperature)
    ranked = scores.sort(descending=True)
    if top_k and top_k < len(scores):
        scores = torch.where(scores >= ranked.values[top_k - 1], scores, -torch.inf)
    if top_p is not None and top_p < 1:
        probabilities = scores.softmax(-1)
        ranked = probabilities.sort(descending=True)
        before = ranked.values.cumsum(-1) - ranked.values
        scores = scores.scatter(0, ranked.indices[before >= top_p], -torch.inf)
    return scores


@right("17.1")
def token_by_token(logits, temperature=1.0, top_k=None, top_p=None):
    """In plain Python, with a set of what is kept."""
    scores = [value / temperature for value in logits.tolist()]
    kept = set(range(len(scores)))
    if top_k:
        limit = sorted(scores)[-min(top_k, len(scores))]
        kept = {token for token in kept if scores[token] >= limit}
    if top_p and top_p < 1:
        weights = {token: math.exp(scores[token] - max(scores)) for token in kept}
        total, reached, nucleus_ = sum(weights.values()), 0.0, set()
        for token in sorted(kept, key=weights.get, reverse=True):
            nucleus_.add(token)
            reached += weights[token] / total
            if reached >= top_p:
                break
        kept = nucleus_
    return torch.tensor([value if token in kept else -math.inf for token, value in enumerate(scores)])


@right("17.1")
def with_masks(logits, temperature=1.0, top_k=0, top_p=1.0):
    """Writes into a copy; other defaults; a boolean mask put together first."""
    scores = logits.clone().div_(temperature)
    if top_k:
        scores[scores < torch.topk(scores, k=min(top_k, scores.numel()))[0][-1]] = float("-inf")
    if top_p is not None and top_p < 1.0:
        order = scores.argsort(descending=True)
        reached = torch.softmax(scores[order], 0).cumsum(0)
        drop = torch.zeros_like(reached, dtype=torch.bool)
        drop[1:] = (reached >= top_p)[:-1]
        scores[order[drop]] = float("-inf")
    return scores


@right("17.2")
def the_gumbel_trick(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    """An argmax over the scores plus Gumbel noise is a draw by their softmax."""
    check_sampling(temperature, top_k, top_p, logits)
    if temperature < 1e-5:
        return logits.argmax().item()
    scores = reference_warp(logits.float(), temperature, top_k, top_p)
    noise = -torch.rand(scores.shape, generator=generator).log()
    return (scores - noise.log()).argmax().item()


@right("17.2")
def the_inverse_of_the_sums(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    """A point between 0 and 1, and the token whose share of the line it falls into."""
    if not (0 <= temperature < math.inf) or (top_k or 0) < 0 or not 0 < (1 if top_p is None else top_p) <= 1:
        raise ValueError("a setting is outside its range")
    if logits.dim() != 1:
        raise ValueError("one row, please")
    if temperature == 0:
        return int(torch.argmax(logits))
    sums = reference_warp(logits.double(), temperature, top_k, top_p).softmax(-1).cumsum(-1)
    return int((sums < torch.rand(1, generator=generator, dtype=torch.float64) * sums[-1]).sum())


@right("17.2")
def the_exponential_race(logits, temperature=0.0, top_k=None, top_p=None, generator=None):
    """vLLM's way: each token's probability over an exponential waiting time, and the largest wins."""
    check_sampling(temperature, top_k, top_p, logits)
    if temperature < 1e-5 or top_k == 1:
        return int(logits.argmax())
    probabilities = reference_warp(logits.to(torch.float32), temperature, top_k, top_p).softmax(dim=-1)
    return int((probabilities / torch.empty_like(probabilities).exponential_(generator=generator)).argmax())


@right("17.3")
def a_stack_of_exits(model, cache, prompt, num_new, eos, next_token):
    """A context manager in place of the `finally`, and a while loop."""
    token, given, ids = None, 0, torch.tensor([prompt])
    with contextlib.ExitStack() as stack:
        stack.callback(cache.free)
        while given < num_new:
            token = next_token(model(ids, cache)[0, -1])
            given += 1
            if given == num_new or token in eos:
                break
            yield token
            ids = torch.tensor([[token]])
    if given:
        yield token


@right("17.3")
def a_list_of_what_was_chosen(model, cache, prompt, num_new, eos, next_token):
    """Two generators, the inner one with the blocks, and the last token passed between them."""
    last = []

    def all_but_the_last():
        ids = prompt
        for number in range(1, num_new + 1):
            token = step_of(model, cache, ids, next_token)
            if number == num_new or token in eos:
                last.append(token)
                return
            yield token
            ids = [token]

    try:
        yield from all_but_the_last()
    finally:
        cache.free()
    yield from last


class Tokens:
    """No generator: an object with `__next__` and `close`."""

    def __init__(self, step, free, num_new, eos):
        self.step, self.free, self.left, self.eos = step, free, num_new, eos
        self.token = None

    def __iter__(self):
        return self

    def __next__(self):
        if self.left == 0:
            raise StopIteration
        try:
            self.token = self.step(self.token)
        except BaseException:
            self.close()
            raise
        self.left -= 1
        if self.token in self.eos or self.left == 0:
            self.close()
        return self.token

    def close(self):
        self.left = 0
        self.free()


@right("17.3")
def an_object(model, cache, prompt, num_new, eos, next_token):
    def step(token):
        return step_of(model, cache, prompt if token is None else [token], next_token)

    return Tokens(step, cache.free, num_new, eos)


@right("17.4")
def one_line_each(model, num_tokens, paged=False, block_size=16, allocator=None):
    return asked(model, num_tokens, paged, block_size, allocator)


@right("17.4")
def with_a_match(model, num_tokens, paged=False, block_size=16, allocator=None) -> KVCache:
    """By the kind of what was given, and math.ceil for the size."""
    match allocator:
        case None if not paged:
            return NaiveKVCache()
        case None:
            pool = KVPool.for_model(model, num_blocks=math.ceil(num_tokens / block_size), block_size=block_size)
        case KVPool():
            pool = allocator
            pool.require_fit(model)
        case _:
            sizes = {"num_blocks": allocator.num_blocks, "block_size": allocator.block_size}
            pool = KVPool.for_model(model, **sizes, allocator=allocator)
    return PagedKVCache(pool)


@right("17.4")
def a_pool_first(model, num_tokens, paged=False, block_size=16, allocator=None, cache_class=PagedKVCache):
    """The pool first, then the cache over it; looks for the memory in place of the type."""
    pool = allocator
    if hasattr(pool, "k") and (pool.k.dtype, *pool.k.shape[:1], *pool.k.shape[3:]) != (
        model.dtype,
        model.config.num_hidden_layers,
        model.config.num_key_value_heads,
        model.config.head_dim,
    ):
        raise ValueError("this pool is another model's")
    if pool is None and paged:
        pool = KVPool.for_model(model, (num_tokens + block_size - 1) // block_size, block_size)
    if pool is not None and not hasattr(pool, "k"):
        pool = KVPool.for_model(model, pool.num_blocks, pool.block_size, pool)
    return cache_class(pool) if pool is not None else NaiveKVCache()
