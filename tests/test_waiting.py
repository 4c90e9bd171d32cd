"""The bar under a cell that takes its time."""

import nbformat
import pytest
from nbclient import NotebookClient

from nanoserve.course.waiting import waits_of
from tests.test_notebooks import build

STATE = "application/vnd.jupyter.widget-state+json"


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("model = load_model()\nours = generate(model, prompt, 8)", "Loading the model, running the model"),
        ("assert ours == transformers_tokens(prompt, 8)", "Asking transformers"),
        ("@triton.jit\ndef f(x):\n    pass\n\nf = check('19.1', f)", "Trying your kernel"),
        ("pool.allocate_for(40)  # for the model", ""),
        ("def decode(model):\n    return model(1)\n\ndecode = check('17.3', decode)", ""),
    ],
)
def test_a_cell_says_what_it_waits_for(source, what):
    assert waits_of(source) == what


def test_the_bar_is_there_while_such_a_cell_runs_and_hidden_when_it_has_ended_or_failed():
    cells = [
        "from nanoserve.course.setup_cell import ready\nready()",
        "1 + 1",
        "def generate(prompt):\n    return prompt[1]\n\ngenerate([5, 6])",
        "generate([])",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, allow_errors=True).execute()
    plain, ran, failed = (cell.outputs for cell in notebook.cells[1:])
    assert [output.output_type for output in plain] == ["execute_result"]
    assert [output.output_type for output in ran] == ["display_data", "execute_result"]
    assert [output.output_type for output in failed] == ["display_data", "error"]
    models = notebook.metadata.widgets[STATE]["state"]
    for output in (ran[0], failed[0]):
        bar = models[output.data[build.WIDGET]["model_id"]]["state"]
        assert 'aria-label="Running the model"' in bar["value"]
        assert models[bar["layout"].removeprefix("IPY_MODEL_")]["state"]["display"] == "none"
