"""The twelve notebooks speak with one voice: rooms that open alike, no number from nowhere, one set of colours."""

import re

import nbformat
import pytest

from tests.test_notebooks import build, each_day, given_out

NUMBER = re.compile(r"(?<![\w.])\d[\d,_]*(?:\.\d+)?(?:e-?\d+)?(?!\w)")
NOT_PROSE = [
    re.compile(pattern, re.M | re.S)
    for pattern in (
        r"```.*?```",
        r"`[^`]*`",
        r"^#+ [^\n]*$",  # headings
        r"^\*(About )?\d+ minutes",
        r"\[[^\]]*\]\([^)]*\)",  # a link: its source is right there
        r"<[^>]+>",
        r"\bDays? \d+(( to |, | and )\d+)*",
        r"\w+-\d+M\b",  # a model's name
    )
]
# Numbers that no cell of their notebook has, and why each may stand in its prose.
REASONS = {
    "13": {"2.5": "1.23 billion weights of two bytes"},
    "14": {"17": "an example for tomorrow"},
    "15": {"31": "8 blocks of 4 slots, counted from 0"},
    "16": {"60": "30 layers, keys and values"},
    "18": {
        "2022": "the year of a paper",
        "104": "the smallest fp32 above 0 is exp(-103.3)",
        "50,000": "the issue that the sentence links to",
        "100,000": "an example",
        "2e-5": "fp32 has steps of 3e-5 between 256 and 512",
    },
    "19": {
        "2,147,483,647": "2**31 - 1, as it says",
        "2026": "the pull request that the sentence links to",
        "7,767": "the pull request that the sentence links to",
        "48": "128 - 80",
    },
    "20": {
        "65504": "the largest fp16",
        "544": "the comment in the file that the sentence names",
    },
    "21": {
        "256": "the engine's rule, in nanoserve/kernels/launch.py",
        "128": "the engine's rule, and vLLM's, in the file that the sentence links to",
        "2026": "the pull requests that the sentence links to",
    },
    "22": {"27": "30 - 3", "29": "30 - 1"},
    "23": {
        "19": "20 tokens, less the first",
        "21": "22 tokens, less the first",
        "28": "112 tokens in four slots",
    },
    "24": {"4.5": "the section of the paper that the sentence links to"},
}
PALETTE = {
    "#0072b2": "ours, or what lies in blocks",
    "#d55e00": "theirs, or what costs: recomputed, copied, reserved, leaked, the suspect",
    "#7f8895": "a bound, or something to compare with",
    "#667280": "what is written beside a bound",
    "#009e73": "the third of three",
    "#56b4e9": "Day 13: only read",
    "#5a6572": "Day 18: read once more",
    "#d3d7dd": "Day 22: a pad",
    "#ffffff": "nothing",
}


def day_of(source) -> str:
    return source.stem[3:5]


def plain(number: str) -> str:
    """The number as it would be without separators: 2,048 and 2_048 are 2048."""
    return number.replace(",", "").replace("_", "")


def in_prose(markdown: str) -> list[str]:
    """The numbers that a reader meets outside of code, headings, minutes, days and links."""
    for pattern in NOT_PROSE:
        markdown = pattern.sub(" ", markdown)
    return [found.rstrip(",") for found in NUMBER.findall(markdown)]


def in_cells(notebook: nbformat.NotebookNode) -> set[str]:
    """The numbers in its code and in what the code printed."""
    texts = []
    for cell in notebook.cells:
        if cell.cell_type == "code" and "setup" not in cell.metadata.get("tags", []):
            texts.append(cell.source)
            texts += [out.get("text", "") + out.get("data", {}).get("text/plain", "") for out in cell.outputs]
    text = re.sub(r"#[0-9a-f]{6}\b", "", "\n".join(texts))
    return {plain(found) for found in re.findall(r"\d[\d,_]*(?:\.\d+)?(?:e-?\d+)?", text)}


def from_nowhere(notebook: nbformat.NotebookNode) -> set[str]:
    known = in_cells(notebook)
    prose = [found for cell in notebook.cells if cell.cell_type == "markdown" for found in in_prose(cell.source)]
    return {found for found in prose if plain(found) not in known}


def room(source, name: str) -> str:
    """The prose of a room, without its heading."""
    text = "\n\n".join(cell.source for cell in build.assemble(source).cells if cell.cell_type == "markdown")
    return re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]


@each_day
def test_each_number_in_prose_is_in_a_cell_or_has_a_reason(source):
    assert from_nowhere(given_out(source)) <= set(REASONS.get(day_of(source), {}))


@pytest.mark.parametrize("day", REASONS)
def test_each_reason_is_needed(day):
    [source] = build.sources(f"day{day}")
    assert from_nowhere(given_out(source)) >= set(REASONS[day])


def test_a_number_from_nowhere_is_found_and_one_that_is_printed_is_not():
    code = nbformat.v4.new_code_cell("print(2 * 1_024)", outputs=[nbformat.v4.new_output("stream", text="2048\n")])
    text = "### Task 14.1\n\n*8 minutes*\n\nDays 14 and 15: 2,048 of 1,024, `77`, [88](https://99.org), and 2,049."
    notebook = nbformat.v4.new_notebook(cells=[code, nbformat.v4.new_markdown_cell(text)])
    assert from_nowhere(notebook) == {"2,049"}


@each_day
def test_a_day_begins_by_saying_how_long_it_takes_and_what_one_needs(source):
    title, what, needs = build.assemble(source).cells[0].source.split("\n\n")
    assert re.match(rf"# Day {day_of(source)} · ", title)
    assert re.search("[Tt]oday ", what)
    assert re.fullmatch(r"\*About \d+ minutes\. You need [^*]+\.\*", needs.replace("\n", " "))


@each_day
def test_where_we_are_takes_at_most_150_words(source):
    assert len(re.sub(r"\]\([^)]*\)", "]", room(source, "Where we are")).split()) <= 150


@each_day
def test_predict_asks_for_a_guess_and_says_which_room_answers(source):
    asked = " ".join(room(source, "Predict").split())
    assert "?" in asked
    assert re.search(r"Write down your guess(es)?; \*(See|Build)\*( and \*Prove\*)? (answers?|works it out)", asked)


@each_day
def test_a_fault_has_one_folded_answer(source):
    assert room(source, "Break").count("<details><summary><b>The answer</b></summary>") == 1


@each_day
def test_a_recap_has_three_questions_with_folded_answers_and_what_comes_next(source):
    recap = room(source, "Recap")
    questions = re.findall(r"<details><summary><b>(.+?)</b></summary>", recap)
    assert len(questions) == 3
    assert all(question.endswith("?") for question in questions)
    assert ("**Tomorrow** " in recap) is (day_of(source) != "24")


@each_day
def test_the_plots_have_one_set_of_colours(source):
    code = "\n".join(cell.source for cell in build.assemble(source).cells if cell.cell_type == "code")
    assert {colour.lower() for colour in re.findall(r"#[0-9a-fA-F]{6}\b", code)} <= set(PALETTE)
