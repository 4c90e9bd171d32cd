"""Day 16's planted fault, and the picture by which it is found."""

import torch

from nanoserve import KVPool, NaiveKVCache, PagedKVCache
from nanoserve.course.exercises.day16.key_map import whose_keys
from nanoserve.course.exercises.day16.planted import SuspectCache


def keys_kept(cache_class, chunks, block_size=8):
    """Whose key lies at each position, after a prompt and then token after token."""
    pool = KVPool(2, 8, block_size, 1, 4)
    pool.k.zero_()
    pool.v.zero_()
    cache, witness = cache_class(pool), NaiveKVCache()
    generator = torch.Generator().manual_seed(0)
    for num_tokens in chunks:
        for layer in range(2):
            k, v = torch.randn(2, 1, 1, num_tokens, 4, generator=generator)
            kept, right = cache.append(layer, k, v)[0], witness.append(layer, k, v)[0]
    return whose_keys(kept[0, 0], right[0, 0])


def test_the_suspect_puts_each_blocks_first_token_one_block_too_early():
    own = list(range(32))
    assert keys_kept(PagedKVCache, [5, *[1] * 27]) == own
    wrong = {0: 8, 8: 16, 16: 24, 24: None}
    assert keys_kept(SuspectCache, [5, *[1] * 27]) == [wrong.get(position, position) for position in own]


def test_the_suspect_is_right_as_long_as_one_block_or_one_prompt_lasts():
    assert keys_kept(SuspectCache, [3, *[1] * 5]) == list(range(8))
    assert keys_kept(SuspectCache, [27]) == list(range(27))
