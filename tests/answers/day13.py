"""Day 13: caches, costs and shares that people write."""

from fractions import Fraction
from functools import cache, partial
from statistics import mean

import numpy as np
import torch

from nanoserve.cache import KVCache, NaiveKVCache
from nanoserve.course.tasks import find
from nanoserve.memory import kv_bytes_per_token, used_share
from tests.answers import Right, Wrong

WRONG: list[Wrong] = []
RIGHT: list[Right] = []


def wrong(task: str, slip: str):
    def keep(answer):
        WRONG.append(Wrong(task, slip, answer))
        return answer

    return keep


def right(*tasks: str):
    def keep(answer):
        RIGHT.extend(Right(task, answer) for task in tasks)
        return answer

    return keep


Given = find("13.1").stand_in()


def join(held, k, v, dim=2):
    return (k, v) if held is None else (torch.cat([held[0], k], dim=dim), torch.cat([held[1], v], dim=dim))


# ---- 13.1: the contiguous cache
@wrong("13.1", "no-return")
class ForgetsToReturn(Given):
    def append(self, layer, k, v):
        super().append(layer, k, v)


@wrong("13.1", "not-a-pair")
class StacksThem(Given):
    def append(self, layer, k, v):
        return torch.stack(super().append(layer, k, v))


@wrong("13.1", "not-tensors")
class JoinsWithNumPy(Given):
    def append(self, layer, k, v):
        if layer in self._held:
            k, v = (np.concatenate(pair, axis=2) for pair in zip(self._held[layer], (k, v), strict=True))
        self._held[layer] = k, v
        return k, v


@wrong("13.1", "truth-of-a-tensor")
class AsksATensorWhetherItIsTrue(Given):
    def append(self, layer, k, v):
        keys, values = self._held.get(layer, (None, None))
        if keys:
            k, v = join((keys, values), k, v)
        self._held[layer] = k, v
        return k, v


@wrong("13.1", "other-device")
class KeepsShapesAlone(Given):
    def append(self, layer, k, v):
        return tuple(held.to("meta") for held in super().append(layer, k, v))


@wrong("13.1", "swapped")
class ValuesFirst(Given):
    def append(self, layer, k, v):
        keys, values = super().append(layer, k, v)
        return values, keys


@wrong("13.1", "last-token-only")
class KeepsTheLastToken(Given):
    def append(self, layer, k, v):
        return super().append(layer, k[:, :, -1:], v[:, :, -1:])


@wrong("13.1", "batch-dropped")
class Squeezes(Given):
    def append(self, layer, k, v):
        keys, values = super().append(layer, k, v)
        return keys[0], values[0]


@wrong("13.1", "altered")
class RepeatsTheHeads(Given):
    def append(self, layer, k, v):
        keys, values = super().append(layer, k, v)
        return keys.repeat_interleave(3, dim=1), values.repeat_interleave(3, dim=1)


@wrong("13.1", "changes-its-arguments")
class WipesTheStep(Given):
    def append(self, layer, k, v):
        result = super().append(layer, k.clone(), v.clone())
        k.zero_()
        v.zero_()
        return result


@wrong("13.1", "rounded")
class KeepsBfloat16(Given):
    def append(self, layer, k, v):
        keys, values = super().append(layer, k.to(torch.bfloat16), v.to(torch.bfloat16))
        return keys.to(k.dtype), values.to(v.dtype)


@wrong("13.1", "window")
class TheLast64(Given):
    def append(self, layer, k, v):
        keys, values = super().append(layer, k, v)
        self._held[layer] = keys[:, :, -64:], values[:, :, -64:]
        return self._held[layer]


@wrong("13.1", "room-is-full")
class RoomFor64(Given):
    tokens = 0

    seq_len = property(lambda self: self.tokens)

    def free(self):
        super().free()
        self.tokens = 0

    def append(self, layer, k, v):
        room = self._held.setdefault(layer, tuple(k.new_zeros(1, k.shape[1], 64, k.shape[3]) for _ in range(3)))
        start = int((room[2][0, 0, :, 0] > 0).sum())
        end = start + k.shape[2]
        for memory, new in zip(room, (k, v, torch.ones_like(k)), strict=True):
            memory[:, :, start:end] = new
        self.tokens = max(self.tokens, end)
        return room[0][:, :, :end], room[1][:, :, :end]


