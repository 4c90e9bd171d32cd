"""The online softmax: one head goes over a text's scattered blocks, and what it knows is corrected at each."""

import torch

from nanoserve.attention import blockwise_attention
from nanoserve.course.exercises.day18.recording import recorded
from nanoserve.course.exercises.day18.walk_view import WalkView

WORDS = "Attention| reads| the| blocks| where| they| lie| and| keeps| largest|,| total| and| mixed|."
TABLE, OTHERS, NUM_BLOCKS, BLOCK_SIZE = [5, 0, 3, 6], [1, 4], 8, 4
SCORES = (0, 1, -2, -1, 1.5, -1, 0, 3, 1, 2.5, -1, 2, 0, 4.5, 1)


def online_softmax(theme: str = "light") -> str:
    """A sentence of 15 tokens in blocks 5, 0, 3 and 6, with one head whose scores are chosen."""
    tokens = WORDS.split("|")
    k_pool, v_pool = torch.zeros(2, NUM_BLOCKS, BLOCK_SIZE, 1, 1, dtype=torch.float64)  # the same bytes everywhere
    for position, score in enumerate(SCORES):
        place = TABLE[position // BLOCK_SIZE], position % BLOCK_SIZE
        k_pool[place], v_pool[place] = score, position + 1
    with recorded(blockwise_attention, v_pool) as turns:
        query, table, length = k_pool.new_ones(1, 1, 1), torch.tensor([TABLE]), torch.tensor([len(tokens)])
        blockwise_attention(query, k_pool, v_pool, table, length)
    return WalkView(turns, tokens, NUM_BLOCKS, BLOCK_SIZE, OTHERS).svg(theme=theme)
