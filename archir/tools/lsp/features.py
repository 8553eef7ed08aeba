"""Request handlers of the language server: they translate protocol messages to calls on texts and offsets."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from functools import partial as bind
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from archir import __version__
from archir.diagnostics.errors import ArchError, Diagnostic, Span
from archir.diagnostics.work import fresh_budget, work_budget
from archir.language.syntax import ast
from archir.language.syntax.strict_parse import ItemCache
from archir.tools.fixing.repair import candidate_changes
from archir.tools.lsp import completion, hover, links, nets, outline, renaming, semantic_tokens, signatures
from archir.tools.lsp.background import BackgroundWorker, InterruptedWorkError
from archir.tools.lsp.documents import Document
from archir.tools.lsp.formatting import formatting_edits
from archir.tools.lsp.view import View, arch_files
from archir.utils.edits import Edit

T = TypeVar("T")

CHECK_DELAY = 0.25
"""Seconds from the last keystroke until the full check starts, which proves shapes."""
RESUME_DELAY = 0.02
"""Seconds from an interruption until the interrupted work restarts.

The work does not restart at once, since requests come in bursts.
"""
DEBOUNCE = 0.002
"""Seconds from a keystroke until names are checked. Another keystroke within this time cancels the check."""
MAX_FIXES = 3
"""Maximum number of quick fixes offered per error."""
_MAX_DOCUMENTS = 32
"""Maximum number of documents with cached results."""
_SYMBOLS = {
    "block": lsp.SymbolKind.Function, "cell": lsp.SymbolKind.Function, "net": lsp.SymbolKind.Class,
    "const": lsp.SymbolKind.Constant, "choice": lsp.SymbolKind.Enum, "input": lsp.SymbolKind.Variable,
    "output": lsp.SymbolKind.Variable,
}  # fmt: skip
"""LSP symbol kind by kind of outline symbol."""
_COMPLETIONS = {
    "keyword": lsp.CompletionItemKind.Keyword, "operation": lsp.CompletionItemKind.Method,
    "block": lsp.CompletionItemKind.Function, "function": lsp.CompletionItemKind.Function,
    "attribute": lsp.CompletionItemKind.Property, "property": lsp.CompletionItemKind.Property,
    "choice": lsp.CompletionItemKind.Enum, "const": lsp.CompletionItemKind.Constant,
    "library": lsp.CompletionItemKind.Module, "alias": lsp.CompletionItemKind.Module,
    "type": lsp.CompletionItemKind.TypeParameter, "tag": lsp.CompletionItemKind.EnumMember,
    "cost": lsp.CompletionItemKind.Unit,
}  # fmt: skip
"""LSP completion kind by kind of completion item."""


class ArchServer(LanguageServer):
    """Language server for `.arch` files, with cached results for open documents."""

    def __init__(self) -> None:
        super().__init__("archir", __version__)
        self.documents: dict[str, Document] = {}
        self.parse_caches: dict[str, ItemCache] = {}
        """Cache of parsed items of each document's previous version, by URI."""
        self.scheduled_checks: dict[str, asyncio.Task[None]] = {}
        """Tasks of full checks that are scheduled or running, by URI."""
        self.background = BackgroundWorker()
        self.background_uri: str | None = None
        """URI of the document to which the background work belongs."""

    def document(self, uri: str) -> Document:
        """Return the current document for a URI, open or on disk.

        Background work is interrupted first, since a client is waiting for the answer.
        """
        self.interrupt()
        return self._document(uri)

    def interrupt(self) -> None:
        """Interrupt background work and drop the cached results of its document, some of which may be incomplete."""
        if self.background.interrupt() and self.background_uri is not None:
            self.documents.pop(self.background_uri, None)

    async def in_background(self, uri: str, work: Callable[[Document], T]) -> T | None:
        """Run work on a document in the background, restart it after each interruption, and return its result.

        Returns None if the document has changed since the call.
        """
        version = self.workspace.get_text_document(uri).version

        def prepare() -> Callable[[], T] | None:
            if self.workspace.get_text_document(uri).version != version:
                return None
            self.background_uri = uri
            return bind(work, self._document(uri))

        while True:
            try:
                return await self.background.run(prepare)
            except InterruptedWorkError:
                await asyncio.sleep(RESUME_DELAY)

    def _document(self, uri: str) -> Document:
        """Return the document for a URI in its current version, from the cache if possible."""
        current = self.workspace.get_text_document(uri)
        document = self.documents.get(uri)
        if document is None or document.version != current.version or document.text != current.source:
            document = self.documents[uri] = Document(current, self.parse_caches.setdefault(uri, ItemCache()))
            while len(self.documents) > _MAX_DOCUMENTS:
                oldest = next(iter(self.documents))
                del self.documents[oldest], self.parse_caches[oldest]
        return document

    def open_texts(self) -> dict[Path, str]:
        """Return the texts of open documents by resolved file path, including unsaved changes."""
        paths = {uri: to_fs_path(uri) for uri in self.workspace.text_documents if uri.startswith("file:")}
        return {
            Path(path).resolve(): self.workspace.get_text_document(uri).source for uri, path in paths.items() if path
        }

    def document_of_file(self, path: Path) -> Document:
        """Return the document of a file, whether or not it is open."""
        return self.document(from_fs_path(str(path)) or "")

    def publish(self, document: Document, problems: Iterable[Diagnostic]) -> None:
        """Send the diagnostics of a document to the client."""
        diagnostics = [_diagnostic(document, problem) for problem in problems]
        params = lsp.PublishDiagnosticsParams(uri=document.uri, version=document.version, diagnostics=diagnostics)
        self.text_document_publish_diagnostics(params)