@wrong("13.1", "values-are-keys")
class CopiedTheLine(Given):
    def append(self, layer, k, v):
        return super().append(layer, k, k)


@wrong("13.1", "stored-not-returned")
class ReturnsTheStep(Given):
    def append(self, layer, k, v):
        super().append(layer, k, v)
        return k, v


@wrong("13.1", "overwritten")
class KeepsTheNewest(Given):
    def append(self, layer, k, v):
        self._held[layer] = k, v
        return k, v


@wrong("13.1", "first-only")
class SetsADefault(Given):
    def append(self, layer, k, v):
        return self._held.setdefault(layer, (k, v))


@wrong("13.1", "newest-first")
class NewestFirst(Given):
    def append(self, layer, k, v):
        if layer in self._held:
            keys, values = self._held[layer]
            k, v = torch.cat([k, keys], dim=2), torch.cat([v, values], dim=2)
        self._held[layer] = k, v
        return k, v


class JoinsAlong(Given):
    dim = 0

    def append(self, layer, k, v):
        self._held[layer] = join(self._held.get(layer), k, v, self.dim)
        return self._held[layer]


@wrong("13.1", "along-batch")
class CatWithoutADim(JoinsAlong):
    pass


@wrong("13.1", "along-heads")
class CatAlongHeads(JoinsAlong):
    dim = 1


@wrong("13.1", "along-width")
class CatAlongTheLast(JoinsAlong):
    dim = -1


@wrong("13.1", "values-forgotten")
class GrowsTheKeys(Given):
    def append(self, layer, k, v):
        if layer in self._held:
            k = torch.cat([self._held[layer][0], k], dim=2)
        self._held[layer] = k, v
        return k, v


@wrong("13.1", "keys-before-values")
class CatsValuesToKeys(Given):
    def append(self, layer, k, v):
        if layer in self._held:
            keys, _ = self._held[layer]
            k, v = torch.cat([keys, k], dim=2), torch.cat([keys, v], dim=2)
        self._held[layer] = k, v
        return k, v


@wrong("13.1", "values-before-keys")
class CopiedTheCat(Given):
    def append(self, layer, k, v):
        if layer in self._held:
            keys, values = self._held[layer]
            k, v = torch.cat([keys, k], dim=2), torch.cat([values, k], dim=2)
        self._held[layer] = k, v
        return k, v


@wrong("13.1", "wrong-history")
class StoresTwice(Given):
    def append(self, layer, k, v):
        if layer in self._held:
            super().append(layer, k, v)
        return super().append(layer, k, v)


@wrong("13.1", "not-stored")
class StoresTheFirstOnly(Given):
    def append(self, layer, k, v):
        self._held.setdefault(layer, (k[:, :, :0], v[:, :, :0]))
        result = join(self._held[layer], k, v)
        if self.seq_len == 0:
            self._held[layer] = result
        return result


@wrong("13.1", "two-steps-only")
class StoresTheStep(Given):
    def append(self, layer, k, v):
        result = join(self._held.get(layer), k, v)
        self._held[layer] = (k, v) if self.seq_len else result
        self.tokens = getattr(self, "tokens", 0) + k.shape[2]
        return result

    @property
    def seq_len(self):
        return getattr(self, "tokens", 0)


@wrong("13.1", "chunk-replaces")
class APromptBeginsAnew(Given):
    def append(self, layer, k, v):
        if k.shape[2] > 1:
            self._held.pop(layer, None)
        return super().append(layer, k, v)


@wrong("13.1", "one-token-a-step")
class DecodesOneToken(Given):
    def append(self, layer, k, v):
        if layer in self._held:
            k, v = k[:, :, -1:], v[:, :, -1:]
        return super().append(layer, k, v)


@wrong("13.1", "one-history")
class IgnoresTheLayer(Given):
    def append(self, layer, k, v):
        return super().append(0, k, v)


