"""Progress bars in notebook cell outputs."""

from __future__ import annotations

from typing import Any

import IPython.display
import pytest

import archir
from archir.api import bars, progress
from tests.notebook.test_showing import harmless, space


class Handle:
    """An output of a cell, and all that it has shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.text = ""

    def update(self, html: Any) -> None:
        self.shown.append(html._repr_html_())
        self.text = repr(html)


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Handle:
    made = Handle()

    def display(html: Any, display_id: bool) -> Handle:
        assert display_id
        made.update(html)
        return made

    monkeypatch.setattr(IPython.display, "display", display)
    monkeypatch.setattr(bars, "in_notebook", lambda: True)
    return made


def said(html: str) -> str:
    found = html.replace("<progress", "<div").replace("</progress", "</div")
    for attribute in (' max="', ' value="'):
        begin = found.index(attribute)
        found = found[:begin] + found[found.index('"', begin + len(attribute)) + 1 :]
    return harmless(found).text


def test_bar_updates_one_output_at_limited_rate(cell: Handle, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.SearchProgress() as shown:
        shown.start("<b>first</b>", 2, 500, 0)
        for index in range(1000):
            shown.step(index, {"loss": 0.5})
        shown.epoch({"epoch": 1, "loss": 0.5, "validation_accuracy": 0.25, "seconds": 2})
    assert 2 <= len(cell.shown) <= 10, "a thousand steps are not a thousand messages"
    assert said(cell.shown[0]) == "<b>first</b> epoch 1/2 0 of 1,000 -  - (0 s)"
    assert said(cell.shown[-1]).startswith("<b>first</b> epoch 2/2 1,000 of 1,000 loss 0.500  validation 25.0% (")
    assert 'max="1000" value="1000"' in cell.shown[-1]
    assert cell.text.startswith("<b>first</b> epoch 2/2 1,000 of 1,000 loss 0.500  validation 25.0% (")
    assert capsys.readouterr() == ("", "")


def test_bar_shows_remaining_time(cell: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(bars.time, "monotonic", lambda: now[0])
    bar = bars.bar("before", "after")
    bar.add_task("", total=10, completed=2)
    bar.start()
    now[0] = 4.0
    bar.update(0, advance=4)
    assert said(cell.shown[-1]) == "before 6 of 10 after (4 s, about 4 s left)"
    now[0] = 4.1
    bar.update(0, advance=1)
    assert len(cell.shown) == 2
    bar.stop()
    assert said(cell.shown[-1]) == "before 7 of 10 after (4 s, about 2 s left)"


def test_train_with_progress_shows_bar_in_notebook(cell: Handle) -> None:
    network = space().specialize(space().sample(0))
    settings = {"epochs": 1, "batch": 64, "augment": False}
    archir.train(network, data="digits", settings=settings, device="cpu", progress=True)
    assert said(cell.shown[-1]).startswith("epoch 1/1 ")
    assert "held out" in said(cell.shown[-1])


def test_train_with_progress_prints_line_per_epoch_outside_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    network = space().specialize(space().sample(0))
    settings = {"epochs": 1, "batch": 64, "augment": False}
    archir.train(network, data="digits", settings=settings, device="cpu", progress=True)
    assert capsys.readouterr().err.startswith("epoch 1/1: loss ")
    archir.train(network, data="digits", settings=settings, device="cpu")
    assert capsys.readouterr().err == ""
