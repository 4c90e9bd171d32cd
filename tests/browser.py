"""One notebook open in JupyterLab in a real browser, for the tests that must see what a learner sees."""

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from playwright.sync_api import Locator, Page, expect, sync_playwright

BROWSER = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
CHROMIUM_FLAGS = [
    "--no-sandbox",  # a container's root cannot use it, and the only page opened is our own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class OpenNotebook:
    """What a learner does with a notebook. Every wait is for something on the page, never for a time.

    Args:
        page: the browser's page.
        cells: the notebook's cells, as they came.
        patience: seconds that the start and a run may take at most.
    """

    def __init__(self, page: Page, cells: list[NotebookNode], patience: float = 300) -> None:
        self.page = page
        self.sources = [cell.source if cell.cell_type == "code" else "" for cell in cells]
        self.patience = patience * 1000  # Playwright counts milliseconds
        self.console_errors: list[str] = []
        page.on("console", lambda message: message.type == "error" and self.console_errors.append(message.text))
        page.on("pageerror", lambda error: self.console_errors.append(str(error)))

    def menu(self, *path: str) -> None:
        """Choose an entry of the menu bar, as in `menu("Run", "Run All Cells")`."""
        self.page.locator(".lm-MenuBar-itemLabel", has_text=re.compile(f"^{path[0]}$")).click()
        for entry in path[1:]:
            self.page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{entry}$")).click()

    def run_all(self) -> None:
        """Run every cell and wait until the last one has run."""
        cells = self.page.locator(".jp-Notebook .jp-CodeCell")
        first = cells.first.locator(".jp-InputPrompt")
        before = first.inner_text()
        with self._until_run(cells.last):
            for _ in range(3):  # while a kernel is only just starting, the menu may do nothing
                self.menu("Run", "Run All Cells")
                with suppress(AssertionError):
                    expect(first).not_to_have_text(before, timeout=30_000)
                    break

    def source(self, text: str) -> str:
        """The source, as it came, of the one code cell that contains `text`."""
        return self.sources[self._index(text)]

    def cell_by_text(self, text: str) -> Locator:
        """The one code cell that contained `text` when it came; the editor keeps only the lines in view in the page."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(self._index(text))

    def _index(self, text: str) -> int:
        (index,) = [i for i, source in enumerate(self.sources) if text in source]
        return index

    def replace_source(self, cell: Locator, source: str) -> None:
        """Type over a cell's whole source, as one paste, so that the editor indents nothing by itself."""
        cell.locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.insert_text(source)

    def run_cell(self, cell: Locator) -> None:
        """Run one cell and wait until it has run."""
        with self._until_run(cell):
            cell.locator(".cm-content").click()
            self.page.keyboard.press("Control+Enter")

    def output_of(self, cell: Locator) -> Locator:
        """Where a cell's outputs stand."""
        return cell.locator(".jp-Cell-outputArea")

    def screenshot(self, path: Path) -> None:
        """The page as a picture, for a person to look at."""
        self.page.screenshot(path=path)

    @contextmanager
    def _until_run(self, cell: Locator) -> Iterator[None]:
        """Wait at the end until the cell's prompt shows another number: `[ ]:` or `[3]:`, then `[*]:`, then `[7]:`."""
        prompt = cell.locator(".jp-InputPrompt")
        before = re.escape(prompt.inner_text())
        yield
        expect(prompt).to_have_text(re.compile(rf"^(?!{before})\[\d+\]:$"), timeout=self.patience)


@contextmanager
def open_notebook(notebook: NotebookNode, scratch: Path) -> Iterator[OpenNotebook]:
    """Open a notebook in a JupyterLab and a browser of its own; both are gone at the end.

    Args:
        notebook: what to open; none of its cells has run yet.
        scratch: an empty folder for its file, and for all that Jupyter, IPython and the browser would keep at home.
    """
    work = scratch / "work"
    work.mkdir()
    nbformat.write(notebook, work / "notebook.ipynb")
    with _jupyterlab(work, "notebook.ipynb", scratch) as address, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            scratch / "browser",
            executable_path=BROWSER,
            args=CHROMIUM_FLAGS,
            viewport={"width": 1280, "height": 1000},
        )
        try:
            opened = OpenNotebook(context.pages[0], notebook.cells)
            opened.page.goto(address)
            expect(opened.page.locator(".jp-Notebook .jp-CodeCell").first).to_be_visible(timeout=opened.patience)
            expect(opened.page.locator(".jp-KernelName")).to_contain_text("Python", timeout=opened.patience)
            yield opened
        finally:
            context.close()


@contextmanager
def _jupyterlab(root: Path, name: str, scratch: Path) -> Iterator[str]:
    """Serve the folder `root`; gives the address of its notebook `name`."""
    settings = scratch / "settings"
    settings.mkdir()
    # Every cell is in the page, in view or not; and no question about news covers it.
    overrides = {
        "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
        "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    }
    (settings / "overrides.json").write_text(json.dumps(overrides))
    home = {
        "IPYTHONDIR": scratch / "ipython",
        "JUPYTER_CONFIG_DIR": scratch / "config",
        "JUPYTER_DATA_DIR": scratch / "data",
        "JUPYTER_RUNTIME_DIR": scratch / "runtime",
        "JUPYTERLAB_WORKSPACES_DIR": scratch / "workspaces",
        "JUPYTERLAB_SETTINGS_DIR": scratch / "user-settings",
    }
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    log = scratch / "jupyterlab.log"
    with log.open("w") as sink:
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyterlab", "--no-browser", "--ServerApp.allow_root=True"),
                *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
                *(f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}"),
                f"--LabApp.app_settings_dir={settings}",
            ],
            env={**os.environ, **{name: str(path) for name, path in home.items()}},
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for_server(f"http://127.0.0.1:{port}/api?token={token}", server, log)
        yield f"http://127.0.0.1:{port}/lab/tree/{name}?token={token}"
    finally:
        server.terminate()  # it shuts its kernels down before it goes
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_for_server(address: str, server: subprocess.Popen, log: Path, patience: float = 60) -> None:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not come up:\n{log.read_text()[-2000:]}")
