"""The pool view while something happens: the panel follows it, and the still picture is that of the end."""

import pytest

from nanoserve import BlockAllocator
from nanoserve.course.view import widget
from nanoserve.course.view.live import live
from nanoserve.course.view.state import describe
from nanoserve.course.view.watch import watch

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def shown(monkeypatch):
    published = []
    monkeypatch.setattr(widget, "display", lambda data, metadata=None, raw=False: published.append(data))
    return published


def test_the_panel_comes_first_and_the_picture_of_the_end_behind_it(shown):
    allocator = BlockAllocator(4, 16)
    view = watch(allocator)
    with live(view):
        assert [list(data) for data in shown] == [[WIDGET]]
        allocator.allocate_for(40)
    assert len(shown) == 2
    assert shown[1]["text/plain"] == describe(view.state())
    assert "A holds blocks 0 1 2" in shown[1]["text/plain"]


def test_the_panel_is_drawn_anew_at_every_event(shown, monkeypatch):
    drawn = []
    monkeypatch.setattr(widget.PoolPanel, "refresh", lambda panel: drawn.append(len(view.events)))
    allocator = BlockAllocator(4, 16)
    view = watch(allocator)
    with live(view):
        allocator.allocate()
        allocator.allocate()
        allocator.free(0)
    assert drawn == [1, 2, 3]


def test_an_error_in_the_block_is_passed_on_and_the_picture_comes_all_the_same(shown):
    with pytest.raises(RuntimeError, match="walked away"), live(watch(BlockAllocator(4, 16))):
        raise RuntimeError("walked away")
    assert len(shown) == 2