@wrong("13.1", "first-layer-always")
class ReturnsLayerZero(Given):
    def append(self, layer, k, v):
        super().append(layer, k, v)
        return self._held[0]


@wrong("13.1", "last-layer-only")
class OneTensorAFreshPerLayer(Given):
    def append(self, layer, k, v):
        new = layer not in getattr(self, "known", set())
        self.known = getattr(self, "known", set()) | {layer}
        self._held = {0: (k, v) if new else join(self._held[0], k, v)}
        return self._held[0]


@wrong("13.1", "layers-mixed")
class KeepsTheLayerItSawLast(Given):
    def append(self, layer, k, v):
        self._held = {layer: join(self._held.get(layer), k, v)}
        return self._held[layer]


@wrong("13.1", "seq-len-no-int")
class CountsInFloats(Given):
    seq_len = property(lambda self: float(Given.seq_len.fget(self)))


@wrong("13.1", "attend-changed")
class AttendsToNothing(Given):
    def attend(self, layer, q, k, v):
        self.append(layer, k, v)
        return torch.zeros_like(q)


@wrong("13.1", "seq-len-at-start")
class StartsAtMinusOne(Given):
    seq_len = property(lambda self: max((keys.shape[2] for keys, _ in self._held.values()), default=-1))


@wrong("13.1", "seq-len-of-something-else")
class ListsOfStepsInTheDict(Given):
    def append(self, layer, k, v):
        keys, values = self._held.setdefault(layer, ([], []))
        keys.append(k)
        values.append(v)
        return torch.cat(keys, dim=2), torch.cat(values, dim=2)


@wrong("13.1", "seq-len-not-a-property")
class ForgetsTheProperty(Given):
    def seq_len(self):
        return max((keys.shape[2] for keys, _ in self._held.values()), default=0)


@wrong("13.1", "seq-len-stays")
class KeepsThemElsewhere(Given):
    def __init__(self):
        super().__init__()
        self.layers = {}

    def append(self, layer, k, v):
        self.layers[layer] = join(self.layers.get(layer), k, v)
        return self.layers[layer]


@wrong("13.1", "counts-every-layer")
class CountsInAppend(Given):
    def __init__(self):
        super().__init__()
        self.tokens = 0

    seq_len = property(lambda self: self.tokens)

    def append(self, layer, k, v):
        self.tokens += k.shape[2]
        return super().append(layer, k, v)


@wrong("13.1", "counts-steps")
class CountsCalls(Given):
    def __init__(self):
        super().__init__()
        self.steps = 0

    seq_len = property(lambda self: self.steps)

    def append(self, layer, k, v):
        self.steps += layer == 0
        return super().append(layer, k, v)


@wrong("13.1", "lags-behind")
class TakesTheShortestLayer(Given):
    seq_len = property(lambda self: min((keys.shape[2] for keys, _ in self._held.values()), default=0))


@wrong("13.1", "seq-len-off")
class CountsHeads(Given):
    seq_len = property(lambda self: max((keys.shape[1] for keys, _ in self._held.values()), default=0))


@wrong("13.1", "dtype-changed")
class StartsFromAnEmptyTensor(Given):
    def append(self, layer, k, v):
        empty = torch.empty(1, k.shape[1], 0, k.shape[3])
        self._held[layer] = join(self._held.get(layer, (empty, empty)), k, v)
        return self._held[layer]


@wrong("13.1", "shared-between-caches")
class OnTheClass(Given):
    _held = {}  # noqa: RUF012

    def __init__(self):
        pass


@wrong("13.1", "not-freed")
class FreesNothing(Given):
    def free(self):
        pass


@wrong("13.1", "whole-run")
class ForgetsAfterEight(Given):
    def append(self, layer, k, v):
        keys, values = super().append(layer, k, v)
        self._held[layer] = keys[:, :, -8:], values[:, :, -8:]
        return self._held[layer]


