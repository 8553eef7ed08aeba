"""Progress bars of long operations, on a terminal or in a notebook.

No bars are shown if the output cannot be redrawn.
"""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

from archir.api.drawing import in_notebook
from archir.diagnostics.escaping import escape_to_line

UPDATE_INTERVAL = 0.2
"""Minimum seconds between two redraws of a progress bar in a notebook."""


def bar(before: str, after: str, estimates: bool = True) -> Any:
    """Return a progress bar with a text before and after it, or None if the output cannot be redrawn.

    The texts are templates as in `rich.progress.Progress`: `{task.fields[loss]}`. The returned object has the methods
    `add_task`, `update`, `start` and `stop` of `rich.progress.Progress`. With `estimates`, the time left is shown, as
    if all steps took equally long.
    """
    if in_notebook():
        return CellBar(before, after, estimates)
    if not sys.stderr.isatty():
        return None
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    left = [TextColumn("left"), TimeRemainingColumn()] if estimates else []
    return Progress(
        TextColumn(before, markup=False), BarColumn(), TextColumn(after), TimeElapsedColumn(), *left,
        console=Console(stderr=True, highlight=False),
    )  # fmt: skip


class CellBar:
    """Progress bar in the output of a notebook cell: a single display that is replaced a few times a second."""

    def __init__(self, before: str, after: str, estimates: bool = True) -> None:
        self._before, self._after, self._estimates = before, after, estimates
        self._fields: dict[str, Any] = {}
        self._total = self._done = self._initially_done = 0
        self._begin = self._shown = 0.0
        self._handle: Any = None

    def add_task(self, description: str, total: int, completed: int = 0, **fields: Any) -> int:
        """Set the total number of steps, how many of them are `completed`, and the values of template fields."""
        self._total, self._done, self._initially_done, self._fields = total, completed, completed, fields
        return 0

    def start(self) -> None:
        """Show the bar."""
        from IPython.display import display

        self._begin = self._shown = time.monotonic()
        self._handle = display(self, display_id=True)

    def update(self, task: int, advance: int = 0, completed: int | None = None, **fields: Any) -> None:
        """Advance the bar by `advance` steps, or set it to `completed` steps, and update the values of template
        fields."""
        self._done = completed if completed is not None else self._done + advance
        self._fields |= fields
        if time.monotonic() - self._shown >= UPDATE_INTERVAL:
            self._show()

    def stop(self) -> None:
        """Redraw the bar in its final state. It stays visible."""
        self._show()

    def _show(self) -> None:
        self._shown = time.monotonic()
        if self._handle is not None:
            self._handle.update(self)

    def __repr__(self) -> str:
        before, after = self._texts()
        return escape_to_line(f"{before} {self._done:,} of {self._total:,} {after} ({self._time()})")

    def _repr_html_(self) -> str:
        from archir.pages import fragments

        before, after = map(fragments.text, self._texts())
        parts = f"{self._done:,} of {self._total:,}"
        shown = f'<progress max="{max(1, self._total)}" value="{self._done}">{parts}</progress>'
        return fragments.fragment(f"<div>{before} {shown} {after} ({self._time()})</div>")

    def _texts(self) -> tuple[str, str]:
        task = SimpleNamespace(fields=self._fields)
        return self._before.format(task=task), self._after.format(task=task)

    def _time(self) -> str:
        took, done = time.monotonic() - self._begin, self._done - self._initially_done
        if done <= 0 or self._done >= self._total or not self._estimates:
            return f"{took:.0f} s"
        return f"{took:.0f} s, about {took * (self._total - self._done) / done:.0f} s left"
