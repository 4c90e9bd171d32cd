"""What `check` says, and that it neither raises nor hangs, whatever it is given."""

import re
import sys
from dataclasses import replace
from importlib import import_module
from textwrap import dedent

import numpy as np
import pytest
import torch

import nanoserve
from nanoserve.course import checking
from nanoserve.course.checking import CheckFailed, check, examine, yours
from nanoserve.course.probe import Mismatch, Probe, in_16_bits, kind, show
from nanoserve.course.tasks import Slip, Task, all_tasks, find

FIRST = find("14.1")


@pytest.fixture(autouse=True)
def _nothing_passed_yet(monkeypatch):
    monkeypatch.setattr(checking, "_passed", {})
    monkeypatch.delenv("NANOSERVE_STRICT", raising=False)


def from_source(source: str, name: str = "BlockAllocator", reference: object = nanoserve.BlockAllocator):
    """A class as a notebook makes it: from a cell's text, whose lines a traceback can show.

    What the modules of the reference and its bases import is there, as the notebook has imported it.
    """
    import linecache

    source = dedent(source)
    linecache.cache["<cell>"] = (len(source), None, source.splitlines(keepends=True), "<cell>")
    scope = {}
    for cls in reversed(getattr(reference, "__mro__", [reference])):
        scope |= vars(import_module(cls.__module__))
    scope |= {"nanoserve": nanoserve, "yours": yours, "Base": FIRST.stand_in(), "__name__": "__main__"}
    exec(compile(source, "<cell>", "exec"), scope)
    return scope[name]


def stub_of(task):
    return from_source(task.stub(), task.name, task.reference)


@pytest.mark.parametrize("task", all_tasks().values(), ids=lambda task: task.id)
def test_a_stub_is_not_started_and_the_reference_stands_in(task, capsys):
    stand_in = check(task.id, stub_of(task))
    said = capsys.readouterr().out
    assert "Not started" in said
    assert "goes on with the reference's" in said
    assert examine(task, stand_in).passed


@pytest.mark.parametrize("task", all_tasks().values(), ids=lambda task: task.id)
def test_the_solution_passes_and_goes_on(task, capsys):
    solution = from_source(task.solution(), task.name, task.reference)
    assert check(task.id, solution) is solution
    assert "Passed" in capsys.readouterr().out
    assert yours(task.id) is solution


def test_half_written_code_is_told_which_stub_is_left():
    half = from_source(FIRST.stub()).__dict__ | {"allocate": nanoserve.BlockAllocator.allocate}
    verdict = examine(FIRST, type("BlockAllocator", (), half))
    assert verdict.status == "not yet"
    assert verdict.slip_id == "stub-left"
    assert "raise NotImplementedError" in verdict.headline


def test_a_stub_with_a_first_line_of_ones_own_is_started():
    begun = from_source(FIRST.stub().replace("        raise Not", "        order = sorted([3, 1])\n        raise Not"))
    assert examine(FIRST, begun).slip_id == "stub-left"


@pytest.mark.parametrize("task", [task for task in all_tasks().values() if task.inherits], ids=lambda task: task.id)
def test_a_method_that_is_only_inherited_is_not_passed_for_ones_own(task):
    for absent in task.writes:
        own = {name: lambda self, name=name: None for name in task.writes if name != absent}
        verdict = examine(task, type(task.name, (task.reference,), own))
        assert (verdict.status, verdict.slip_id) == ("not yet", "not-written")
        assert f"`{absent}`" in verdict.headline


def test_what_was_built_on_a_task_that_is_checked_again_is_forgotten(capsys):
    for task in ("14.1", "14.2", "14.3"):
        check(task, from_source("from collections.abc import Iterable\n" + find(task).solution()))
    mine = yours("14.1")
    check("14.2", stub_of(find("14.2")))
    assert yours("14.1") is mine
    assert not issubclass(yours("14.3"), mine)


def test_a_print_in_every_call_keeps_the_verdict_short():
    chatty = from_source("""
        class BlockAllocator(Base):
            def allocate(self):
                print(self._free)
                return super().allocate()
    """)
    assert examine(FIRST, chatty).printed.count("\n") == 12


def test_an_error_without_a_message_goes_by_its_name():
    wordless = from_source("class BlockAllocator(Base):\n    def allocate(self):\n        raise KeyError")
    assert examine(FIRST, wordless).came == "KeyError"


def test_a_line_in_a_generator_expression_is_counted_in_its_function():
    summing = """
        class BlockAllocator(Base):
            def allocate(self):
                sizes = [
                    1 for _ in range(2)
                ]
                return sum(1 / (size - 1) for size in sizes)
    """
    headline = examine(FIRST, from_source(summing)).headline
    assert "at line 5 of `allocate`: `return sum(1 / (size - 1) for size in sizes)`" in headline