@right("13.1")
class ListsOfSteps(KVCache):
    """Keeps the steps apart, and joins them when they are asked for."""

    def __init__(self):
        self.steps = {}

    @property
    def seq_len(self):
        return sum(k.shape[-2] for k, _ in self.steps.get(0, []))

    def append(self, layer, k, v):
        self.steps.setdefault(layer, []).append((k, v))
        keys, values = zip(*self.steps[layer], strict=True)
        return torch.cat(keys, -2), torch.cat(values, -2)

    def free(self):
        self.steps.clear()


@right("13.1")
class RoomThatDoubles(KVCache):
    """Writes into room that doubles when it is full, and returns views of the filled part."""

    def __init__(self):
        self.memory, self.filled = {}, {}

    @property
    def seq_len(self):
        return max(self.filled.values(), default=0)

    def append(self, layer, k, v):
        start = self.filled.get(layer, 0)
        end = start + k.shape[2]
        room = self.memory.get(layer)
        if room is None or room.shape[3] < end:
            grown = k.new_zeros(2, 1, k.shape[1], 2 * end, k.shape[3])
            if room is not None:
                grown[:, :, :, :start] = room[:, :, :, :start]
            self.memory[layer] = room = grown
        room[0, :, :, start:end], room[1, :, :, start:end] = k, v
        self.filled[layer] = end
        return room[0, :, :, :end], room[1, :, :, :end]

    def free(self):
        self.memory, self.filled = {}, {}


@right("13.1")
class TwoDictsAndAList(Given):
    """Two dicts, the given methods written anew, and a list returned in place of a tuple."""

    def __init__(self):
        self.k, self.v = {}, {}

    @property
    def seq_len(self):
        return max([keys.size(2) for keys in self.k.values()] + [0])

    def append(self, layer, k, v):
        for held, new in ((self.k, k), (self.v, v)):
            held[layer] = torch.cat((held[layer], new), 2) if layer in held else new.clone()
        return [self.k[layer], self.v[layer]]

    def free(self):
        self.k.clear()
        self.v.clear()


@right("13.1")
class AnEmptyHistory(NaiveKVCache):
    """No case for the first step: it is put behind a history of no tokens."""

    def append(self, layer, k, v):
        keys, values = self._held.get(layer, (k[:, :, :0], v[:, :, :0]))
        self._held[layer] = torch.cat([keys, k], dim=-2), torch.cat([values, v], dim=-2)
        return self._held[layer]


# ---- 13.2: what a token costs
cost = partial(wrong, "13.2")


@cost("no-return")
def prints_it(config, dtype):
    print(kv_bytes_per_token(config, dtype))


@cost("keys-only")
def forgets_the_values(config, dtype):
    return config.num_hidden_layers * config.num_key_value_heads * config.head_dim * dtype.itemsize


@cost("one-layer")
def of_one_layer(config, dtype):
    return 2 * config.num_key_value_heads * config.head_dim * dtype.itemsize


@cost("query-heads")
def with_hidden_size(config, dtype):
    return 2 * config.num_hidden_layers * config.hidden_size * dtype.itemsize


@cost("queries-too")
def the_fused_projection(config, dtype):
    heads = config.num_attention_heads + 2 * config.num_key_value_heads
    return config.num_hidden_layers * heads * config.head_dim * dtype.itemsize


@cost("numbers-not-bytes")
def forgets_the_dtype(config, dtype):
    return 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim


@cost("always-two-bytes")
def assumes_half_precision(config, dtype):
    return 2 * forgets_the_dtype(config, dtype)


@cost("always-four-bytes")
def assumes_float32(config, dtype):
    return 4 * forgets_the_dtype(config, dtype)


@cost("bits")
def in_bits(config, dtype):
    return forgets_the_dtype(config, dtype) * torch.finfo(dtype).bits


@cost("per-sequence")
def of_the_longest_text(config, dtype):
    return kv_bytes_per_token(config, dtype) * config.max_position_embeddings


@cost("kib")
def in_kib(config, dtype):
    return kv_bytes_per_token(config, dtype) / 1024


@cost("not-an-integer")
def bits_over_eight(config, dtype):
    return in_bits(config, dtype) / 8


@cost("not-a-number")
def with_commas(config, dtype):
    return f"{kv_bytes_per_token(config, dtype):,}"


