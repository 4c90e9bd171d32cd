"""The learner's copies: new days arrive, untouched ones follow the course, and edited ones are never written over."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nanoserve.course import workspace
from nanoserve.course.workspace import refresh

DAY = "day14.ipynb"


def notebook(text: str, output: str | None = None) -> str:
    outputs = [] if output is None else [{"output_type": "stream", "name": "stdout", "text": output}]
    cell = {"cell_type": "code", "source": text.splitlines(keepends=True), "outputs": outputs}
    return json.dumps({"cells": [cell], "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    src, dest = tmp_path / "notebooks", tmp_path / "not yet" / "work"
    src.mkdir()
    (src / DAY).write_text(notebook("version 1"))
    return src, dest


def test_a_new_day_is_copied_and_told(folders):
    src, dest = folders
    assert refresh(src, dest) == [f"new: {dest / DAY}"]
    assert (dest / DAY).read_text() == notebook("version 1")


def test_a_second_run_changes_and_says_nothing(folders):
    src, dest = folders
    refresh(src, dest)
    before = (dest / DAY).stat()
    assert refresh(src, dest) == []
    assert (dest / DAY).stat() == before


def test_an_untouched_copy_follows_the_course(folders):
    src, dest = folders
    refresh(src, dest)
    (src / DAY).write_text(notebook("version 2"))
    assert refresh(src, dest) == [f"updated: {dest / DAY}"]
    assert (dest / DAY).read_text() == notebook("version 2")


def test_a_notebook_that_was_only_run_counts_as_untouched(folders):
    src, dest = folders
    refresh(src, dest)
    (dest / DAY).write_text(notebook("version 1", output="I ran it"))
    (src / DAY).write_text(notebook("version 2"))
    refresh(src, dest)
    assert (dest / DAY).read_text() == notebook("version 2")


def test_a_notebook_that_was_run_keeps_its_outputs_while_the_course_stands_still(folders):
    src, dest = folders
    refresh(src, dest)
    (dest / DAY).write_text(notebook("version 1", output="I ran it"))
    assert refresh(src, dest) == []
    assert (dest / DAY).read_text() == notebook("version 1", output="I ran it")


def test_new_outputs_of_the_course_reach_an_untouched_copy(folders):
    src, dest = folders
    refresh(src, dest)
    (src / DAY).write_text(notebook("version 1", output="a better picture"))
    refresh(src, dest)
    assert (dest / DAY).read_text() == notebook("version 1", output="a better picture")


def test_an_edited_copy_is_kept_and_told_once_a_run_until_it_is_renamed(folders):
    src, dest = folders
    refresh(src, dest)
    (dest / DAY).write_text(notebook("my answer"))
    assert refresh(src, dest) == [], "the course has nothing newer, so there is nothing to say"
    (src / DAY).write_text(notebook("version 2"))
    for _ in range(2):
        (line,) = refresh(src, dest)
        assert line.startswith(f"kept: {dest / DAY} is yours")
        assert str(src / DAY) in line
        assert (dest / DAY).read_text() == notebook("my answer")
    (dest / DAY).rename(dest / "mine.ipynb")
    assert refresh(src, dest) == [f"new: {dest / DAY}"]
    assert (dest / "mine.ipynb").read_text() == notebook("my answer")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"cells": [3]}', '{"cells": [{"cell_type": "code"}]}', "\0"]
)
@pytest.mark.parametrize("record", ["kept", "lost", "broken too"])
def test_a_copy_that_is_no_notebook_any_more_is_left_for_the_learner_to_rescue(folders, content, record):
    src, dest = folders
    refresh(src, dest)
    (dest / DAY).write_text(content)
    if record == "lost":
        (dest / ".issued" / DAY).unlink()
    if record == "broken too":
        (dest / ".issued" / DAY).write_text(content)
    (src / DAY).write_text(notebook("version 2"))
    refresh(src, dest)
    assert (dest / DAY).read_text() == content


def test_without_the_record_a_different_copy_counts_as_the_learners(folders):
    src, dest = folders
    refresh(src, dest)
    (dest / ".issued" / DAY).unlink()
    (src / DAY).write_text(notebook("version 2"))
    refresh(src, dest)
    assert (dest / DAY).read_text() == notebook("version 1")


def test_a_day_that_left_the_course_stays_with_the_learner(folders):
    src, dest = folders
    (src / "day15.ipynb").write_text(notebook("fifteen"))
    refresh(src, dest)
    (src / "day15.ipynb").unlink()
    refresh(src, dest)
    assert (dest / "day15.ipynb").read_text() == notebook("fifteen")


@pytest.mark.parametrize("cut", range(4))
def test_an_update_cut_off_anywhere_is_finished_by_the_next_run(folders, monkeypatch, cut):
    """Two files change, each written and then moved into place: four moments at which the machine may stop."""
    src, dest = folders
    refresh(src, dest)
    (src / DAY).write_text(notebook("version 2"))
    moments = iter(range(4))

    def stops(function):
        def wrapped(*args):
            if next(moments) == cut:
                raise KeyboardInterrupt
            return function(*args)

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", stops(Path.write_bytes))
        patch.setattr(workspace.os, "replace", stops(os.replace))
        with pytest.raises(KeyboardInterrupt):
            refresh(src, dest)
    assert (dest / DAY).read_text() in (notebook("version 1"), notebook("version 2"))
    refresh(src, dest)
    (src / DAY).write_text(notebook("version 3"))
    refresh(src, dest)
    assert (dest / DAY).read_text() == notebook("version 3")


def test_copies_of_a_read_only_course_can_be_worked_in(folders):
    src, dest = folders
    (src / DAY).chmod(0o444)
    refresh(src, dest)
    assert (dest / DAY).stat().st_mode & 0o200


def run(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "nanoserve.course.workspace", *map(str, args)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def test_the_command_works_on_notebooks_and_work_unless_told_otherwise(folders):
    src, dest = folders
    assert run(cwd=src.parent).stdout == f"new: {Path('work', DAY)}\n"
    assert run(src, dest, cwd=src.parent).stdout == f"new: {dest / DAY}\n"


@pytest.mark.parametrize("obstacle", ["no course", "a file in the way"])
def test_what_stops_the_command_is_one_sentence(folders, obstacle):
    src, dest = folders
    if obstacle == "no course":
        (src / DAY).unlink()
    else:
        dest.parent.write_text("not a folder")
    done = run(src, dest, cwd=src.parent)
    assert done.returncode == 1
    assert done.stderr.startswith(f"The notebooks could not be copied to {dest}: ")
    assert len(done.stderr.splitlines()) == 1
