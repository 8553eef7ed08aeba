"""Tracebacks filtered to the frames of the user's own code."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

_ARCHIR = Path(__file__).resolve().parent.parent


def user_calls(error: BaseException) -> Iterator[str]:
    """Yield a line for each frame of user code in the call stack that led into archir.

    A line has function, line number and source. Frames of IPython are left out.
    """
    for frame in takewhile(_is_outside, traceback.extract_tb(error.__traceback__)):
        of_ipython = "IPython" in Path(frame.filename).parts or "run_cell_magic" in (frame.line or "")
        if frame.line and not of_ipython:
            yield f"{frame.name.replace('<module>', 'here')}, line {frame.lineno}: {frame.line}"


def _is_outside(frame: traceback.FrameSummary) -> bool:
    return not Path(frame.filename).is_relative_to(_ARCHIR)
