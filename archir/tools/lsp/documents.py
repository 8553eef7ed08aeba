"""Texts that are open in an editor, with what was found out about each."""

from __future__ import annotations

from pathlib import Path

from lsprotocol import types as lsp
from pygls.uris import to_fs_path
from pygls.workspace import PositionCodec, TextDocument

from archir.diagnostics.errors import Diagnostic
from archir.language.syntax.reading import Kept
from archir.tools.lsp import nets
from archir.tools.lsp.checking import Place
from archir.tools.lsp.view import View


class Document:
    """A text that is open in an editor, with what was found out about it."""

    def __init__(self, document: TextDocument, kept: Kept) -> None:
        self.uri = document.uri
        self.version = document.version
        path = to_fs_path(document.uri)
        self.path = Path(path) if path and document.uri.startswith("file:") else None
        self.text: str = document.source
        self.lines = document.lines
        self.codec: PositionCodec = document.position_codec
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        folder = self.path.resolve().parent if self.path is not None else None
        self.view = View(self.text, str(self.path) if self.path is not None else document.uri, folder)
        self.place = Place(self.view.path, folder, kept=kept)
        self.problems: tuple[Diagnostic, ...] | None = None
        """Everything that is wrong, once that is known."""
        self._nets: list[nets.Net] | None = None

    @property
    def nets(self) -> list[nets.Net]:
        """The nets of the text that are sound."""
        if self._nets is None:
            self._nets = nets.nets(self.view)
        return self._nets

    def check(self) -> tuple[Diagnostic, ...]:
        """Everything that is wrong with the text, as `archir check` says it."""
        if self.problems is None:
            self.problems = self.place.check(self.text)
        return self.problems

    def offset(self, position: lsp.Position) -> int:
        """The offset of a place."""
        if position.line >= len(self.lines):
            return len(self.text)
        own = self.codec.position_from_client_units(self.lines, position)
        return min(self.starts[own.line] + own.character, len(self.text))

    def position(self, offset: int) -> lsp.Position:
        """The place of an offset."""
        low, high = 0, len(self.starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.starts[middle] <= offset else (low, middle)
        if low >= len(self.lines):
            return lsp.Position(line=len(self.lines), character=0)
        line = self.lines[low][: offset - self.starts[low]]
        return lsp.Position(line=low, character=self.codec.client_num_units(line))

    def range(self, start: int, end: int) -> lsp.Range:
        """The range between two offsets."""
        return lsp.Range(start=self.position(start), end=self.position(end))
