"""The language server: the protocol over functions of texts and places. It needs the extra `lsp` (pygls)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial as bind
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import PositionCodec, TextDocument

from archir import __version__
from archir.api.editor import completion, hover, nets, outline, renaming, signatures, tokens
from archir.api.editor.checking import Place
from archir.api.editor.fixing.repair import changes
from archir.api.editor.view import View
from archir.base.errors import ArchError, Diagnostic, Span
from archir.base.work import anew, bounded
from archir.language.syntax.format import canonical

T = TypeVar("T")

QUIET = 0.25
"""Seconds without a keystroke before shapes are proved."""
MOST_FIXES = 3
_KEPT = 32
_SYMBOLS = {
    "block": lsp.SymbolKind.Function, "cell": lsp.SymbolKind.Function, "net": lsp.SymbolKind.Class,
    "const": lsp.SymbolKind.Constant, "choice": lsp.SymbolKind.Enum, "input": lsp.SymbolKind.Variable,
    "output": lsp.SymbolKind.Variable,
}  # fmt: skip
_COMPLETIONS = {
    "keyword": lsp.CompletionItemKind.Keyword, "operation": lsp.CompletionItemKind.Method,
    "block": lsp.CompletionItemKind.Function, "function": lsp.CompletionItemKind.Function,
    "attribute": lsp.CompletionItemKind.Property, "property": lsp.CompletionItemKind.Property,
    "choice": lsp.CompletionItemKind.Enum, "const": lsp.CompletionItemKind.Constant,
    "library": lsp.CompletionItemKind.Module, "alias": lsp.CompletionItemKind.Module,
    "type": lsp.CompletionItemKind.TypeParameter, "tag": lsp.CompletionItemKind.EnumMember,
    "cost": lsp.CompletionItemKind.Unit,
}  # fmt: skip


class Document:
    """A text that is open in an editor, with what was found out about it."""

    def __init__(self, document: TextDocument) -> None:
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
        self.place = Place(self.view.path, folder)
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


class ArchServer(LanguageServer):
    """Keeps what was found out about the texts that are open."""

    def __init__(self) -> None:
        super().__init__("archir", __version__)
        self.documents: dict[str, Document] = {}
        self.waiting: dict[str, asyncio.Task[None]] = {}

    def document(self, uri: str) -> Document:
        """The text that is open under an address, or on disk."""
        current = self.workspace.get_text_document(uri)
        known = self.documents.get(uri)
        if known is None or known.version != current.version or known.text != current.source:
            known = self.documents[uri] = Document(current)
            while len(self.documents) > _KEPT:
                del self.documents[next(iter(self.documents))]
        return known

    def texts(self) -> dict[Path, str]:
        """The texts of files that are open."""
        return {one.path.resolve(): one.text for one in self.documents.values() if one.path is not None}

    def other(self, path: Path) -> Document:
        """A file that may not be open."""
        return self.document(from_fs_path(str(path)) or "")

    def tell(self, document: Document, problems: Iterable[Diagnostic]) -> None:
        """Show what is wrong with a text."""
        found = [_diagnostic(document, one) for one in problems]
        told = lsp.PublishDiagnosticsParams(uri=document.uri, version=document.version, diagnostics=found)
        self.text_document_publish_diagnostics(told)


def _span(document: Document, span: Span | None) -> lsp.Range:
    """The range of a span of this text; of one that lies elsewhere, the first line."""
    if span is None or span.source.name != document.view.path:
        return document.range(0, 0)
    return document.range(span.start, max(span.end, span.start + 1))


def _diagnostic(document: Document, one: Diagnostic) -> lsp.Diagnostic:
    message = one.message
    elsewhere = one.span is not None and one.span.source.name != document.view.path
    place = one.span
    if elsewhere:
        message = f"{one.span}: {message}"
        called = [note.span for note in one.notes if note.span and note.span.source.name == document.view.path]
        place = called[0] if called else None
    notes = [
        lsp.DiagnosticRelatedInformation(
            location=lsp.Location(uri=document.uri, range=_span(document, note.span)), message=note.text
        )
        for note in one.notes
        if note.span is not None and note.span.source.name == document.view.path
    ]
    further = [note.text for note in one.notes if note.span is None]
    said = [message, *further, *([f"hint: {one.hint}"] if one.hint else [])]
    severity = lsp.DiagnosticSeverity.Error if one.severity == "error" else lsp.DiagnosticSeverity.Warning
    return lsp.Diagnostic(
        range=_span(document, place), message="\n".join(said), severity=severity, code=one.code, source="archir",
        related_information=notes or None,
    )  # fmt: skip


def _safely(call: Callable[[], T], otherwise: T) -> T:
    """What a function says; of a text that asks for too much work, nothing."""
    try:
        with bounded(), anew():
            return call()
    except ArchError:
        return otherwise


def make() -> ArchServer:
    """The server with all its features."""
    server = ArchServer()
    _diagnosing(server)
    _reading(server)
    _navigating(server)
    _editing(server)
    return server


def _diagnosing(server: ArchServer) -> None:
    """Words and names at every keystroke, shapes when there was none for a while."""

    def soon(uri: str) -> None:
        document = server.document(uri)
        quick = document.place.check_names(document.text)
        server.tell(document, document.problems if document.problems is not None else quick)
        if (waiting := server.waiting.pop(uri, None)) is not None:
            waiting.cancel()
        if document.problems is None:
            server.waiting[uri] = asyncio.ensure_future(later(uri))

    async def later(uri: str) -> None:
        await asyncio.sleep(QUIET)
        document = server.document(uri)
        server.tell(document, document.check())

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        soon(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        soon(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        server.documents.clear()  # others import what was saved
        soon(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.documents.pop(uri, None)
        if (waiting := server.waiting.pop(uri, None)) is not None:
            waiting.cancel()
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri=uri, diagnostics=[]))


def _reading(server: ArchServer) -> None:
    """What is said of a text: hover, signatures, colours, outline, folds, hints."""

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        document = server.document(params.text_document.uri)
        offset = document.offset(params.position)
        said = _safely(lambda: hover.hover(document.view, offset, document.nets), None)
        content = lsp.MarkupContent(kind=lsp.MarkupKind.Markdown, value=said) if said else None
        return lsp.Hover(contents=content) if content is not None else None

    @server.feature(lsp.TEXT_DOCUMENT_SIGNATURE_HELP, lsp.SignatureHelpOptions(trigger_characters=["(", ","]))
    def signed(params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
        document = server.document(params.text_document.uri)
        found = signatures.signature(document.view, document.offset(params.position))
        if found is None:
            return None
        parameters = [lsp.ParameterInformation(label=one) for one in found.parameters]
        one = lsp.SignatureInformation(label=found.label, documentation=found.text, parameters=parameters)
        return lsp.SignatureHelp(signatures=[one], active_signature=0, active_parameter=found.active)

    @server.feature(
        lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL,
        lsp.SemanticTokensLegend(token_types=[*tokens.TYPES], token_modifiers=[*tokens.MODIFIERS]),
    )
    def coloured(params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
        document = server.document(params.text_document.uri)
        data: list[int] = []
        line = character = 0
        for start, end, kind, marks in tokens.tokens(document.view):
            place = document.position(start)
            if place.line != line:
                character = 0
            size = document.codec.client_num_units(document.text[start:end])
            bits = sum(1 << tokens.MODIFIERS.index(mark) for mark in marks)
            data += [place.line - line, place.character - character, size, tokens.TYPES.index(kind), bits]
            line, character = place.line, place.character
        return lsp.SemanticTokens(data=data)

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def outlined(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        document = server.document(params.text_document.uri)
        return [_symbol(document, one) for one in outline.symbols(document.view)]

    @server.feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    def folded(params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
        document = server.document(params.text_document.uri)
        folds = outline.folds(document.view)
        return [lsp.FoldingRange(start_line=first - 1, end_line=last - 1) for first, last in folds]

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def hinted(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        document = server.document(params.text_document.uri)
        begin, end = document.offset(params.range.start), document.offset(params.range.end)
        nothing: list[nets.Hint] = []
        types = _safely(lambda: nets.shapes(document.view, document.nets), nothing)
        totals = _safely(lambda: nets.totals(document.view, document.nets), nothing)
        return [
            lsp.InlayHint(position=document.position(at), label=text, padding_left=True)
            for at, text in sorted(types + totals)
            if begin <= at <= end
        ]


def _symbol(document: Document, one: outline.Symbol) -> lsp.DocumentSymbol:
    return lsp.DocumentSymbol(
        name=one.name, kind=_SYMBOLS[one.kind], detail=one.kind, range=document.range(one.start, one.end),
        selection_range=document.range(one.named, one.named + len(one.name)),
        children=[_symbol(document, inside) for inside in one.inside],
    )  # fmt: skip


def _navigating(server: ArchServer) -> None:
    """Definitions, references, renames."""

    def location(document: Document, place: renaming.Place) -> lsp.Location:
        path, start, end = place
        there = document if path is None else server.other(path)
        return lsp.Location(uri=there.uri, range=there.range(start, end))

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def defined(params: lsp.DefinitionParams) -> lsp.Location | None:
        document = server.document(params.text_document.uri)
        place = renaming.definition(document.view, document.offset(params.position))
        return location(document, place) if place is not None else None

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def referred(params: lsp.ReferenceParams) -> list[lsp.Location]:
        document = server.document(params.text_document.uri)
        places = renaming.references(document.view, document.offset(params.position), server.texts())
        return [location(document, place) for place in places]

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def renamable(params: lsp.PrepareRenameParams) -> lsp.Range | None:
        document = server.document(params.text_document.uri)
        one = document.view.at(document.offset(params.position))
        return document.range(one.start, one.end) if one is not None else None

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def renamed(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        document = server.document(params.text_document.uri)
        try:
            edits = renaming.rename(document.view, document.offset(params.position), params.new_name, server.texts())
        except ArchError as error:
            message = error.diagnostics[0].message
            server.window_show_message(lsp.ShowMessageParams(type=lsp.MessageType.Error, message=message))
            return None
        changed: dict[str, Any] = {}
        for path, found in edits.items():
            there = document if path is None else server.other(path)
            changed[there.uri] = [_edit(there, *one) for one in found]
        return lsp.WorkspaceEdit(changes=changed)


def _edit(document: Document, start: int, end: int, new: str) -> lsp.TextEdit:
    return lsp.TextEdit(range=document.range(start, end), new_text=new)


def _editing(server: ArchServer) -> None:
    """Completion, fixes, layout."""

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", "@", "("]))
    def completed(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        document = server.document(params.text_document.uri)
        return [
            lsp.CompletionItem(
                label=one.label, detail=one.detail or None, documentation=one.text or None,
                kind=_COMPLETIONS.get(one.kind, lsp.CompletionItemKind.Variable),
            )
            for one in completion.completions(document.view, document.offset(params.position))
        ]  # fmt: skip

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])
    )
    def fixes(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        document = server.document(params.text_document.uri)
        begin, end = params.range.start.line, params.range.end.line
        nothing: list[lsp.CodeAction] = []
        found: list[lsp.CodeAction] = []
        for problem in document.check():
            shown = _diagnostic(document, problem)
            if shown.range.start.line <= end and shown.range.end.line >= begin:
                found += _safely(bind(_fixes, document, problem, shown), nothing)
        return found

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def formatted(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        document = server.document(params.text_document.uri)
        new = _safely(lambda: canonical(document.text, document.view.path), document.text)
        return [] if new == document.text else [_edit(document, 0, len(document.text), new)]


def _fixes(document: Document, problem: Diagnostic, shown: lsp.Diagnostic) -> list[lsp.CodeAction]:
    """The first changes after which fewer mistakes are told at once."""
    before = len(document.place.check_names(document.text))
    found: list[lsp.CodeAction] = []
    for change in changes(document.view.source, problem)[:60]:
        if before and len(document.place.check_names(change.of(document.text))) >= before:
            continue
        if not before and document.place.check(change.of(document.text)):
            continue
        edits = [_edit(document, *one) for one in change.edits]
        action = lsp.CodeAction(
            title=change.title, kind=lsp.CodeActionKind.QuickFix, diagnostics=[shown], is_preferred=not found,
            edit=lsp.WorkspaceEdit(changes={document.uri: edits}),
        )  # fmt: skip
        found.append(action)
        if len(found) == MOST_FIXES:
            break
    return found
