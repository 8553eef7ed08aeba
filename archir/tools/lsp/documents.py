"""Documents that are open in an editor, with cached results for each."""

from __future__ import annotations

from pathlib import Path

from lsprotocol import types as lsp
from pygls.uris import to_fs_path
from pygls.workspace import PositionCodec, TextDocument

from archir.diagnostics.errors import Diagnostic
from archir.language.syntax.strict_parse import ItemCache
from archir.tools.lsp import nets
from archir.tools.lsp.checking import Checker
from archir.tools.lsp.view import View


class Document:
    """One version of a document that is open in an editor: text, path on disk, cached nets and diagnostics.

    The constructor's `cache` holds the parsed items of the previous version.
    """

    def __init__(self, document: TextDocument, cache: ItemCache) -> None:
        self.uri = document.uri
        self.version = document.version
        path = to_fs_path(document.uri)
        self.path = Path(path) if path and document.uri.startswith("file:") else None
        self.text: str = document.source
        self.lines = document.lines
        self.codec: PositionCodec = document.position_codec
        self.line_starts = [0]
        for line in self.lines:
            self.line_starts.append(self.line_starts[-1] + len(line))
        folder = self.path.resolve().parent if self.path is not None else None
        self.view = View(self.text, str(self.path) if self.path is not None else document.uri, folder)
        self.checker = Checker(self.view.path, folder, cache=cache)
        self.problems: tuple[Diagnostic, ...] | None = None
        """All diagnostics, or None if the full check has not run yet."""
        self._nets: list[nets.Net] | None = None

    @property
    def nets(self) -> list[nets.Net]:
        """The nets of the text that elaborate without errors, computed on first use."""
        if self._nets is None:
            self._nets = nets.nets(self.view)
        return self._nets

    def check(self) -> tuple[Diagnostic, ...]:
        """Return all diagnostics of the text, the same as `archir check` reports; cached."""
        if self.problems is None:
            self.problems = self.checker.check(self.text)
        return self.problems

    def offset(self, position: lsp.Position) -> int:
        """Convert an LSP position, which counts in units of the client's encoding, to an offset."""
        if position.line >= len(self.lines):
            return len(self.text)
        position_in_text = self.codec.position_from_client_units(self.lines, position)
        return min(self.line_starts[position_in_text.line] + position_in_text.character, len(self.text))

    def position(self, offset: int) -> lsp.Position:
        """Convert an offset to an LSP position, which counts in units of the client's encoding."""
        low, high = 0, len(self.line_starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.line_starts[middle] <= offset else (low, middle)
        if low >= len(self.lines):
            return lsp.Position(line=len(self.lines), character=0)
        line = self.lines[low][: offset - self.line_starts[low]]
        return lsp.Position(line=low, character=self.codec.client_num_units(line))

    def range(self, start: int, end: int) -> lsp.Range:
        """Return the LSP range between two offsets."""
        return lsp.Range(start=self.position(start), end=self.position(end))