def test_a_property_that_raises_is_in_the_list_of_calls():
    raising = from_source("""
        class BlockAllocator(Base):
            @property
            def num_free(self):
                return len(self.free_list)
    """)
    assert examine(FIRST, raising).calls[-1].startswith("pool.num_free → AttributeError")


def test_an_error_is_told_with_its_call_and_the_learners_own_line():
    raising = from_source("""
        class BlockAllocator(Base):
            def allocate(self):
                return self.free_lst.pop()
    """)
    verdict = examine(FIRST, raising)
    assert verdict.status == "raised"
    assert "line 2 of `allocate`: `return self.free_lst.pop()`" in verdict.headline
    assert verdict.came.startswith("AttributeError: ")
    assert verdict.calls[-1] == "pool.allocate() → AttributeError"
    assert "nanoserve/" not in verdict.text()


def a_stage_that_knows_the_error(probe):
    """numbers only"""
    with probe.on_error(TypeError, slip="list-for-number", match="unsupported"):
        probe.equal(probe.record("double([1])", probe.subject, [1]), 2, "other")


KNOWN = Task(
    id="0.1",
    title="Double",
    minutes=1,
    difficulty=1,
    reference=lambda number: 2,
    stages=(a_stage_that_knows_the_error,),
    slips={"list-for-number": Slip("A list is no number.", "Take `[0]` of it."), "other": Slip("Something else.", "")},
)


def test_an_error_that_looks_like_a_slip_is_told_with_it_and_with_the_learners_line():
    verdict = examine(KNOWN, from_source("def double(number):\n    return number / 2", "double"))
    assert (verdict.status, verdict.slip_id, verdict.slip) == ("not yet", "list-for-number", "A list is no number.")
    assert verdict.headline == "Not yet: your code raised TypeError at line 2 of `double`: `return number / 2`."
    assert verdict.calls == ("double([1]) → TypeError",)
    assert verdict.came == "TypeError: unsupported operand type(s) for /: 'list' and 'int'"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ('raise TypeError("of another kind")', "raised"),
        ('raise ValueError("unsupported")', "raised"),
        ("raise NotImplementedError", "not started"),
    ],
)
def test_an_error_of_another_kind_or_with_other_words_keeps_its_own_verdict(body, status):
    assert examine(KNOWN, from_source(f"def double(number):\n    {body}", "double")).status == status


def test_a_wrong_kind_of_error_is_told_with_the_line_that_raised_it():
    asserting = """
        class BlockTable(yours("15.1")):
            def position(self, p):
                assert 0 <= p < self.num_tokens
                return self.block_ids[p // self.allocator.block_size], p % self.allocator.block_size
    """
    verdict = examine(find("15.2"), from_source(asserting, "BlockTable", nanoserve.BlockTable))
    assert "raised AssertionError at line 2 of `position`: `assert 0 <= p < self.num_tokens`" in verdict.headline


def test_of_two_giveaways_that_fit_the_first_is_told():
    probe = Probe(print)
    with pytest.raises(Mismatch) as finding:
        probe.equal("B", "a", "other", {"first": "b", "second": "B"}, same=lambda one, two: one.lower() == two)
    assert finding.value.slip == "first"


@pytest.mark.parametrize(
    "loop",
    [
        "while True:\n            pass",
        "while True:\n            try:\n                len([])\n            except Exception:\n                pass",
        "while True:\n            try:\n                len([])\n            except:\n                pass",
    ],
)
def test_an_endless_loop_is_stopped_and_its_line_is_told(loop):
    endless = from_source(f"class BlockAllocator(Base):\n    def allocate(self):\n        {loop}\n")
    verdict = examine(replace(FIRST, seconds=0.3), endless)
    assert verdict.status == "out of time"
    assert "longer than 0.3 seconds and was stopped at line" in verdict.headline
    assert "`" not in "".join(text for _, text, is_code in verdict._rows() if is_code)


def test_an_endless_loop_is_stopped_where_its_turn_has_no_line_of_its_own():
    """Between two turns of this one stands a jump that belongs to no line."""
    endless = """
        class BlockAllocator(Base):
            def allocate(self):
                import itertools
                for block in itertools.cycle([1, 2]):
                    if block in self._allocated: self.free(block)
    """
    verdict = examine(replace(FIRST, seconds=0.3), from_source(endless))
    assert re.search(r"stopped at line [45] of `allocate`: `", verdict.headline), verdict.text()


