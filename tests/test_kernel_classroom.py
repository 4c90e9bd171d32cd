"""A learner's kernel in a process of its own: its values, its accesses, its errors, and its end."""

import subprocess
import sys
from math import ceil

import pytest
import torch

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402

from nanoserve.course.kernels.jobs import Window  # noqa: E402
from nanoserve.course.kernels.launch import compiled, launch, try_launch  # noqa: E402
from nanoserve.course.kernels.trial import builds, tried  # noqa: E402
from nanoserve.course.limits import OutOfTime  # noqa: E402
from nanoserve.course.probe import Probe  # noqa: E402

NAN = float("nan")
OFFSET = tl.constexpr(10)
PLAIN = 10


@triton.jit
def copies(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def no_mask(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, x, mask=at < n)


def run(kernel, *args, grid=(3,), **constants):
    return try_launch(kernel, grid, args, constants)


def seventeen():
    return torch.arange(17.0), torch.full((17,), NAN)


def test_a_launch_copies_what_the_kernel_wrote_into_the_tensors_given(capsys):
    x, y = seventeen()
    done = launch(copies, (3,), x, y, 17, BLOCK=8)
    assert torch.equal(y, x)
    assert done.call == "copies[(3,)](x, y, 17, BLOCK=8)"
    assert capsys.readouterr().out == ""


def test_a_launch_takes_what_a_model_computed_in_inference_mode():
    with torch.inference_mode():
        x = torch.arange(17.0) * 1
    y = torch.zeros(17)
    launch(copies, (3,), x, y, 17, BLOCK=8)
    assert torch.equal(y, x)


def test_a_trial_leaves_the_tensors_given_as_they_are():
    x, y = seventeen()
    assert torch.equal(run(copies, x, y, 17, BLOCK=8).tensors["y"], x)
    assert y.isnan().all()


def test_the_accesses_say_which_program_touched_which_element():
    told = [
        (access.program[0], access.kind, access.tensor, access.elements.tolist())
        for access in run(copies, *seventeen(), 17, BLOCK=8).accesses
    ]
    parts = [[*range(8)], [*range(8, 16)], [16]]
    assert told == [
        (i, kind, name, part) for i, part in enumerate(parts) for kind, name in [("read", "x"), ("write", "y")]
    ]


def test_an_access_outside_is_refused_and_names_program_element_and_line():
    x, y = seventeen()
    done = run(no_mask, x, y, 17, BLOCK=8)
    assert isinstance(done.error, IndexError)
    assert str(done.error) == "program 2 reads element 17 of `x`, which has 17"
    assert done.error.learners_line.endswith("of `no_mask`: `x = tl.load(x_ptr + at)`")
    assert done.accesses[-1].outside
    assert done.tensors["y"][:16].tolist() == x[:16].tolist()


def test_an_error_in_a_function_of_tritons_own_is_told_with_the_kernels_line():
    @triton.jit
    def no_type(x_ptr, y_ptr, BLOCK: tl.constexpr):
        y = tl.zeros([BLOCK])
        tl.store(y_ptr + tl.arange(0, BLOCK), y)

    error = run(no_type, *seventeen(), BLOCK=8).error
    assert isinstance(error, TypeError)
    assert error.learners_line.endswith("of `no_type`: `y = tl.zeros([BLOCK])`")


def test_a_step_too_far_is_told_of_the_tensor_that_was_left_however_far():
    @triton.jit
    def far(x_ptr, y_ptr, DISTANCE: tl.constexpr):
        tl.store(y_ptr + DISTANCE, tl.load(x_ptr))

    for distance in (-1, 17, 2**31, 2**40):
        done = run(far, *seventeen(), DISTANCE=distance)
        assert str(done.error) == f"program 0 writes element {distance} of `y`, which has 17"


def test_a_view_may_be_read_wherever_its_memory_is():
    whole = torch.arange(40.0).reshape(4, 10)

    @triton.jit
    def second_row(x_ptr, y_ptr, STRIDE: tl.constexpr):
        tl.store(y_ptr + tl.arange(0, 4), tl.load(x_ptr + STRIDE + tl.arange(0, 4)))

    done = run(second_row, whole[:, 3:7], torch.full((4,), NAN), grid=(1,), STRIDE=10)
    assert done.tensors["y"].tolist() == [13, 14, 15, 16]


def test_a_tensor_too_large_to_be_there_can_be_touched_in_a_window():
    @triton.jit
    def far_row(x_ptr, ids_ptr, y_ptr, ROW: tl.constexpr, WIDE: tl.constexpr):
        row = tl.load(ids_ptr)
        if WIDE:
            row = row.to(tl.int64)
        tl.store(y_ptr, tl.load(x_ptr + row * ROW))

    args = Window(torch.tensor([5.0, 6.0]), 2**32), torch.tensor([2**20], dtype=torch.int32), torch.zeros(1)
    assert run(far_row, *args, grid=(1,), ROW=2**12, WIDE=True).tensors["y"].item() == 5
    error = run(far_row, *args, grid=(1,), ROW=2**12, WIDE=False).error
    assert str(error) == f"program 0 reads element 0 of `x`, which has {2**32 + 2}"


def test_a_lane_that_was_masked_out_holds_no_zero():
    @triton.jit
    def sums(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        tl.store(y_ptr, tl.sum(tl.load(x_ptr + at, mask=at < n)))

    for dtype in (torch.float32, torch.float16, torch.int32):
        done = run(sums, torch.ones(3, dtype=dtype), torch.zeros(1, dtype=dtype), 3, grid=(1,), BLOCK=4)
        assert done.tensors["y"].item() != 3


def test_a_single_lane_that_was_masked_out_holds_its_other_though_it_is_zero():
    @triton.jit
    def one_lane(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        at = 1 + tl.arange(0, BLOCK)
        tl.store(y_ptr, tl.load(x_ptr + 1, mask=n > 1, other=0.0))
        tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0))
        tl.store(y_ptr + 1 + at, tl.load(x_ptr + at, mask=at < n))

    done = run(one_lane, torch.ones(1), torch.full((3,), 5.0), 1, grid=(1,), BLOCK=1)
    assert done.tensors["y"][:2].tolist() == [0, 0]
    assert done.tensors["y"][2].isnan()


@pytest.mark.parametrize(("grid", "second"), [((2,), "program 1"), ((1, 2), "program (0, 1)")])
def test_two_programs_that_write_different_values_to_one_place_are_told(grid, second):
    @triton.jit
    def same_place(y_ptr):
        tl.store(y_ptr, 1.0 + tl.program_id(0) + tl.program_id(1))

    [race] = run(same_place, torch.zeros(1), grid=grid).races
    assert race.endswith(f" and {second} write different values to element 0 of `y`")


def test_two_programs_may_write_the_same_value():
    @triton.jit
    def agree(y_ptr):
        tl.store(y_ptr, 1.0)

    assert run(agree, torch.zeros(1)).races == []


def test_reading_what_another_program_writes_is_a_race_and_what_one_wrote_itself_is_none():
    @triton.jit
    def shifts(y_ptr, BACK: tl.constexpr):
        pid = tl.program_id(0)
        tl.store(y_ptr + pid, tl.load(y_ptr + pid - BACK, mask=pid >= BACK, other=0.0) + 1)

    assert run(shifts, torch.zeros(3), BACK=0).races == []
    assert run(shifts, torch.zeros(3), BACK=1).races == ["program 1 reads element 0 of `y`, which program 0 writes"]


def test_an_atomic_sum_is_no_race():
    @triton.jit
    def counts(y_ptr):
        tl.atomic_add(y_ptr, 1.0)

    done = run(counts, torch.zeros(1))
    assert (done.tensors["y"].item(), done.races) == (3, [])


@triton.jit
def twice(x):
    return 2 * x + OFFSET


@triton.jit
def calls_another(y_ptr):
    tl.store(y_ptr, twice(1.0))


@triton.jit
def thrice(x):
    return 3 * x


def test_a_kernel_brings_along_the_functions_and_constants_that_it_names():
    assert run(calls_another, torch.zeros(1)).tensors["y"].item() == 12


def test_another_function_can_stand_in_for_one_that_is_called():
    done = try_launch(calls_another, (1,), (torch.zeros(1),), {}, others={"twice": thrice})
    assert done.tensors["y"].item() == 3
    assert compiled(calls_another, (8, 0), torch.zeros(1), others={"twice": thrice}).spilled == 0


def test_a_function_inside_of_a_kernel_is_told_before_it_runs():
    @triton.jit
    def nests(y_ptr):
        def two():
            return 2.0

        tl.store(y_ptr, two())

    with pytest.raises(TypeError, match="`two` is defined inside of `nests`"):
        run(nests, torch.zeros(1))


def test_what_the_kernel_prints_comes_back(capsys):
    @triton.jit
    def speaks(y_ptr):
        tl.device_print("program", tl.program_id(0))

    launch(speaks, (2,), torch.zeros(1))
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["[0]", "[1]"]


def test_an_error_keeps_its_type_its_words_and_the_learners_line():
    @triton.jit
    def mistyped(y_ptr):
        tl.store(y_ptr, valeu)  # noqa: F821

    error = run(mistyped, torch.zeros(1)).error
    assert isinstance(error, NameError)
    assert str(error) == "name 'valeu' is not defined"
    assert error.learners_line.endswith("of `mistyped`: `tl.store(y_ptr, valeu)  # noqa: F821`")


def test_a_loop_that_never_ends_is_ended():
    @triton.jit
    def forever(y_ptr):
        while True:
            tl.store(y_ptr, 1.0)

    done = try_launch(forever, (1,), (torch.zeros(1),), {}, seconds=1)
    assert isinstance(done.error, OutOfTime)
    assert "of `forever`" in done.error.learners_line


def test_a_process_that_dies_is_an_error_and_the_next_launch_works():
    @triton.jit
    def dies(y_ptr):
        __import__("os").abort()

    assert type(run(dies, torch.zeros(1)).error).__name__ == "ProcessDied"
    x, y = seventeen()
    assert run(copies, x, y, 17, BLOCK=8).error is None


def test_a_function_without_the_decorator_is_told_so():
    def bare(y_ptr):
        pass

    with pytest.raises(TypeError, match=r"`@triton\.jit` is missing"):
        run(bare, torch.zeros(1))


def plain(x):
    return x


@triton.jit
def calls_a_plain_function(y_ptr):
    tl.store(y_ptr, plain(1.0))


def test_a_plain_function_that_a_kernel_calls_is_named():
    with pytest.raises(TypeError, match="`calls_a_plain_function` calls `plain`"):
        run(calls_a_plain_function, torch.zeros(1))


@triton.jit
def calls_pythons_ceil(y_ptr):
    tl.store(y_ptr, ceil(2.5))


def test_a_function_of_pythons_that_a_kernel_calls_is_named():
    with pytest.raises(TypeError, match=r"`calls_pythons_ceil` calls `ceil` of math; a kernel calls Triton's own"):
        try_launch(calls_pythons_ceil, (1,), (torch.zeros(1),), {})


def test_the_compiler_says_what_only_the_interpreter_takes_with_the_line():
    @triton.jit
    def breaks(y_ptr, n):
        for i in range(n):
            if i > 1:
                break
        tl.store(y_ptr, 1.0)

    assert run(breaks, torch.zeros(1), 3).error is None
    with pytest.raises(Exception, match="Break") as caught:
        compiled(breaks, (8, 0), torch.zeros(1), 3)
    assert caught.value.learners_line.endswith("of `breaks`: `break`")


@triton.jit
def inner(x):
    return x + PLAIN


@triton.jit
def outer(y_ptr):
    tl.store(y_ptr, inner(1.0))


def test_the_compiler_finds_the_line_in_a_function_that_is_called():
    assert run(outer, torch.zeros(1)).tensors["y"].item() == 11
    with pytest.raises(Exception, match="PLAIN") as caught:
        compiled(outer, (8, 0), torch.zeros(1))
    assert caught.value.learners_line.endswith("of `inner`: `return x + PLAIN`")


def test_the_notebooks_process_never_runs_the_kernel_nor_needs_the_interpreter():
    code = """if True:
        import os
        os.environ.pop("TRITON_INTERPRET", None)
        import torch
        from tests.test_kernel_classroom import copies, launch, seventeen
        x, y = seventeen()
        launch(copies, (3,), x, y, 17, BLOCK=8)
        print(torch.equal(x, y), type(copies).__name__)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True JITFunction\n", done.stderr


def test_a_function_that_is_no_kernel_is_tried_through_a_driver_that_calls_it():
    probe = Probe(thrice)
    slips = {"race": "r", "reads": "r", "writes": "r"}
    done = tried(probe, (1,), torch.zeros(1), driver=calls_another, calls="twice", **slips)
    assert done.tensors["y"].item() == 3
    assert probe.calls == ["calls_another[(1,)](y)"]
    builds(probe, torch.zeros(1), driver=calls_another, calls="twice", slips={"": "r"})
