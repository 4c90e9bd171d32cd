"""How a checker looks at a learner's code: it writes down each call, and compares what comes with what should."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import torch


# RuntimeErrors both, but a stub that is not written yet is no wrong answer, and an endless recursion is its own slip.
_NO_ANSWER = (NotImplementedError, RecursionError)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+(?=>)")  # another in each run


class Mismatch(Exception):
    """What came is not what should have come. `slip` names the likely reason."""

    def __init__(self, expected: str, came: str, slip: str) -> None:
        super().__init__(f"expected {expected}, came {came}")
        self.expected = expected
        self.came = came
        self.slip = slip


class Probe:
    """Makes the learner's objects, keeps the list of calls made to them, and counts the cases compared.

    Args:
        subject: the learner's class or function.
    """

    def __init__(self, subject: Callable) -> None:
        self.subject = subject
        self.calls: list[str] = []
        self.cases = 0

    def new(self, name: str, *args: object) -> "Traced":
        """An object of the learner's class under a fresh list of calls; `name` is what the list calls it."""
        self.calls.clear()
        return self.another(name, *args)

    def another(self, name: str, *args: object) -> "Traced":
        """One more object under the same list of calls."""
        line = f"{name} = {self.subject.__name__}({_list(args)})"
        return Traced(self, name, self.record(line, self.subject, *args, shows_result=False))

    def record(self, line: str, call: Callable, *args: object, shows_result: bool = True) -> object:
        """Make a call that the list shows as `line`, with what it returned or raised behind it."""
        self.calls.append(line)
        place = len(self.calls) - 1
        try:
            result = call(*args)
        except Exception as error:
            self.calls[place] = f"{line} → {named(error)}"
            raise
        if shows_result:
            self.calls[place] = f"{line} → {show(result)}"
        return result

    def equal(
        self,
        came: object,
        expected: object,
        slip: str,
        slips: Mapping[str, object] | None = None,
        same: Callable[[object, object], bool] | None = None,
        told: Callable[[object], str] | None = None,
    ) -> None:
        """One case: `came` must equal `expected`.

        Args:
            slip: the reason when nothing more is known.
            slips: for each more precise reason, the value by which it gives itself away; the first that fits is told.
            same: `same(came, other)` compares with what is expected and with each giveaway; plain equality if None.
            told: how the verdict shows what came and what was expected; `show` if None.
        """
        self.cases += 1
        same, told = same or _same, told or show
        if same(came, expected):
            return
        likely = (name for name, giveaway in (slips or {}).items() if same(came, giveaway))
        self.fail(told(expected), told(came), next(likely, slip))

    def raises(self, error: type[Exception], call: Callable, *args: object, slips: Mapping[object, str]) -> Exception:
        """One case: the call must raise `error`, which is returned.

        Args:
            slips: the reason by what came instead: another error's type, or None for no error at all.
        """
        self.cases += 1
        try:
            came = call(*args)
        except error as raised:
            return raised
        except (*_NO_ANSWER, NameError):
            raise
        except Exception as raised:
            for kind, slip in slips.items():
                if kind is not None and isinstance(raised, kind):
                    self.fail(error.__name__, named(raised), slip)
            raise
        self.fail(error.__name__, f"no error, and {show(came)} was returned", slips[None])

    @contextmanager
    def on_error(self, *errors: type[Exception], slip: str, match: str = "") -> Iterator[None]:
        """Inside the block, an error is told with the slip that it looks like.

        Args:
            errors: the kinds of error that it may be.
            slip: the likely reason.
            match: a regular expression to be found in the error's message.
        """
        try:
            yield
        except _NO_ANSWER:
            raise
        except errors as error:
            if not re.search(match, str(error)):
                raise
            self.fail("no error", named(error), slip)

    def fail(self, expected: str, came: str, slip: str) -> NoReturn:
        raise Mismatch(expected, came, slip)


class Traced:
    """A learner's object, seen through the probe: each method called and each property read is written down."""

    def __init__(self, probe: Probe, name: str, inner: object) -> None:
        self._probe, self._name, self._inner = probe, name, inner

    def __getattr__(self, attribute: str) -> object:
        name = f"{self._name}.{attribute}"
        if callable(getattr(type(self._inner), attribute, None)):
            return lambda *args: self._probe.record(f"{name}({_list(args)})", getattr(self._inner, attribute), *args)
        value = self._probe.record(name, getattr, self._inner, attribute)
        return (lambda *args: self._probe.record(f"{name}({_list(args)})", value, *args)) if callable(value) else value


def named(error: BaseException) -> str:
    """An error by its type and its message, where it has one; of a long message, the beginning."""
    message = _shortened(_ADDRESS.sub("", str(error)), 400)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def kind(value: object) -> str:
    """A value's type with its article, such as `a list` or `an int64`."""
    name = type(value).__name__
    return f"an {name}" if name[0] in "AEIOaeio" or name == "ndarray" else f"a {name}"


def in_16_bits(came: "torch.Tensor", expected: "torch.Tensor") -> bool:
    """Whether `came` is `expected` in a dtype of 16 bits, or has been in one: some of its numbers are rounded."""
    if came.shape != expected.shape or expected.element_size() <= 2:
        return False
    shortened = came.element_size() == 2 or not (came == expected).all()
    return shortened and any(
        bool(((came == expected) | (came == short)).all()) for short in (expected.bfloat16(), expected.half())
    )


def show(value: object, limit: int = 200) -> str:
    """A value on one line, shortened when it is long; a repr that raises is told, not passed on.

    Of a tensor with more than a few numbers, its shape is shown.
    """
    try:
        text = _repr(value)
    except Exception as error:
        return f"<{kind(value)} whose repr raises {type(error).__name__}>"
    return _shortened(_ADDRESS.sub("", " ".join(text.split())), limit)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _repr(value: object) -> str:
    if type(value) is tuple and len(value) > 1:
        return f"({', '.join(map(_repr, value))})"
    if hasattr(value, "dtype") and hasattr(value, "shape") and (len(value.shape) > 1 or sum(value.shape) > 20):
        elsewhere = f" on {value.device}" if str(getattr(value, "device", "cpu")) != "cpu" else ""
        return f"{kind(value)} of shape {tuple(value.shape)}{elsewhere}"
    return repr(value)


def _same(came: object, expected: object) -> bool:
    """Equal, where a NumPy integer may stand for an int, but a bool or an array may not."""
    if isinstance(came, bool) or isinstance(expected, bool):
        return came is expected
    alike = isinstance(came, type(expected)) or (isinstance(came, Integral) and isinstance(expected, Integral))
    return alike and came == expected


def _list(args: tuple) -> str:
    return ", ".join(show(arg) for arg in args)
