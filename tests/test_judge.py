"""What is said of a learner's code that does not pass: the cause that it has, and the learner's own line."""

import re

import pytest

import nanoserve
from nanoserve.course.checking import examine
from nanoserve.course.tasks import Slip, Task, all_tasks, find
from tests.cells import FIRST, from_source

BUILT_ON = [task for task in all_tasks().values() if re.match(r"class \w+\(", task.stub())]


def test_half_written_code_is_told_which_stub_is_left():
    half = from_source(FIRST.stub()).__dict__ | {"allocate": nanoserve.BlockAllocator.allocate}
    verdict = examine(FIRST, type("BlockAllocator", (), half))
    assert verdict.status == "not yet"
    assert verdict.slip_id == "stub-left"
    assert "raise NotImplementedError" in verdict.headline


def test_a_stub_with_a_first_line_of_ones_own_is_started():
    begun = from_source(FIRST.stub().replace("        raise Not", "        order = sorted([3, 1])\n        raise Not"))
    assert examine(FIRST, begun).slip_id == "stub-left"


def test_an_error_that_is_no_stubs_own_is_no_stub_left():
    unwritten = (
        "class BlockAllocator(Base):\n    def allocate(self):\n        raise NotImplementedError('not for meta')"
    )
    assert examine(FIRST, from_source(unwritten)).slip_id == "raised"


@pytest.mark.parametrize("task", [task for task in all_tasks().values() if task.inherits], ids=lambda task: task.id)
def test_a_method_that_is_only_inherited_is_not_passed_for_ones_own(task):
    for absent in task.writes:
        own = {name: lambda self, name=name: None for name in task.writes if name != absent}
        verdict = examine(task, type(task.name, (task.reference,), own))
        assert (verdict.status, verdict.slip_id) == ("not yet", "not-written")
        assert f"`{absent}`" in verdict.headline


# Not 14.2: a guard of another name, called by a `free` of one's own, is as good.
@pytest.mark.parametrize("task", [t for t in all_tasks().values() if t.writes and t.id != "14.2"], ids=lambda t: t.id)
def test_a_method_under_another_name_is_not_there(task):
    for name in task.writes:
        solution = task.solution().replace(f"def {name}(", f"def {name}_(")
        verdict = examine(task, from_source(solution, task.name, task.reference))
        assert verdict.slip_id == "not-written"
        assert f"has no `{name}`" in verdict.headline


@pytest.mark.parametrize("task", BUILT_ON, ids=lambda task: task.id)
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


@pytest.mark.parametrize("mark", ["async def", "def"])
def test_a_function_that_only_promises_is_told_so(mark):
    body = "yield 46_080" if mark == "def" else "return 46_080"
    lazy = from_source(f"{mark} kv_bytes_per_token(config, dtype):\n    {body}", "kv_bytes_per_token")
    assert examine(find("13.2"), lazy).slip_id == "only-promised"


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


def test_an_error_without_a_message_goes_by_its_name():
    wordless = from_source("class BlockAllocator(Base):\n    def allocate(self):\n        raise KeyError")
    assert examine(FIRST, wordless).came == "KeyError"


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


NOTHING_CAME = "Was there a call that returns nothing, as `append` and `sort` do, or a `def` without its `return`?"


@pytest.mark.parametrize(
    ("line", "slip", "look"),
    [
        ("return self._fre.pop()", "`_fre` is misspelt, or not made yet.", "Is `_free` meant?"),
        ("return torch.ones(2).shap[0]", "`shap` is misspelt, or not made yet.", "Is `shape` meant?"),
        ("return self._free.sort().pop()", "Something on that line is None.", NOTHING_CAME),
        ("return len(self._free.sort())", "Something on that line is None.", NOTHING_CAME),
        ("return 'a'.slot", "", ""),
        ("return self.kept_elsewhere", "", ""),
        ("raise AttributeError('of my own')", "", ""),
    ],
)
def test_an_attribute_that_is_not_there_is_told_with_the_one_that_may_be_meant(line, slip, look):
    lines = f"import torch\nclass BlockAllocator(Base):\n    def allocate(self):\n        {line}"
    verdict = examine(FIRST, from_source(lines))
    assert (verdict.status, verdict.slip_id) == ("raised", "raised")
    assert verdict.slip == slip
    assert verdict.look == look


def test_a_dir_of_the_learners_own_is_not_asked():
    odd = "class BlockAllocator(Base):\n    __dir__ = None\n    def allocate(self):\n        self._fre"
    assert examine(FIRST, from_source(odd)).look == "Is `_free` meant?"


def test_a_name_that_is_used_before_it_is_set_is_no_missing_cell():
    early = "class BlockAllocator(Base):\n    def allocate(self):\n        block += 1\n        return block"
    assert "before it has a value" in examine(FIRST, from_source(early)).slip


def test_a_property_that_raises_is_in_the_list_of_calls():
    raising = from_source("""
        class BlockAllocator(Base):
            @property
            def num_free(self):
                return len(self.free_list)
    """)
    assert examine(FIRST, raising).calls[-1].startswith("pool.num_free → AttributeError")


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


def test_a_line_that_a_dataclass_wrote_is_not_the_learners():
    writes = from_source("def kv_bytes_per_token(config, dtype):\n    config.head_dim = 1", "kv_bytes_per_token")
    headline = examine(find("13.2"), writes).headline
    assert headline == "Your code raised FrozenInstanceError at line 2 of `kv_bytes_per_token`: `config.head_dim = 1`."


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