def test_an_error_while_another_was_handled_is_told_with_the_first():
    twice = """
        class BlockAllocator(Base):
            def allocate(self):
                try:
                    return self.fre.pop()
                except AttributeError:
                    return self.frei.pop()
    """
    verdict = examine(FIRST, from_source(twice))
    assert "has no attribute 'frei'" in verdict.came
    assert verdict.came.endswith("has no attribute 'fre'\nat line 3 of `allocate`: `return self.fre.pop()`")


@pytest.mark.parametrize("mark", ["async def", "def"])
def test_a_function_that_only_promises_is_told_so(mark):
    body = "yield 46_080" if mark == "def" else "return 46_080"
    lazy = from_source(f"{mark} kv_bytes_per_token(config, dtype):\n    {body}", "kv_bytes_per_token")
    assert examine(find("13.2"), lazy).slip_id == "only-promised"


@pytest.mark.parametrize("task", [t for t in all_tasks().values() if t.inherits or t.extends], ids=lambda task: task.id)
def test_a_class_without_the_stubs_base_is_told_so(task):
    head, body = task.solution().split("\n", 1)
    alone = from_source(f"{head.partition('(')[0]}:\n{body}", task.name, task.reference)
    verdict = examine(task, alone)
    assert verdict.slip_id == "no-base"
    assert verdict.expected == head


def test_an_init_that_leaves_out_the_bases_is_asked_for_it():
    left_out = "class Scheduler(nanoserve.Scheduler):\n    def __init__(self, *args):\n        self.seen = []\n"
    methods = find("23.1").solution().split("\n", 1)[1]
    verdict = examine(find("23.1"), from_source(left_out + methods, "Scheduler", nanoserve.Scheduler))
    assert verdict.slip_id == "cannot-go-on", verdict.text()
    assert "super().__init__" in verdict.look


def test_a_print_storm_is_kept_short_and_is_not_let_through(capsys):
    chatty = from_source("""
        class BlockAllocator(Base):
            def allocate(self):
                print("allocating " * 1000)
                return super().allocate()
    """)
    verdict = examine(FIRST, chatty)
    assert verdict.passed
    assert len(verdict.printed) < 1300
    assert verdict.printed.startswith("allocating")
    assert capsys.readouterr().out == ""
    assert sys.stdout is not None


@pytest.mark.parametrize("subject", [None, 7, nanoserve.BlockAllocator(2, 2), lambda: None, "BlockAllocator"])
def test_anything_but_the_class_itself_is_told_so(subject):
    verdict = examine(FIRST, subject)
    assert verdict.status == "not yet"
    assert verdict.slip_id == "not-a-class"
    assert 'check("14.1", BlockAllocator)' in verdict.expected


def test_a_class_in_place_of_a_function_is_no_instance_and_no_call():
    verdict = examine(find("13.2"), from_source("class kv_bytes_per_token:\n    pass", "kv_bytes_per_token"))
    assert verdict.came == "a class in place of the function"
    assert verdict.slip == "`kv_bytes_per_token` is a function in the stub, and was made a class."


def test_an_error_that_is_no_stubs_own_is_no_stub_left():
    unwritten = (
        "class BlockAllocator(Base):\n    def allocate(self):\n        raise NotImplementedError('not for meta')"
    )
    assert examine(FIRST, from_source(unwritten)).slip_id == "raised"


@pytest.mark.parametrize(
    "body",
    [
        "def __init__(self): pass",
        "def __init__(self, *args): raise SystemExit",
        "def __init__(self, *args): raise KeyboardInterrupt",
        "def __init__(self, *args): self.__init__(*args)",
        "def __getattr__(self, name): raise RuntimeError(name)",
        "def __repr__(self): raise ValueError",
        "allocate = None",
        "allocate = property(lambda self: 1 / 0)",
        "__slots__ = ()",
    ],
)
def test_a_strange_class_gets_a_verdict_and_never_an_error(body, capsys):
    strange = from_source(f"class BlockAllocator:\n    {body}\n")
    returned = check("14.1", strange)
    assert examine(FIRST, returned).passed
    assert "✓" not in capsys.readouterr().out


def test_a_task_that_does_not_exist_is_told_with_those_that_do(capsys):
    assert check("14.9", dict) is dict
    assert check(["14.1"], dict) is dict
    assert capsys.readouterr().out.count("there are 14.1, 14.2, 14.3, 14.4") == 1


def test_a_task_may_be_named_by_a_number(capsys):
    assert check(14.1, nanoserve.BlockAllocator) is yours("14.1") is nanoserve.BlockAllocator


