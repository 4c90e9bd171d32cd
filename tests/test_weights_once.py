"""A conversion happens once on a machine, and whole or not at all: tried with real processes."""

import signal
import subprocess
import sys
import time

import pytest

from nanoserve.weights import build_once

STAND_IN = """
import sys, time
from pathlib import Path
from nanoserve.weights import build_once

target, log, seconds = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])

def build(folder):
    with log.open("a") as lines:
        print("begun", file=lines)
    (folder / "first").write_text("1")
    time.sleep(seconds)
    (folder / "second").write_text("2")

build_once(target, build)
print(sorted(file.name for file in target.iterdir()))
"""


def start(target, log, seconds):
    command = [sys.executable, "-c", STAND_IN, str(target), str(log), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def wait_for(file):
    for _ in range(3000):
        if file.exists():
            return
        time.sleep(0.02)
    raise AssertionError(f"{file} never came")


def test_processes_that_come_together_build_once_and_all_find_it_whole(tmp_path):
    target, log = tmp_path / "cache" / "model", tmp_path / "log"
    processes = [start(target, log, 0.5) for _ in range(3)]
    assert [process.communicate(timeout=120)[0] for process in processes] == ["['first', 'second']\n"] * 3
    assert log.read_text() == "begun\n"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_build_that_is_killed_leaves_nothing_that_looks_finished(tmp_path, how):
    target, log = tmp_path / "cache" / "model", tmp_path / "log"
    process = start(target, log, 300)
    wait_for(target.parent / "model.partial" / "first")
    waiting = start(target, log, 0)
    process.send_signal(how)
    process.communicate(timeout=120)
    assert waiting.communicate(timeout=120)[0] == "['first', 'second']\n"  # it swept, and built its own
    assert log.read_text() == "begun\n" * 2
    assert [folder.name for folder in target.parent.iterdir() if folder.is_dir()] == ["model"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_build_that_fails_leaves_no_folder_and_may_be_tried_again(tmp_path, error):
    target = tmp_path / "model"

    def fail(folder):
        (folder / "first").write_text("1")
        raise error("planted")

    with pytest.raises(error, match="planted"):
        build_once(target, fail)
    assert not any(path.is_dir() for path in tmp_path.iterdir())
    assert build_once(target, lambda folder: (folder / "whole").touch()) == target
    assert build_once(target, fail) == target
    assert [file.name for file in target.iterdir()] == ["whole"]


def test_a_folder_takes_its_name_in_one_step(tmp_path):
    built = []
    target = build_once(tmp_path / "model", lambda folder: built.append((folder.stat().st_ino, folder.name)))
    assert built == [(target.stat().st_ino, "model.partial")]  # renamed, not copied file by file
