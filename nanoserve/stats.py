"""Day 23: what can be read of an engine at any time."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineStats:
    """How an engine stands.

    Attributes:
        steps, tokens: decode steps so far, and new tokens that came out.
        preemptions, recomputed_tokens: how often a request lost its blocks, and how many tokens were computed again
            when it came back; these are no new tokens.
        waiting, running: requests in either state.
        blocks_free, blocks_used, blocks_peak: of the allocator, the scratch block and others' included.
        used_tokens, allocated_tokens, reserved_tokens: tokens held, room in the blocks that hold them, and room in all.
    """

    steps: int
    tokens: int
    preemptions: int
    recomputed_tokens: int
    waiting: int
    running: int
    blocks_free: int
    blocks_used: int
    blocks_peak: int
    used_tokens: int
    allocated_tokens: int
    reserved_tokens: int