@cost("other-count")
def as_the_square_of_two(config, dtype):
    return kv_bytes_per_token(config, dtype) * 2


@cost("config-as-a-key")
@cache
def remembers_by_config(config, dtype):
    return kv_bytes_per_token(config, dtype)


@cost("hard-coded")
def remembers_smollm2(config, dtype):
    return 11_520 * dtype.itemsize


@cost("layers-fixed")
def thirty_layers(config, dtype):
    return 2 * 30 * config.num_key_value_heads * config.head_dim * dtype.itemsize


@cost("kv-heads-fixed")
def three_heads(config, dtype):
    return 2 * config.num_hidden_layers * 3 * config.head_dim * dtype.itemsize


@cost("head-dim-derived")
def divides_hidden_size(config, dtype):
    head_dim = config.hidden_size // config.num_attention_heads
    return 2 * config.num_hidden_layers * config.num_key_value_heads * head_dim * dtype.itemsize


@cost("head-dim-fixed")
def sixty_four_wide(config, dtype):
    return 2 * config.num_hidden_layers * config.num_key_value_heads * 64 * dtype.itemsize


@cost("two-or-four")
def two_or_else_four(config, dtype):
    return forgets_the_dtype(config, dtype) * (2 if dtype in (torch.float16, torch.bfloat16) else 4)


@cost("two-or-four-bytes")
def four_or_else_two(config, dtype):
    return forgets_the_dtype(config, dtype) * (4 if dtype == torch.float32 else 2)


@right("13.2")
def measures_a_tensor(config, dtype):
    one = torch.empty(2, config.num_hidden_layers, config.num_key_value_heads, config.head_dim, dtype=dtype)
    return one.nbytes


@right("13.2")
def adds_up_the_layers(config, dtype):
    keys = values = config.num_key_value_heads * config.head_dim * torch.empty(0, dtype=dtype).element_size()
    return sum(keys + values for _ in range(config.num_hidden_layers))


