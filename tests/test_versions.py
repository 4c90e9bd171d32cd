"""What gets installed: floors in the package, tested versions for make and conda, and what Colab has, all agreeing."""

import json
import os
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
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def requirements(path: Path) -> dict[str, Requirement]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in map(Requirement, lines)}


def pinned(requirement: Requirement) -> str:
    (pin,) = requirement.specifier
    assert pin.operator == "==", f"{requirement} is no exact pin"
    return pin.version.replace(".*", ".0")


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
    asked = [PROJECT["dependencies"], *EXTRAS.values()]
    for requirement in (Requirement(line) for group in asked for line in group):
        pin = constraints[canonicalize_name(requirement.name)]
        assert pinned(pin) in requirement.specifier, f"{pin} against {requirement}"


def test_the_package_asks_for_floors_only():
    for group in (PROJECT["dependencies"], *EXTRAS.values()):
        for line in group:
            assert {clause.operator for clause in Requirement(line).specifier} == {">="}, line


def test_the_constraints_work_on_any_machine():
    for pin in requirements(ROOT / "constraints.txt").values():
        assert pin.url is None, f"{pin} comes from one place"
        assert "+" not in pinned(pin), f"{pin} is one machine's build"


def test_what_colab_has_is_within_the_floors():
    floors = {}
    for line in [*PROJECT["dependencies"], *EXTRAS["course"]]:
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


def test_conda_would_install_the_course_by_pip_with_the_tested_versions(tmp_path):
    """As conda does it: the pip part goes to a file beside environment.yml, and pip resolves it there.

    pytest, whose pin is not its newest version, is named beside it; nothing is followed further, for a test above sees
    that all have their pin.
    """
    course = copy_of_the_package(tmp_path)
    environment = yaml.safe_load((course / "environment.yml").read_text())
    (pip_part,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    (course / "condaenv.requirements.txt").write_text("\n".join([*pip_part, "pytest"]))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--ignore-installed"]
    resolve = [*pip, "--dry-run", "--report", "report.json", "-r", "condaenv.requirements.txt"]
    done = subprocess.run(resolve, cwd=course, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wanted = {
        package["metadata"]["name"]: package for package in json.loads((course / "report.json").read_text())["install"]
    }
    assert wanted["nanoserve"]["download_info"]["dir_info"] == {"editable": True}
    assert set(wanted["nanoserve"]["requested_extras"]) == EXTRAS.keys()
    assert wanted["pytest"]["metadata"]["version"] == pinned(requirements(ROOT / "constraints.txt")["pytest"])


@pytest.mark.xdist_group("a group")
@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process runs all tests")
def test_tests_that_share_something_costly_stay_with_one_worker(request):
    """Versions of pytest and pytest-xdist that do not go together ignore the groups without a word."""
    assert request.node.nodeid.endswith("@a group")
