"""`watch(allocator)` records what an allocator does, whoever wrote it, and shows it as pictures."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from reprlib import repr as short_repr
from typing import Any

from nanoserve.course.view.calls import argument, block_ids_in, readable, told, whole
from nanoserve.course.view.history import History
from nanoserve.course.view.hooks import hook
from nanoserve.course.view.state import PoolSequence, name_blocks, plural
from nanoserve.course.view.words import growth


def watch(allocator: Any, place: str = "slot") -> "Watch":
    """Record every call to an allocator from now on; name the result at the end of a cell to see it.

    Args:
        allocator: an instance with `num_blocks`, `block_size` and any of `allocate()`, `allocate_for(num_tokens)`,
            `free(block_id)`, `free_all(block_ids)`; or a pool that has such an `allocator`.
        place: what a token's place in a block is called; another word where a slot is a row of a batch.

    Raises:
        TypeError: it is a class, or lacks the two sizes.
    """
    return Watch(getattr(allocator, "allocator", allocator), place)


class Watch(History):
    """The history of one allocator: its events, and the pool's state after each.

    Each successful call that takes blocks is a new owner A, B, C … unless `sequence` or `follow` names one.
    """

    def __init__(self, allocator: Any, place: str = "slot") -> None:
        if isinstance(allocator, type):
            raise TypeError(f"watch an allocator, not its class: watch({allocator.__name__}(6, 16))")
        missing = [name for name in ("num_blocks", "block_size") if not hasattr(allocator, name)]
        if missing:
            raise TypeError(f"a {type(allocator).__name__} cannot be watched: it has no {' and no '.join(missing)}")
        super().__init__(allocator, place)
        self._owner: str | None = None
        self._inside = False
        hook(allocator, ("allocate", "allocate_for"), self._taking)
        hook(allocator, ("free", "free_all"), self._giving)

    @contextmanager
    def sequence(self, label: str) -> Iterator[None]:
        """Within the `with` block, all that is allocated belongs to `label`."""
        before, self._owner = self._owner, self.ledger.claim(str(label))
        try:
            yield
        finally:
            self._owner = before

    def follow(self, label: str, table: Any, tokens: Sequence[str] = ()) -> None:
        """Record a block table too: its appends become events, and its tokens lie in their slots.

        Args:
            label: whose table it is.
            table: has `append(num_tokens)`, `block_ids`, `num_tokens` and perhaps `free()`; or a cache that has
                such a `table`.
            tokens: text of position 0, 1, 2 …, known beforehand or growing along.
        """
        label = self.ledger.claim(str(label))
        table = getattr(table, "table", table)
        self.tables[label] = table
        hook(table, ("append", "free"), partial(self._table_call, label, table, tokens))
        if block_ids := block_ids_in(table.block_ids):
            self.ledger.give(block_ids)
            self._read_table(label, table, tokens)
            self.record("take", label, f"{label} holds {name_blocks(block_ids)} already")

    def _taking(self, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if self._inside:
            return method(*args, **kwargs)
        call = told(name, args, kwargs)
        with self._outermost(call, self._owner or ""):
            result = method(*args, **kwargs)
        block_ids = block_ids_in(result)
        if block_ids is None:
            wanted = "a block id" if name == "allocate" else "a list of block ids"
            self.record("fault", self._owner or "", f"{call} returned {short_repr(result)}, not {wanted}")
        elif not block_ids:
            self.record("take", self._owner or "", f"{call} takes no block")
        else:
            label = self._owner or self.ledger.next_label()
            num_tokens = whole(argument(args, kwargs)) if name == "allocate_for" else None
            self.ledger.take(label, block_ids, num_tokens)
            what = "" if num_tokens is None else f"{plural(num_tokens, 'token')}: "
            self.record("take", label, f"{label} takes {what}{name_blocks(block_ids)}", block_ids)
        return result

    def _giving(self, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if self._inside:
            return method(*args, **kwargs)
        args = readable(args)
        block_ids = block_ids_in(argument(args, kwargs)) or []  # read first: the method may empty the very list
        call = told(name, args, kwargs)
        with self._outermost(call, self._owner or ""):
            result = method(*args, **kwargs)
        givers, nobodys = self.ledger.give(block_ids, self._owner)
        label = givers[0] if givers else ""
        if nobodys:
            text = f"{call} raised nothing, but nobody held {name_blocks(nobodys)}"
            self.record("fault", label, text, freed_twice=nobodys)
        else:
            who = f"{' and '.join(givers)} {'frees' if len(givers) == 1 else 'free'}" if givers else f"{call} frees"
            self.record("free", label, f"{who} {name_blocks(block_ids)}", tells_next=bool(block_ids))
        return result

    def _table_call(
        self,
        label: str,
        table: Any,
        tokens: Sequence[str],
        name: str,
        method: Callable[..., Any],
        *args: Any,
        **kw: Any,
    ) -> Any:
        __tracebackhide__ = True
        if self._inside:
            return method(*args, **kw)
        before = self.ledger.of(label)
        with self._outermost(told(f"{label}.{name}", args, kw), label, partial(self._read_table, label, table, tokens)):
            result = method(*args, **kw)
        self._read_table(label, table, tokens)
        if name == "free":
            freed = [block.block_id for block in before]
            self.record("free", label, f"{label} frees {name_blocks(freed)}", tells_next=bool(freed))
        else:
            now = self.ledger.of(label)
            counted = whole(table.num_tokens) or 0
            self.record(*growth(label, before, now, counted, self.ledger.block_size, tokens, self.place))
        return result

    def _read_table(self, label: str, table: Any, tokens: Sequence[str]) -> None:
        self.has_text |= bool(tokens)
        # A learner's table may not hold numbers yet; that is for the check to say, not for the picture to stumble over.
        block_ids, num_tokens = block_ids_in(table.block_ids) or [], whole(table.num_tokens) or 0
        self.ledger.put(label, PoolSequence.of(label, block_ids, num_tokens, self.ledger.block_size, tokens).blocks)

    @contextmanager
    def _outermost(self, call: str, label: str, then: Callable[[], None] = lambda: None) -> Iterator[None]:
        """One call of the caller's: what it calls on its way is its own matter, and what it raises is an event."""
        self._inside = True
        try:
            yield
        except Exception as error:
            self._inside = False
            then()
            self.record("error", label, f"{call} raised {type(error).__name__}", reason=str(error))
            raise
        finally:
            self._inside = False
