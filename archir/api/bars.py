"""Bars of long work: on a terminal, in a notebook's cell, or none where nothing can be drawn again."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

from archir.api.drawing import in_notebook
from archir.diagnostics.visible import one_line
from archir.pictures import markup

EVERY = 0.2
"""Seconds between two pictures of a bar: a notebook keeps up with these."""


def bar(before: str, after: str) -> Any:
    """A bar between two texts, as `rich.progress.Progress` has them: `{task.fields[loss]}`; None where there is none.

    It has that class's `add_task`, `update`, `start` and `stop`.
    """
    if in_notebook():
        return CellBar(before, after)
    if not sys.stderr.isatty():
        return None
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    return Progress(
        TextColumn(before, markup=False), BarColumn(), TextColumn(after), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(), console=Console(stderr=True, highlight=False),
    )  # fmt: skip


class CellBar:
    """A bar in the output of a cell: one display, which is replaced a few times a second."""

    def __init__(self, before: str, after: str) -> None:
        self._before, self._after = before, after
        self._fields: dict[str, Any] = {}
        self._total = self._done = self._first = 0
        self._begin = self._shown = 0.0
        self._handle: Any = None

    def add_task(self, description: str, total: int, completed: int = 0, **fields: Any) -> int:
        """What is to be done, of which some may be done already."""
        self._total, self._done, self._first, self._fields = total, completed, completed, fields
        return 0

    def start(self) -> None:
        """Show the bar."""
        from IPython.display import display

        self._begin = self._shown = time.monotonic()
        self._handle = display(self, display_id=True)

    def update(self, task: int, advance: int = 0, completed: int | None = None, **fields: Any) -> None:
        """Something was done."""
        self._done = completed if completed is not None else self._done + advance
        self._fields |= fields
        if time.monotonic() - self._shown >= EVERY:
            self._show()

    def stop(self) -> None:
        """What was done last is shown, and stays."""
        self._show()

    def _show(self) -> None:
        self._shown = time.monotonic()
        if self._handle is not None:
            self._handle.update(self)

    def __repr__(self) -> str:
        before, after = self._texts()
        return one_line(f"{before} {self._done:,} of {self._total:,} {after} ({self._time()})")

    def _repr_html_(self) -> str:
        before, after = map(markup.text, self._texts())
        parts = f"{self._done:,} of {self._total:,}"
        shown = f'<progress max="{max(1, self._total)}" value="{self._done}">{parts}</progress>'
        return markup.whole(f"<div>{before} {shown} {after} ({self._time()})</div>")

    def _texts(self) -> tuple[str, str]:
        task = SimpleNamespace(fields=self._fields)
        return self._before.format(task=task), self._after.format(task=task)

    def _time(self) -> str:
        took, done = time.monotonic() - self._begin, self._done - self._first
        if done <= 0 or self._done >= self._total:
            return f"{took:.0f} s"
        return f"{took:.0f} s, about {took * (self._total - self._done) / done:.0f} s left"
