"""The README, the glossary and the teacher's page say what the course says."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "notebooks"))
import build  # noqa: E402

PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "GLOSSARY.md", "TEACHING.md")}
DAYS = {  # "14" -> all that its notebook says
    source.stem[3:5]: "\n".join(cell.source for cell in build.assemble(source).cells) for source in build.sources()
}


def test_the_minutes_of_each_day_are_those_that_its_notebook_names():
    named = {day: re.search(r"^\*About (\d+) minutes", text, re.M)[1] for day, text in DAYS.items()}
    assert dict(re.findall(r"^\| (\d+) \| (\d+) \|", PAGES["TEACHING.md"], re.M)) == named


def test_the_readme_lists_every_day_in_order_and_how_long_one_takes():
    linked = re.findall(r"^\| (\d+) \| .+ \| \[\w+\]\(notebooks/(\w+)\.ipynb\) \|$", PAGES["README.md"], re.M)
    assert linked == [(source.stem[3:5], source.stem) for source in build.sources()]
    named = [int(re.search(r"^\*About (\d+) minutes", text, re.M)[1]) for text in DAYS.values()]
    assert f"Each day takes {min(named)} to {max(named)} minutes." in PAGES["README.md"]


def test_the_words_are_in_order_and_each_is_built_on_a_day_that_uses_it():
    rows = re.findall(r"^\| ([^|]+) \| .+ \| ([\d, ]+) \|$", PAGES["GLOSSARY.md"], re.M)
    words = [word for word, _ in rows]
    assert len(words) > 30
    assert words == sorted(words, key=str.lower)
    for word, days in rows:
        for day in days.split(", "):
            assert word.split(" (")[0].removesuffix("ion").lower() in DAYS[day].lower(), (word, day)


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_links_to_is_there(page):
    for target in re.findall(r"\]\(([^)#]+)\)", PAGES[page]):
        assert target.startswith("http") or (ROOT / target).exists(), target
