"""What a notebook shows: the still picture, the live panel, and buttons that act on the learner's allocator."""

import base64
import builtins

import pytest

from nanoserve import BlockAllocator, BlockTable
from nanoserve.course.view.state import describe
from nanoserve.course.view.svg import draw_pool
from nanoserve.course.view.watch import watch
from nanoserve.course.view.widget import PoolPanel

WIDGET = "application/vnd.jupyter.widget-view+json"


class Panel(PoolPanel):
    """The panel as a reader uses it."""

    def press(self, words):
        buttons = [self._back, self._forward, self._allocate, self._free]
        next(b for b in buttons if words in (b.description, b.tooltip)).click()

    @property
    def step(self):
        return self._slider.value

    @step.setter
    def step(self, value):
        self._slider.value = value

    @property
    def picture(self):
        return self._picture.value


@pytest.fixture
def allocator():
    return BlockAllocator(6, 16)


@pytest.fixture
def view(allocator):
    view = watch(allocator)
    allocator.allocate_for(40)
    allocator.allocate_for(20)
    return view


def shows(panel, view, step):
    return panel.step == step and draw_pool(view.state(step)) in panel.picture


def display(monkeypatch, view):
    """What `view` at the end of a cell would put out."""
    published = []
    monkeypatch.setattr(
        "nanoserve.course.view.widget.display",
        lambda data, metadata=None, raw=False: published.append((data, metadata)),
    )
    view._ipython_display_()
    return published


def test_a_still_picture_comes_first_and_the_live_panel_right_after_it(monkeypatch, view):
    (still, metadata), (live, _) = display(monkeypatch, view)
    assert base64.b64decode(still["image/png"]).startswith(b"\x89PNG")
    assert still["text/plain"] == metadata["image/png"]["alt"] == describe(view.state())
    assert list(live) == [WIDGET]


def test_without_ipywidgets_the_picture_stands_alone(monkeypatch, view):
    real_import = builtins.__import__

    def no_widgets(name, *args, **kwargs):
        if name.startswith("ipywidgets"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_widgets)
    ((still, _),) = display(monkeypatch, view)
    assert "image/png" in still


def test_without_a_renderer_the_words_stand_alone(monkeypatch, view):
    def no_renderer(svg):
        raise ImportError("resvg-py")

    monkeypatch.setattr("nanoserve.course.view.widget.to_png", no_renderer)
    (still, metadata), _ = display(monkeypatch, view)
    assert list(still) == ["text/plain"]
    assert metadata == {}


def test_displaying_twice_puts_out_the_same_picture(monkeypatch, view):
    assert display(monkeypatch, view)[0] == display(monkeypatch, view)[0]


def test_the_panel_begins_at_the_present_and_steps_through_the_past(view):
    panel = Panel(view)
    assert shows(panel, view, 2)
    panel.press("one event back")
    assert shows(panel, view, 1)
    panel.press("one event back")
    panel.press("one event back")
    assert shows(panel, view, 0)
    panel.press("one event on")
    assert shows(panel, view, 1)


def test_what_happens_later_is_shown_at_once(allocator, view):
    panel = Panel(view)
    allocator.allocate_for(16)
    assert shows(panel, view, 3)


def test_a_reader_in_the_past_is_left_there(allocator, view):
    panel = Panel(view)
    panel.step = 1
    allocator.allocate_for(16)
    assert shows(panel, view, 1)
    assert "step 1 of 3" in panel.picture


def test_buttons_act_on_the_learners_allocator_and_in_the_present(allocator, view):
    panel = Panel(view)
    panel.step = 0
    panel._tokens.value = 16
    panel.press("Allocate")
    assert allocator.num_used == 6
    assert shows(panel, view, 3)
    panel._victim.value = "A"
    panel.press("Free")
    assert allocator.num_used == 3
    assert shows(panel, view, 4)
    assert list(panel._victim.options) == ["B", "C"]
    assert panel._victim.value == "B"


def test_an_error_is_an_event_and_nothing_more(view):
    panel = Panel(view)
    panel._tokens.value = 1000
    panel.press("Allocate")
    assert view.events[-1].kind == "error"
    assert "KVCacheExhausted" in panel.picture


def test_freeing_a_followed_sequence_frees_its_table(allocator, view):
    table = BlockTable(allocator)
    view.follow("T", table)
    table.append(3)
    panel = Panel(view)
    panel._victim.value = "T"
    panel.press("Free")
    assert table.num_tokens == 0


def test_an_allocator_that_can_do_little_is_asked_for_little():
    class Little:
        num_blocks, block_size = 3, 4

        def __init__(self):
            self.ids = [2, 1, 0]

        def allocate(self):
            return self.ids.pop()

        def free(self, block_id):
            self.ids.append(block_id)

    view = watch(Little())
    panel = Panel(view)
    assert panel._free.disabled
    panel.press("Allocate")
    panel.press("Free")
    assert [event.text for event in view.events] == ["A takes block 0", "A frees block 0; block 0 is next out"]


def test_two_panels_of_one_watch_go_their_own_ways(allocator, view):
    here, there = Panel(view), Panel(view)
    here.step = 0
    there.press("Allocate")
    assert shows(here, view, 0)
    assert shows(there, view, 3)


def test_every_control_says_what_it_does(view):
    panel = Panel(view)
    for control in (panel._back, panel._forward, panel._allocate, panel._free):
        assert control.tooltip
    for control in (panel._slider, panel._tokens, panel._victim):
        assert control.description
