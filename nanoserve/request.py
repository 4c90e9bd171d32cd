"""Day 23: one request: what was asked for, and how far it has come."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Literal

import torch

from nanoserve.arguments import RunArguments


@dataclass(eq=False)
class Request:
    """One text on its way through an engine; `Engine.submit` makes it, and whoever holds it may look at any time.

    Attributes:
        id: its name, of which the engine has no other while this one is on its way.
        run: the prompt, the most new tokens, the ids that end it, and how it chooses a token.
        tokens: the new tokens so far; an eos that ended it is the last of them.
        slot: where it runs; None while it waits, and when it has left.
        state: where it is. A preempted request is waiting again, and keeps its tokens.
    """

    id: Hashable
    run: RunArguments
    tokens: list[int] = field(default_factory=list)
    slot: int | None = None
    state: Literal["waiting", "running", "finished", "aborted"] = "waiting"
    _choice: tuple[int, int] | None = None  # the newest choice: the place of a new token, and that token

    @property
    def is_here(self) -> bool:
        """Whether it waits or runs."""
        return self.state in ("waiting", "running")

    @property
    def token_ids(self) -> list[int]:
        """Prompt and new tokens: what is prefilled, the first time and again after a preemption."""
        return self.run.prompt + self.tokens

    @property
    def most_stored(self) -> int:
        """Tokens whose keys and values it stores at the most: nothing attends to the last one."""
        return len(self.run.prompt) + self.run.max_new_tokens - 1

    @property
    def stored_soon(self) -> int:
        """Tokens that it stores, once admitted, with the first one that it decodes, if it comes to that."""
        return min(len(self.run.prompt) + len(self.tokens) + 1, self.most_stored)

    def choose(self, logits: torch.Tensor) -> int:
        """Its next token, by its own rule, from logits (vocab_size,). A step that is done again draws nothing anew."""
        place = len(self.tokens)
        if self._choice is None or self._choice[0] != place:
            self._choice = place, self.run.next_token(logits)
        return self._choice[1]

    @property
    def is_complete(self) -> bool:
        """Whether its last token is there."""
        return len(self.tokens) == self.run.max_new_tokens or (bool(self.tokens) and self.tokens[-1] in self.run.eos)