def test_strict_turns_anything_but_a_pass_into_an_error(monkeypatch):
    monkeypatch.setenv("NANOSERVE_STRICT", "1")
    with pytest.raises(CheckFailed, match="Not started"):
        check("14.1", stub_of(FIRST))
    assert check("14.1", nanoserve.BlockAllocator) is nanoserve.BlockAllocator


def test_a_task_that_no_longer_passes_gives_way_to_the_reference(capsys):
    check("14.1", nanoserve.BlockAllocator)
    check("14.1", stub_of(FIRST))
    assert yours("14.1") is not nanoserve.BlockAllocator
    assert examine(FIRST, yours("14.1")).passed


def test_a_cell_run_twice_builds_on_the_task_before_and_not_on_itself(capsys):
    check("14.1", from_source(FIRST.solution()))
    cell = "from collections.abc import Iterable\n" + find("14.2").solution()
    for _ in range(2):
        again = check("14.2", from_source(cell))
        assert again.__mro__[1] is yours("14.1")
        assert len(again.__mro__) == 3


def test_a_stand_in_goes_only_as_far_as_its_task():
    pool = yours("14.1")(4, 16)
    pool.allocate()
    pool.free(0)
    pool.free_all = None
    assert not hasattr(type(pool), "allocate_for")
    with pytest.raises(KeyError):
        pool.free(0)  # no guard before task 14.2


@pytest.mark.parametrize("arguments", ["self, count", "self, *, count", ""])
def test_a_changed_signature_is_told_beside_the_stubs(arguments):
    changed = from_source(f"class BlockAllocator(Base):\n    def allocate({arguments}):\n        return 0")
    verdict = examine(FIRST, changed)
    assert (verdict.status, verdict.slip_id) == ("raised", "another-signature")
    assert (verdict.expected, verdict.came) == ("allocate(self)", f"allocate({arguments})")
    assert "allocate() " in verdict.calls[-1]


def test_a_function_of_another_signature_is_told_so_too():
    changed = from_source("def bytes_of(config):\n    return 46_080", "bytes_of")
    verdict = examine(find("13.2"), changed)
    assert (verdict.expected, verdict.came) == ("kv_bytes_per_token(config, dtype)", "bytes_of(config)")


@pytest.mark.parametrize("body", ["return self.free(1, 2)", "return len()"])
def test_a_wrong_call_in_the_learners_code_is_no_changed_signature(body):
    verdict = examine(FIRST, from_source(f"class BlockAllocator(Base):\n    def allocate(self):\n        {body}"))
    assert (verdict.slip_id, verdict.headline[:32]) == ("raised", "Your code raised TypeError at li")


def test_a_line_that_a_dataclass_wrote_is_not_the_learners():
    writes = from_source("def kv_bytes_per_token(config, dtype):\n    config.head_dim = 1", "kv_bytes_per_token")
    headline = examine(find("13.2"), writes).headline
    assert headline == "Your code raised FrozenInstanceError at line 2 of `kv_bytes_per_token`: `config.head_dim = 1`."


def test_a_type_is_told_with_its_article():
    assert [kind(value) for value in (1, [], np.int64(1), np.zeros(1))] == [
        "an int",
        "a list",
        "an int64",
        "an ndarray",
    ]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numbers_that_have_been_in_16_bits_are_known(dtype):
    exact = torch.tensor([1.0, 1 + 2**-12, 3.0])
    assert in_16_bits(exact.to(dtype), exact)
    assert in_16_bits(exact.to(dtype).float(), exact)
    assert not in_16_bits(exact.double(), exact)
    assert not in_16_bits(exact.flip(0), exact)
    assert not in_16_bits(exact[:2].to(dtype), exact)


def test_a_tensor_is_told_by_its_shape_and_a_short_row_by_its_numbers():
    assert show((torch.zeros(1, 2, 3), torch.zeros(100))) == "(a Tensor of shape (1, 2, 3), a Tensor of shape (100,))"
    assert show(torch.tensor([4, 5, 9])) == "tensor([4, 5, 9])"


def test_in_a_notebook_the_verdict_is_html_and_text(monkeypatch):
    shown = []
    monkeypatch.setattr(checking, "get_ipython", object)
    monkeypatch.setattr(checking, "display", shown.append)
    check("14.1", stub_of(FIRST))
    [verdict] = shown
    bundle = verdict._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert 'data-status="not started"' in bundle["text/html"]


def test_a_learners_text_cannot_break_the_verdicts_html():
    nasty = from_source("""
        class BlockAllocator(Base):
            def allocate(self):
                raise ValueError("<script>alert(1)</script> & `x`")
    """)
    html = examine(FIRST, nasty).html()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
