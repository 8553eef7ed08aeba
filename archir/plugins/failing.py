"""Where in a plugin's own files something failed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from traceback import FrameSummary, extract_tb, format_exception_only

from archir.diagnostics.errors import Source, Span

_OURS = {"archir", "archir_torch", "archir_onnx"}
_INSTALLED = {"site-packages", "dist-packages"}
_MOST_BYTES = 1 << 20


def said(error: BaseException) -> str:
    """The type and the text of an exception, in one line."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return " ".join("".join(format_exception_only(type(error), error)).split())


def place(error: BaseException, homes: list[Path]) -> Span | None:
    """The innermost place below these files and folders that an exception came through."""
    if isinstance(error, SyntaxError) and error.filename and _within(Path(error.filename), homes):
        return _span(error.filename, error.lineno or 1, (error.offset or 1) - 1, None)
    for frame in reversed([*_frames(error)]):
        if _within(Path(frame.filename), homes):
            return _span(frame.filename, frame.lineno or 1, frame.colno, frame.end_colno)
    return None


def _frames(error: BaseException) -> Iterator[FrameSummary]:
    own = {str(Path(file).parent) for name in _OURS if (file := getattr(sys.modules.get(name), "__file__", None))}
    for frame in extract_tb(error.__traceback__):
        if not any(Path(frame.filename).is_relative_to(folder) for folder in own):
            yield frame


def _within(file: Path, homes: list[Path]) -> bool:
    """Whether a file is one of a plugin's, and not of what is installed in a folder of its folder."""
    return any(
        file.is_relative_to(home) and not _INSTALLED & {*file.relative_to(home).parts} for home in homes
    )  # fmt: skip


def _span(name: str, line: int, begin: int | None, end: int | None) -> Span | None:
    try:
        text = Path(name).read_bytes()[:_MOST_BYTES].decode("utf-8", "replace")
    except OSError:
        return None
    path = Path(name)
    source = Source(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path), text)
    if line > len(source.starts):
        return None
    written = source.line(line)
    start = len(written) - len(written.lstrip()) if begin is None else min(begin, len(written))
    stop = len(written) if end is None or end <= start else min(end, len(written))
    return Span(source, source.starts[line - 1] + start, source.starts[line - 1] + stop)
