"""The workflows and the README hold what they say: what they name is there, and in the words of the course."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


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


def test_the_readme_names_the_repository_and_the_revision_of_pyproject():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["nanoserve"]
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
