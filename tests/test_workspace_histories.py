"""No order of edits, deletions, updates and runs loses what a learner wrote."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nanoserve.course.workspace import refresh
from tests.test_workspace import DAY, notebook


class LearnersAndCourse(RuleBasedStateMachine):
    """Whatever the order of edits, deletions, updates and runs: edits survive, and the rest is the course's newest."""

    @initialize()
    def start(self):
        self.folder = TemporaryDirectory()
        self.src, self.dest = Path(self.folder.name, "notebooks"), Path(self.folder.name, "work")
        self.src.mkdir()
        self.edited: str | None = None
        self.versions = 0
        self.update()
        self.run()

    @rule()
    def update(self):
        self.versions += 1
        (self.src / DAY).write_text(notebook(f"version {self.versions}"))
        self.current = False

    @rule(text=st.text(min_size=1, max_size=4))
    def edit(self, text):
        self.edited = notebook("mine " + text)
        (self.dest / DAY).write_text(self.edited)

    @rule()
    def delete(self):
        (self.dest / DAY).unlink(missing_ok=True)
        self.edited, self.current = None, False

    @rule()
    def run(self):
        refresh(self.src, self.dest)
        self.current = True

    @invariant()
    def holds(self):
        if self.edited is not None:
            assert (self.dest / DAY).read_text() == self.edited
        elif self.current:
            assert (self.dest / DAY).read_text() == (self.src / DAY).read_text()

    def teardown(self):
        self.folder.cleanup()


test_no_order_of_events_loses_an_edit = LearnersAndCourse.TestCase