def _range_of(document: Document, span: Span | None) -> lsp.Range:
    """Return the LSP range of a span in this document.

    For None and for spans in other files, it is the first character.
    """
    if span is None or span.source.name != document.view.path:
        return document.range(0, 0)
    return document.range(span.start, max(span.end, span.start + 1))


def _diagnostic(document: Document, problem: Diagnostic) -> lsp.Diagnostic:
    """Convert a diagnostic to LSP.

    An error in another file gets the range of its first note that lies in this document.
    """
    message = problem.message
    is_elsewhere = problem.span is not None and problem.span.source.name != document.view.path
    span = problem.span
    if is_elsewhere:
        message = f"{problem.span}: {message}"
        note_spans = [note.span for note in problem.notes if note.span and note.span.source.name == document.view.path]
        span = note_spans[0] if note_spans else None
    notes = [
        lsp.DiagnosticRelatedInformation(
            location=lsp.Location(uri=document.uri, range=_range_of(document, note.span)), message=note.text
        )
        for note in problem.notes
        if note.span is not None and note.span.source.name == document.view.path
    ]
    other_notes = [note.text for note in problem.notes if note.span is None]
    lines = [message, *other_notes, *([f"hint: {problem.hint}"] if problem.hint else [])]
    severity = lsp.DiagnosticSeverity.Error if problem.severity == "error" else lsp.DiagnosticSeverity.Warning
    return lsp.Diagnostic(
        range=_range_of(document, span), message="\n".join(lines), severity=severity, code=problem.code,
        source="archir",
        related_information=notes or None,
    )  # fmt: skip


def _or_default(call: Callable[[], T], default: T) -> T:
    """Call a function and return its result, or `default` if it raises ArchError.

    The call has its own work budget, and exceeding that raises ArchError, too.
    """
    try:
        with work_budget(), fresh_budget():
            return call()
    except ArchError:
        return default


def _supports(server: ArchServer, capability: str) -> bool:
    """Return True if the client has a capability below `textDocument`, such as `completion.completion_item`."""
    value: Any = server.client_capabilities.text_document
    for name in capability.split("."):
        value = getattr(value, name, None)
    return value is not None and value is not False


def make_server() -> ArchServer:
    """Create the server and register all handlers."""
    server = ArchServer()
    _register_diagnostics(server)
    _register_displays(server)
    _register_navigation(server)
    _register_editing(server)
    return server