@right("13.2")
def bits_in_whole_bytes(config, dtype, tensors=2):
    heads = tensors * config.num_hidden_layers * config.num_key_value_heads
    return heads * config.head_dim * (torch.finfo(dtype).bits // 8)


@right("13.2")
def product_by_numpy(config, dtype):
    return np.prod([2, config.num_hidden_layers, config.num_key_value_heads, config.head_dim, dtype.itemsize])


# ---- 13.3: what a reservation wastes
share = partial(wrong, "13.3")


@share("no-return")
def prints_the_share(lengths, max_len):
    print(used_share(lengths, max_len))


@share("not-a-number")
def leaves_it_a_fraction(lengths, max_len):
    return Fraction(sum(lengths), len(lengths) * max_len)


@share("wasted-share")
def the_waste(lengths, max_len):
    return 1 - used_share(lengths, max_len)


@share("per-cent")
def in_per_cent(lengths, max_len):
    return 100 * used_share(lengths, max_len)


@share("tokens-not-share")
def just_the_tokens(lengths, max_len):
    return sum(lengths)


@share("mean-length")
def the_mean_length(lengths, max_len):
    return mean(lengths)


@share("tokens-wasted")
def just_the_waste(lengths, max_len):
    return len(lengths) * max_len - sum(lengths)


@share("inverted")
def upside_down(lengths, max_len):
    return len(lengths) * max_len / sum(lengths)


@share("one-reservation")
def one_for_all(lengths, max_len):
    return sum(lengths) / max_len


@share("longest-for-all")
def reserves_the_longest(lengths, max_len):
    return sum(lengths) / (len(lengths) * max(lengths))


@share("integer-division")
def rounds_down(lengths, max_len):
    return sum(lengths) // (len(lengths) * max_len)


@share("other-share")
def the_fullest_one(lengths, max_len):
    return max(lengths) / max_len


@share("refuses-exact-fit")
def greater_or_equal(lengths, max_len):
    if any(length >= max_len for length in lengths):
        raise ValueError(f"{max(lengths)} tokens do not fit")
    return used_share(lengths, max_len)


@share("last-token-not-stored")
def leaves_out_the_full_one(lengths, max_len):
    return used_share([length - (length == max_len) for length in lengths], max_len)


@share("changes-callers-list")
def pops_them(lengths, max_len):
    reserved, total = len(lengths) * max_len, 0
    while lengths:
        total += lengths.pop()
    return total / reserved


@share("no-requests")
def divides_by_nothing(lengths, max_len):
    return sum(lengths) / (len(lengths) * max_len)


@share("no-share-of-nothing")
def all_of_nothing(lengths, max_len):
    return used_share(lengths, max_len) if lengths else 1.0


@share("zero-refused")
def refuses_none_too(lengths, max_len):
    for length in lengths:
        if length <= 0:
            raise ValueError(f"a request of {length} tokens")
    return used_share(lengths, max_len)


@share("not-refused")
def catches_its_own_error(lengths, max_len):
    try:
        return used_share(lengths, max_len)
    except ValueError:
        return 0.0


@share("overflows")
def trusts_the_lengths(lengths, max_len):
    return sum(lengths) / (len(lengths) * max_len) if lengths else 0.0


@share("clipped")
def cuts_them(lengths, max_len):
    return used_share([min(length, max_len) for length in lengths], max_len)


@share("left-out")
def skips_them(lengths, max_len):
    return used_share([length for length in lengths if length <= max_len], max_len)


@share("assert-for-an-error")
def asserts_it(lengths, max_len):
    assert all(length <= max_len for length in lengths)
    return used_share(lengths, max_len)


@share("wrong-error-type")
def raises_overflow(lengths, max_len):
    if lengths and max(lengths) > max_len:
        raise OverflowError(f"{max(lengths)} > {max_len}")
    return used_share(lengths, max_len)


@share("unnamed-length")
def does_not_say_which(lengths, max_len):
    if lengths and max(lengths) > max_len:
        raise ValueError("a request is too long")
    return used_share(lengths, max_len)


@share("rounded-share")
def two_decimals(lengths, max_len):
    return round(used_share(lengths, max_len), 2)


@share("negative-length")
def looks_at_the_longest_only(lengths, max_len):
    if lengths and max(lengths) > max_len:
        raise ValueError(f"{max(lengths)} > {max_len}")
    return sum(lengths) / (len(lengths) * max_len) if lengths else 0.0


@share("not-every-length")
def leaves_out_the_last(lengths, max_len):
    for length in lengths[:-1]:
        if not 0 <= length <= max_len:
            raise ValueError(f"no room for {length} tokens: a row has {max_len}")
    return used_share([min(max(length, 0), max_len) for length in lengths], max_len)


@share("no-room")
def looks_at_the_lengths_only(lengths, max_len):
    for length in lengths:
        if not 0 <= length <= max_len:
            raise ValueError(length)
    return sum(lengths) / (len(lengths) * max_len) if lengths else 0.0


def refuse(lengths, max_len):
    if max_len < 1:
        raise ValueError("no room")
    if unfit := [length for length in lengths if length not in range(max_len + 1)]:
        raise ValueError(f"not from 0 to {max_len}: {unfit}")


@right("13.3")
def the_mean_of_the_shares(lengths, max_len):
    refuse(lengths, max_len)
    return mean(length / max_len for length in lengths) if lengths else 0.0


@right("13.3")
def with_tensors(lengths, max_len):
    refuse(lengths, max_len)
    return 0.0 if len(lengths) == 0 else torch.tensor(lengths, dtype=torch.float64).div(max_len).mean().item()


@right("13.3")
def in_float32(lengths, max_len):
    refuse(lengths, max_len)
    return np.asarray(lengths, dtype=np.float32).mean() / np.float32(max_len) if lengths else 0.0


@right("13.3")
def one_minus_the_waste(lengths, max_len, default=0):
    used = reserved = default
    for length in lengths:
        if not 0 <= length <= max_len or max_len < 1:
            raise ValueError(f"{length} in {max_len}")
        used, reserved = used + length, reserved + max_len
    return 1 - (reserved - used) / reserved if reserved else default
