"""`watch(allocator)` records what an allocator does, whoever wrote it, and shows it as pictures."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from reprlib import repr as short_repr
from typing import Any

from nanoserve.course.calls import argument, block_ids_in, readable, told, whole
from nanoserve.course.hooks import hook
from nanoserve.course.png import to_png
from nanoserve.course.pool_ledger import Ledger
from nanoserve.course.pool_probe import free_order
from nanoserve.course.pool_state import HeldBlock, PoolEvent, PoolSequence, PoolState, name_blocks, plural
from nanoserve.course.pool_svg import draw_pool
from nanoserve.course.pool_text import show_token


def watch(allocator: Any) -> "Watch":
    """Record every call to an allocator from now on; name the result at the end of a cell to see it.

    Args:
        allocator: an instance with `num_blocks`, `block_size` and any of `allocate()`, `allocate_for(num_tokens)`,
            `free(block_id)`, `free_all(block_ids)`; or a pool that has such an `allocator`.

    Raises:
        TypeError: it is a class, or lacks the two sizes.
    """
    return Watch(getattr(allocator, "allocator", allocator))


class Watch:
    """The history of one allocator: its events, and the pool's state after each.

    Each successful call that takes blocks is a new owner A, B, C … unless `sequence` or `follow` names one.
    """

    def __init__(self, allocator: Any) -> None:
        if isinstance(allocator, type):
            raise TypeError(f"watch an allocator, not its class: watch({allocator.__name__}(6, 16))")
        missing = [name for name in ("num_blocks", "block_size") if not hasattr(allocator, name)]
        if missing:
            raise TypeError(f"a {type(allocator).__name__} cannot be watched: it has no {' and no '.join(missing)}")
        self.allocator = allocator
        self.tables: dict[str, Any] = {}  # label -> the block table that `follow` was given
        self.events: list[PoolEvent] = []
        free = free_order(allocator)
        self._ledger = Ledger(allocator.num_blocks, allocator.block_size, free)
        self._states = [self._ledger.state(free)]
        self._texts: dict[str, Sequence[str]] = {}
        self._owner: str | None = None
        self._inside = False
        self._views: deque[Any] = deque(maxlen=4)  # a cell that is run again leaves its old view behind
        hook(allocator, ("allocate", "allocate_for"), self._taking)
        hook(allocator, ("free", "free_all"), self._giving)

    @contextmanager
    def sequence(self, label: str) -> Iterator[None]:
        """Within the `with` block, all that is allocated belongs to `label`."""
        before, self._owner = self._owner, self._ledger.claim(str(label))
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
        label = self._ledger.claim(str(label))
        table = getattr(table, "table", table)
        self.tables[label] = table
        self._texts[label] = tokens
        hook(table, ("append", "free"), partial(self._table_call, label, table, tokens))
        if table.block_ids:
            self._ledger.give(list(table.block_ids))
            self._read_table(label, table, tokens)
            self._record("take", label, f"{label} holds {plural(table.num_tokens, 'token')} already")

    def state(self, step: int | None = None) -> PoolState:
        """The pool after `step` events; now, if no step is given."""
        step = len(self.events) if step is None else range(len(self._states))[step]
        has_text = any(self._texts.values())
        return replace(self._states[step], events=tuple(self.events), step=step, room_for_text=has_text)

    def block_ids(self, label: str) -> list[int]:
        """The blocks that a sequence holds now, in table order."""
        return [block.block_id for block in self._ledger.of(label)]

    def save(self, path: str | Path, step: int | None = None, theme: str = "light", scale: float = 2) -> None:
        """Write the picture as SVG or PNG, whichever the path ends in.

        Raises:
            ValueError: the path ends in something else, or there is no such theme.
        """
        path = Path(path)
        if path.suffix not in (".svg", ".png"):
            raise ValueError(f"save to a path that ends in .svg or .png, not {path.name!r}")
        svg = draw_pool(self.state(step), theme)
        path.write_bytes(svg.encode() if path.suffix == ".svg" else to_png(svg, scale))

    def show_in(self, view: Any) -> None:
        """Call `view.refresh()` after each event from now on."""
        self._views.append(view)

    def _ipython_display_(self) -> None:
        from nanoserve.course.pool_view import show

        show(self)

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
            self._record("fault", self._owner or "", f"{call} returned {short_repr(result)}, not {wanted}")
        elif not block_ids:
            self._record("take", self._owner or "", f"{call} takes no block")
        else:
            label = self._owner or self._ledger.next_label()
            num_tokens = whole(argument(args, kwargs)) if name == "allocate_for" else None
            self._ledger.take(label, block_ids, num_tokens)
            what = "" if num_tokens is None else f"{plural(num_tokens, 'token')}: "
            self._record("take", label, f"{label} takes {what}{name_blocks(block_ids)}")
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
        givers, nobodys = self._ledger.give(block_ids, self._owner)
        label = givers[0] if givers else ""
        if nobodys:
            text = f"{call} raised nothing, but nobody held {name_blocks(nobodys)}"
            self._record("fault", label, text, freed_twice=nobodys)
        else:
            who = f"{' and '.join(givers)} {'frees' if len(givers) == 1 else 'free'}" if givers else f"{call} frees"
            self._record("free", label, f"{who} {name_blocks(block_ids)}", tells_next=bool(block_ids))
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
        before = self._ledger.of(label)
        with self._outermost(told(f"{label}.{name}", args, kw), label, partial(self._read_table, label, table, tokens)):
            result = method(*args, **kw)
        self._read_table(label, table, tokens)
        if name == "free":
            freed = [block.block_id for block in before]
            self._record("free", label, f"{label} frees {name_blocks(freed)}", tells_next=bool(freed))
        else:
            self._record(*self._growth(label, before, table.num_tokens, tokens))
        return result

    def _growth(
        self, label: str, before: list[HeldBlock], num_tokens: int, tokens: Sequence[str]
    ) -> tuple[str, str, str]:
        """What an append did, as an event: its slot if it was one token, and the blocks that it took.

        It is a fault when the table then counts more tokens than its blocks can hold.
        """
        now = self._ledger.of(label)
        had, has = (sum(block.filled or 0 for block in blocks) for blocks in (before, now))
        grown = [block.block_id for block in now[len(before) :]]
        text = f"{label} appends {plural(num_tokens - had, 'token')}"
        if num_tokens - had == 1 == has - had:
            entry, offset = divmod(has - 1, self._ledger.block_size)
            token = f" “{show_token(tokens[has - 1])}”" if has <= len(tokens) else ""
            text = f"{label} appends{token} in slot {now[entry].block_id * self._ledger.block_size + offset}"
        if grown:
            text += f", grows into {name_blocks(grown)}"
        if has < num_tokens:
            return "fault", label, f"{text}; {plural(num_tokens - has, 'token')} of {label} without a slot"
        return "take" if grown else "append", label, text

    def _read_table(self, label: str, table: Any, tokens: Sequence[str]) -> None:
        sequence = PoolSequence.of(label, table.block_ids, table.num_tokens, self._ledger.block_size, tokens)
        self._ledger.put(label, sequence.blocks)

    @contextmanager
    def _outermost(self, call: str, label: str, then: Callable[[], None] = lambda: None) -> Iterator[None]:
        """One call of the caller's: what it calls on its way is its own matter, and what it raises is an event."""
        self._inside = True
        try:
            yield
        except Exception as error:
            self._inside = False
            then()
            message = f": {error}" if str(error) else ""
            self._record("error", label, f"{call} raised {type(error).__name__}{message}")
            raise
        finally:
            self._inside = False

    def _record(
        self, kind: str, label: str, text: str, *, freed_twice: Iterable[int] = (), tells_next: bool = False
    ) -> None:
        """Keep the pool's state as it is after this event, and say what the event broke."""
        free = free_order(self.allocator)
        known = self._states[-1]
        state = self._ledger.state(free, label or known.focus, freed_twice)
        if tells_next and free:
            text += f"; block {free[0]} is next out"
        broken: dict[str, list[int]] = {}
        for block_id, fault in state.faults.items():
            if known.faults.get(block_id) != fault and not (fault == "freed twice" and kind == "fault"):
                broken.setdefault(fault, []).append(block_id)
        for fault, block_ids in broken.items():
            kind = "fault"
            text += f"; {name_blocks(block_ids)} {'is' if len(block_ids) == 1 else 'are'} {fault}"
        self.events.append(PoolEvent(kind, label, " ".join(text.split())))
        self._states.append(state)
        for view in tuple(self._views):
            view.refresh()
