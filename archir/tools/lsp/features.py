"""The features of the language server: the protocol over functions of texts and places."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial as bind
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path

from archir import __version__
from archir.diagnostics.errors import ArchError, Diagnostic, Span
from archir.diagnostics.work import anew, bounded
from archir.language.formatter import canonical
from archir.language.syntax.reading import Kept
from archir.tools.fixing.repair import changes
from archir.tools.lsp import completion, hover, nets, outline, renaming, signatures, tokens
from archir.tools.lsp.aside import Aside, InterruptedWorkError
from archir.tools.lsp.documents import Document

T = TypeVar("T")

QUIET = 0.25
"""Seconds without a keystroke before shapes are proved."""
PAUSE = 0.02
"""Seconds after an answer until long work goes on: questions come in groups."""
BURST = 0.002
"""Seconds in which another keystroke makes this one not worth an answer."""
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


class ArchServer(LanguageServer):
    """Keeps what was found out about the texts that are open."""

    def __init__(self) -> None:
        super().__init__("archir", __version__)
        self.documents: dict[str, Document] = {}
        self.kept: dict[str, Kept] = {}
        """What was read of each text, for what it is after the next keystroke."""
        self.waiting: dict[str, asyncio.Task[None]] = {}
        self.aside = Aside()
        self.about: str | None = None
        """The address of the text that long work is about."""

    def document(self, uri: str) -> Document:
        """The text that is open under an address, or on disk. Long work is given up: somebody waits for an answer."""
        self.rest()
        return self._document(uri)

    def rest(self) -> None:
        """Give up long work, and what it found out so far: some of it may be no more than that it was given up."""
        if self.aside.interrupt() and self.about is not None:
            self.documents.pop(self.about, None)

    async def patiently(self, uri: str, work: Callable[[Document], T]) -> T | None:
        """What long work on a text says, begun anew when it was given up; None if the text is another one by then."""
        asked = self.workspace.get_text_document(uri).version

        def prepare() -> Callable[[], T] | None:
            if self.workspace.get_text_document(uri).version != asked:
                return None
            self.about = uri
            return bind(work, self._document(uri))

        while True:
            try:
                return await self.aside.run(prepare)
            except InterruptedWorkError:
                await asyncio.sleep(PAUSE)

    def _document(self, uri: str) -> Document:
        current = self.workspace.get_text_document(uri)
        known = self.documents.get(uri)
        if known is None or known.version != current.version or known.text != current.source:
            known = self.documents[uri] = Document(current, self.kept.setdefault(uri, Kept()))
            while len(self.documents) > _KEPT:
                oldest = next(iter(self.documents))
                del self.documents[oldest], self.kept[oldest]
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

    async def soon(uri: str) -> None:
        version = server.workspace.get_text_document(uri).version
        await asyncio.sleep(BURST)
        if uri not in server.workspace.text_documents or version != server.workspace.get_text_document(uri).version:
            return
        document = server.document(uri)
        quick = document.place.check_names(document.text)
        server.tell(document, document.problems if document.problems is not None else quick)
        if (waiting := server.waiting.pop(uri, None)) is not None:
            waiting.cancel()
        if document.problems is None:
            server.waiting[uri] = asyncio.ensure_future(later(uri))

    async def later(uri: str) -> None:
        await asyncio.sleep(QUIET)
        done = await server.patiently(uri, lambda document: (document, document.check()))
        if done is not None:
            server.tell(*done)

    async def everywhere() -> None:
        server.rest()
        server.documents.clear()  # others import what was saved
        for uri in list(server.workspace.text_documents):
            await soon(uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        await soon(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        await soon(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        await everywhere()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def watched(params: lsp.DidChangeWatchedFilesParams) -> None:
        await everywhere()

    @server.feature(lsp.SHUTDOWN)
    def ended(params: None) -> None:
        server.rest()

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.rest()
        server.documents.pop(uri, None)
        server.kept.pop(uri, None)
        if (waiting := server.waiting.pop(uri, None)) is not None:
            waiting.cancel()
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri=uri, diagnostics=[]))


def _reading(server: ArchServer) -> None:
    """What is said of a text: hover, signatures, colours, outline, folds, hints."""

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        def say(document: Document) -> str | None:
            offset = document.offset(params.position)
            return _safely(lambda: hover.hover(document.view, offset, document.nets), None)

        said = await server.patiently(params.text_document.uri, say)
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
    async def hinted(params: lsp.InlayHintParams) -> list[lsp.InlayHint] | None:
        def say(document: Document) -> list[lsp.InlayHint]:
            begin, end = document.offset(params.range.start), document.offset(params.range.end)
            nothing: list[nets.Hint] = []
            types = _safely(lambda: nets.shapes(document.view, document.nets), nothing)
            totals = _safely(lambda: nets.totals(document.view, document.nets), nothing)
            return [
                lsp.InlayHint(position=document.position(at), label=text, padding_left=True)
                for at, text in sorted(types + totals)
                if begin <= at <= end
            ]

        return await server.patiently(params.text_document.uri, say)


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
    async def fixes(params: lsp.CodeActionParams) -> list[lsp.CodeAction] | None:
        begin, end = params.range.start.line, params.range.end.line

        def say(document: Document) -> list[lsp.CodeAction]:
            nothing: list[lsp.CodeAction] = []
            found: list[lsp.CodeAction] = []
            for problem in document.check():
                shown = _diagnostic(document, problem)
                if shown.range.start.line <= end and shown.range.end.line >= begin:
                    found += _safely(bind(_fixes, document, problem, shown), nothing)
            return found

        return await server.patiently(params.text_document.uri, say)

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