def _register_diagnostics(server: ArchServer) -> None:
    """Register the handlers that publish diagnostics.

    Errors of syntax and names are published after each keystroke, all diagnostics after a pause in typing.
    """

    async def check_names_soon(uri: str) -> None:
        """After DEBOUNCE, publish errors of syntax and names, and schedule the full check."""
        version = server.workspace.get_text_document(uri).version
        await asyncio.sleep(DEBOUNCE)
        if uri not in server.workspace.text_documents or version != server.workspace.get_text_document(uri).version:
            return
        document = server.document(uri)
        name_problems = document.checker.check_names(document.text)
        server.publish(document, document.problems if document.problems is not None else name_problems)
        if (scheduled := server.scheduled_checks.pop(uri, None)) is not None:
            scheduled.cancel()
        if document.problems is None:
            server.scheduled_checks[uri] = asyncio.ensure_future(check_later(uri))

    async def check_later(uri: str) -> None:
        """Wait for CHECK_DELAY, then run the full check in the background and publish its diagnostics."""
        await asyncio.sleep(CHECK_DELAY)
        checked = await server.in_background(uri, lambda document: (document, document.check()))
        if checked is not None:
            server.publish(*checked)

    async def check_all() -> None:
        """Check all open documents again, as imported files may have changed."""
        server.interrupt()
        server.documents.clear()  # open documents may import the saved file
        for uri in server.parse_caches.keys() - server.workspace.text_documents.keys():
            del server.parse_caches[uri]
        for uri in list(server.workspace.text_documents):
            await check_names_soon(uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def on_open(params: lsp.DidOpenTextDocumentParams) -> None:
        await check_names_soon(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def on_change(params: lsp.DidChangeTextDocumentParams) -> None:
        await check_names_soon(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def on_save(params: lsp.DidSaveTextDocumentParams) -> None:
        await check_all()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def on_files_changed(params: lsp.DidChangeWatchedFilesParams) -> None:
        await check_all()

    @server.feature(lsp.SHUTDOWN)
    def on_shutdown(params: None) -> None:
        server.interrupt()

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def on_close(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.interrupt()
        server.documents.pop(uri, None)
        server.parse_caches.pop(uri, None)
        if (scheduled := server.scheduled_checks.pop(uri, None)) is not None:
            scheduled.cancel()
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri=uri, diagnostics=[]))


def _register_displays(server: ArchServer) -> None:
    """Register the handlers for hover, signature help, semantic tokens, document symbols, folding and inlay hints."""

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def on_hover(params: lsp.HoverParams) -> lsp.Hover | None:
        def describe(document: Document) -> str | None:
            offset = document.offset(params.position)
            return _or_default(lambda: hover.hover(document.view, offset, document.nets), None)

        text = await server.in_background(params.text_document.uri, describe)
        content = lsp.MarkupContent(kind=lsp.MarkupKind.Markdown, value=text) if text else None
        return lsp.Hover(contents=content) if content is not None else None

    @server.feature(lsp.TEXT_DOCUMENT_SIGNATURE_HELP, lsp.SignatureHelpOptions(trigger_characters=["(", ","]))
    def on_signature_help(params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
        document = server.document(params.text_document.uri)
        signature = signatures.signature_at(document.view, document.offset(params.position))
        if signature is None:
            return None
        parameters = [lsp.ParameterInformation(label=information) for information in signature.parameters]
        information = lsp.SignatureInformation(
            label=signature.label, documentation=signature.text, parameters=parameters
        )
        return lsp.SignatureHelp(signatures=[information], active_signature=0, active_parameter=signature.active)

    @server.feature(
        lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL,
        lsp.SemanticTokensLegend(token_types=[*semantic_tokens.TYPES], token_modifiers=[*semantic_tokens.MODIFIERS]),
    )
    def on_semantic_tokens(params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
        document = server.document(params.text_document.uri)
        data: list[int] = []
        line = character = 0
        for start, end, kind, modifiers in semantic_tokens.semantic_tokens(document.view):
            position = document.position(start)
            if position.line != line:
                character = 0
            size = document.codec.client_num_units(document.text[start:end])
            bits = sum(1 << semantic_tokens.MODIFIERS.index(modifier) for modifier in modifiers)
            data += [
                position.line - line,
                position.character - character,
                size,
                semantic_tokens.TYPES.index(kind),
                bits,
            ]
            line, character = position.line, position.character
        return lsp.SemanticTokens(data=data)

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def on_document_symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        document = server.document(params.text_document.uri)
        return [_symbol(document, symbol) for symbol in outline.symbols(document.view)]

    @server.feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    def on_folding(params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
        document = server.document(params.text_document.uri)
        folds = outline.folding_ranges(document.view)
        return [lsp.FoldingRange(start_line=first - 1, end_line=last - 1) for first, last in folds]

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    async def on_inlay_hints(params: lsp.InlayHintParams) -> list[lsp.InlayHint] | None:
        def hints(document: Document) -> list[lsp.InlayHint]:
            begin, end = document.offset(params.range.start), document.offset(params.range.end)
            no_hints: list[nets.Hint] = []
            types = _or_default(lambda: nets.shape_hints(document.view, document.nets), no_hints)
            totals = no_hints
            if not _supports(server, "code_lens"):
                totals = _or_default(lambda: nets.cost_hints(document.view, document.nets), no_hints)
            return [
                lsp.InlayHint(position=document.position(at), label=text, padding_left=True)
                for at, text in sorted(types + totals)
                if begin <= at <= end
            ]

        return await server.in_background(params.text_document.uri, hints)

    @server.feature(lsp.TEXT_DOCUMENT_CODE_LENS, lsp.CodeLensOptions())
    async def on_code_lenses(params: lsp.CodeLensParams) -> list[lsp.CodeLens] | None:
        def lenses(document: Document) -> list[lsp.CodeLens]:
            no_summaries: list[tuple[ast.Definition, str]] = []
            summaries = _or_default(lambda: [*nets.summaries(document.view, document.nets)], no_summaries)
            return [
                lsp.CodeLens(
                    range=document.range(definition.name.span.start, definition.name.span.end),
                    command=lsp.Command(title=text, command=""),
                )
                for definition, text in summaries
            ]

        return await server.in_background(params.text_document.uri, lenses)


def _symbol(document: Document, symbol: outline.Symbol) -> lsp.DocumentSymbol:
    """Convert an outline symbol, with its children, to LSP."""
    return lsp.DocumentSymbol(
        name=symbol.name, kind=_SYMBOLS[symbol.kind], detail=symbol.kind, range=document.range(symbol.start,
        symbol.end),
        selection_range=document.range(symbol.name_start, symbol.name_start + len(symbol.name)),
        children=[_symbol(document, child) for child in symbol.children],
    )  # fmt: skip


def _register_navigation(server: ArchServer) -> None:
    """Register the handlers for definitions, references and renames."""

    def location(document: Document, place: renaming.Location) -> lsp.Location:
        path, start, end = place
        target = document if path is None else server.document_of_file(path)
        return lsp.Location(uri=target.uri, range=target.range(start, end))

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def on_definition(params: lsp.DefinitionParams) -> lsp.Location | None:
        document = server.document(params.text_document.uri)
        place = renaming.find_definition(document.view, document.offset(params.position))
        return location(document, place) if place is not None else None

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def on_references(params: lsp.ReferenceParams) -> list[lsp.Location]:
        document = server.document(params.text_document.uri)
        places = renaming.find_references(document.view, document.offset(params.position), server.open_texts())
        return [location(document, place) for place in places]

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def on_highlight(params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
        document = server.document(params.text_document.uri)
        occurrence = document.view.occurrence_at(document.offset(params.position))
        return [
            lsp.DocumentHighlight(
                range=document.range(match.start, match.end),
                kind=lsp.DocumentHighlightKind.Write if match.is_definition else lsp.DocumentHighlightKind.Read,
            )
            for match in (document.view.occurrences_of(occurrence) if occurrence is not None else ())
        ]

    @server.feature(lsp.WORKSPACE_SYMBOL)
    def on_workspace_symbols(params: lsp.WorkspaceSymbolParams) -> list[lsp.WorkspaceSymbol]:
        server.interrupt()
        open_texts = server.open_texts()
        symbols: list[lsp.WorkspaceSymbol] = []
        for folder in map(Path, filter(None, map(to_fs_path, server.workspace.folders or [server.workspace.root_uri]))):
            for path in arch_files(folder):
                try:
                    text = View.from_file(path, open_texts.get(path.resolve())).text
                except (OSError, UnicodeDecodeError):
                    continue
                symbols += [
                    _workspace_symbol(path, folder, text, symbol)
                    for symbol in outline.find_definitions(text, params.query)
                ]
        return symbols

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_LINK)
    def on_links(params: lsp.DocumentLinkParams) -> list[lsp.DocumentLink]:
        document = server.document(params.text_document.uri)
        return [
            lsp.DocumentLink(range=document.range(start, end), target=from_fs_path(str(path)), tooltip=str(path))
            for start, end, path in links.import_links(document.view)
        ]

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def on_prepare_rename(params: lsp.PrepareRenameParams) -> lsp.PrepareRenamePlaceholder | None:
        document = server.document(params.text_document.uri)
        try:
            name = renaming.find_renamable(document.view, document.offset(params.position))
        except ArchError:
            return None
        return lsp.PrepareRenamePlaceholder(range=document.range(name.start, name.end), placeholder=name.name)

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def on_rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        document = server.document(params.text_document.uri)
        try:
            edits = renaming.rename(
                document.view, document.offset(params.position), params.new_name, server.open_texts()
            )
        except ArchError as error:
            message = error.diagnostics[0].message
            server.window_show_message(lsp.ShowMessageParams(type=lsp.MessageType.Error, message=message))
            return None
        changed: dict[str, Any] = {}
        for path, file_edits in edits.items():
            target = document if path is None else server.document_of_file(path)
            changed[target.uri] = [_edit(target, *edit) for edit in file_edits]
        return lsp.WorkspaceEdit(changes=changed)


def _workspace_symbol(path: Path, folder: Path, text: str, symbol: outline.Symbol) -> lsp.WorkspaceSymbol:
    """Convert a symbol of a file in a folder to LSP."""
    line_start = text.rfind("\n", 0, symbol.name_start) + 1
    begin = lsp.Position(text.count("\n", 0, symbol.name_start), symbol.name_start - line_start)
    end = lsp.Position(begin.line, begin.character + len(symbol.name))
    return lsp.WorkspaceSymbol(
        location=lsp.Location(from_fs_path(str(path)) or "", lsp.Range(begin, end)), name=symbol.name,
        kind=_SYMBOLS[symbol.kind], container_name=str(path.relative_to(folder)),
    )  # fmt: skip


def _edit(document: Document, start: int, end: int, new: str) -> lsp.TextEdit:
    """Return the LSP edit that replaces the text between two offsets."""
    return lsp.TextEdit(range=document.range(start, end), new_text=new)


def _register_editing(server: ArchServer) -> None:
    """Register the handlers for completion, quick fixes and formatting."""

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", "@", "(", ">"]))
    def on_completion(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        document = server.document(params.text_document.uri)
        expands_snippets = _supports(server, "completion.completion_item.snippet_support")
        return [
            lsp.CompletionItem(
                label=item.label, detail=item.detail or None, documentation=item.text or None,
                kind=_COMPLETIONS.get(item.kind, lsp.CompletionItemKind.Variable), sort_text=f"{number:04}",
                insert_text=item.snippet or None if expands_snippets else None,
                insert_text_format=lsp.InsertTextFormat.Snippet if item.snippet and expands_snippets else None,
            )
            for number, item in enumerate(completion.completions(document.view, document.offset(params.position)))
        ]  # fmt: skip

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])
    )
    async def on_code_action(params: lsp.CodeActionParams) -> list[lsp.CodeAction] | None:
        begin, end = params.range.start.line, params.range.end.line

        def quick_fixes(document: Document) -> list[lsp.CodeAction]:
            no_fixes: list[lsp.CodeAction] = []
            actions: list[lsp.CodeAction] = []
            for problem in document.check():
                shown = _diagnostic(document, problem)
                if shown.range.start.line <= end and shown.range.end.line >= begin:
                    actions += _or_default(bind(_quick_fixes, document, problem, shown), no_fixes)
            return actions

        return await server.in_background(params.text_document.uri, quick_fixes)

    def formatted(uri: str, first: int, last: int) -> list[lsp.TextEdit]:
        document = server.document(uri)
        no_edits: list[Edit] = []
        edits = _or_default(lambda: formatting_edits(document.text, document.view.path, first, last), no_edits)
        return [_edit(document, *edit) for edit in edits]

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def on_formatting(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        return formatted(params.text_document.uri, 0, sys.maxsize)

    @server.feature(lsp.TEXT_DOCUMENT_RANGE_FORMATTING)
    def on_range_formatting(params: lsp.DocumentRangeFormattingParams) -> list[lsp.TextEdit]:
        last = params.range.end.line - (params.range.end.character == 0 and params.range.end != params.range.start)
        return formatted(params.text_document.uri, params.range.start.line, last)


def _quick_fixes(document: Document, problem: Diagnostic, diagnostic: lsp.Diagnostic) -> list[lsp.CodeAction]:
    """Return at most MAX_FIXES verified quick fixes for an error.

    If the text has errors of syntax or names, a fix must reduce their number. Otherwise, it must remove all errors.
    """
    before = len(document.checker.check_names(document.text))
    actions: list[lsp.CodeAction] = []
    for change in candidate_changes(document.view.source, problem)[:60]:
        if before and len(document.checker.check_names(change.apply(document.text))) >= before:
            continue
        if not before and document.checker.check(change.apply(document.text)):
            continue
        edits = [_edit(document, *edit) for edit in change.edits]
        action = lsp.CodeAction(
            title=change.title, kind=lsp.CodeActionKind.QuickFix, diagnostics=[diagnostic], is_preferred=not actions,
            edit=lsp.WorkspaceEdit(changes={document.uri: edits}),
        )  # fmt: skip
        actions.append(action)
        if len(actions) == MAX_FIXES:
            break
    return actions
