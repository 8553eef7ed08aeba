"""The language server, asked by a client as editors ask it, over the published spaces."""

from __future__ import annotations

import asyncio
import random
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="the language server needs pygls (the extra `lsp`)")

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient
from pygls.workspace import Workspace

import archir
from archir.diagnostics.errors import ArchError
from archir.language.formatter import canonical
from archir.spaces.architecture import read_architecture
from archir.tools.lsp.checking import Checker
from archir.tools.lsp.features import make_server
from archir.tools.lsp.formatting import formatting_edits
from archir.tools.lsp.renaming import rename
from archir.tools.lsp.view import View, arch_files
from archir.utils.edits import apply_edits
from tests.conftest import EXAMPLES
from tests.soak import with_soak

SPACES = [
    "autoformer/autoformer.arch", "darts/darts.arch", "full_attention/full_attention.arch", "glit/glit.arch",
    "mobilenet_v3_ofa/mobilenet_v3_ofa.arch", "nas_bench_101/nas_bench_101.arch", "nas_bench_201/nas_bench_201.arch",
    "autola/autola.arch", "trionet/trionet.arch",
]  # fmt: skip


class Client(LanguageClient):
    """A client that keeps what it is told of texts."""

    def __init__(self) -> None:
        super().__init__("test", "1")
        self.told: dict[str, list[lsp.Diagnostic]] = {}
        self.versions: dict[str, int] = {}
        self.many = 0
        """How often it was told something."""
        self.news = asyncio.Event()

        @self.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def told(params: lsp.PublishDiagnosticsParams) -> None:
            self.told[params.uri] = list(params.diagnostics)
            self.many += 1
            self.versions[params.uri] = params.version or 0
            self.news.set()

    def open(self, uri: str, text: str) -> lsp.TextDocumentIdentifier:
        """Open a text."""
        item = lsp.TextDocumentItem(uri=uri, language_id="arch", version=1, text=text)
        self.text_document_did_open(lsp.DidOpenTextDocumentParams(text_document=item))
        return lsp.TextDocumentIdentifier(uri=uri)

    def change(self, uri: str, version: int, text: str) -> None:
        """Replace a text as a whole."""
        change = lsp.TextDocumentContentChangeWholeDocument(text=text)
        document = lsp.VersionedTextDocumentIdentifier(uri=uri, version=version)
        params = lsp.DidChangeTextDocumentParams(text_document=document, content_changes=[change])
        self.text_document_did_change(params)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for what is told."""
        async with asyncio.timeout(60):
            while not holds():
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def serving(folder: Path, capabilities: lsp.ClientCapabilities | None = None) -> AsyncIterator[Client]:
    client = Client()
    await client.start_io(sys.executable, "-m", "archir", "lsp")
    try:
        params = lsp.InitializeParams(capabilities=capabilities or lsp.ClientCapabilities(), root_uri=folder.as_uri())
        await client.initialize_async(params)
        client.initialized(lsp.InitializedParams())
        yield client
    finally:
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test that waits for answers."""

    async def whole() -> None:
        async with asyncio.timeout(300):
            await test()

    asyncio.run(whole())


def position(text: str, offset: int) -> lsp.Position:
    line = text.count("\n", 0, offset)
    return lsp.Position(line=line, character=offset - (text.rfind("\n", 0, offset) + 1))


@pytest.mark.parametrize("space", with_soak(SPACES, ["autoformer/autoformer.arch", "nas_bench_201/nas_bench_201.arch"]))
def test_every_feature_answers_over_the_published_spaces(space: str) -> None:
    """Outline, colours, folds, hover, definition, references, completion, signatures, layout; and no diagnostics."""

    async def test() -> None:
        async with serving(EXAMPLES) as client:
            path = EXAMPLES / space
            text = path.read_text("utf-8")
            uri = path.as_uri()
            document = client.open(uri, text)
            symbols = await client.text_document_document_symbol_async(lsp.DocumentSymbolParams(document))
            names = [one.name for one in symbols or []]
            assert path.stem in names or names
            colours = await client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(document))
            assert colours is not None
            assert len(colours.data) % 5 == 0
            assert len(colours.data) > 5 * 50
            folds = await client.text_document_folding_range_async(lsp.FoldingRangeParams(document))
            assert folds
            at = position(text, text.index("|>") + 3)
            said = await client.text_document_hover_async(lsp.HoverParams(document, at))
            assert said is not None
            where = await client.text_document_definition_async(lsp.DefinitionParams(document, at))
            uses = await client.text_document_references_async(
                lsp.ReferenceParams(lsp.ReferenceContext(include_declaration=True), document, at)
            )
            assert uses
            assert where is None or isinstance(where, lsp.Location)
            items = await client.text_document_completion_async(lsp.CompletionParams(document, at))
            assert isinstance(items, list)
            assert {"conv", "linear"} <= {one.label for one in items}
            opening = position(text, text.index("(", text.index("|>")) + 1)
            await client.text_document_signature_help_async(lsp.SignatureHelpParams(document, opening))
            edits = await client.text_document_formatting_async(
                lsp.DocumentFormattingParams(document, lsp.FormattingOptions(tab_size=4, insert_spaces=True))
            )
            assert not edits
            assert client.told.get(uri, []) == []

    run(test)


def test_inlay_hints_and_hover_show_shapes_and_counts() -> None:
    async def test() -> None:
        async with serving(EXAMPLES) as client:
            path = EXAMPLES / "nas_bench_201" / "nas_bench_201.arch"
            text = path.read_text("utf-8")
            document = client.open(path.as_uri(), text)
            whole = lsp.Range(start=lsp.Position(0, 0), end=position(text, len(text)))
            hints = await client.text_document_inlay_hint_async(lsp.InlayHintParams(document, whole))
            labels = [str(one.label) for one in hints or []]
            assert "f32[10]" in labels
            assert any(label.startswith("15,625 architectures, 73.3K to 1.53M parameters") for label in labels)
            at = position(text, text.index("op {"))
            said = await client.text_document_hover_async(lsp.HoverParams(document, at))
            assert said is not None
            assert "nor_conv_3x3" in str(said.contents)
            assert "made in 15,625 of 15,625 architectures" in str(said.contents)

    run(test)


LENSES_AND_SNIPPETS = lsp.ClientCapabilities(
    text_document=lsp.TextDocumentClientCapabilities(
        code_lens=lsp.CodeLensClientCapabilities(),
        completion=lsp.CompletionClientCapabilities(
            completion_item=lsp.ClientCompletionItemOptions(snippet_support=True)
        ),
    )
)


def test_code_lenses_show_counts_and_costs_in_place_of_hints() -> None:
    """An editor without code lenses sees the same as hints (the test above)."""

    async def test() -> None:
        async with serving(EXAMPLES, LENSES_AND_SNIPPETS) as client:
            path = EXAMPLES / "nas_bench_201" / "nas_bench_201.arch"
            text = path.read_text("utf-8")
            document = client.open(path.as_uri(), text)
            lenses = await client.text_document_code_lens_async(lsp.CodeLensParams(document))
            titles = {text.splitlines()[one.range.start.line].split("(")[0]: one.command for one in lenses or []}
            (net,) = [command.title for line, command in titles.items() if command and line.startswith("net ")]
            assert net.startswith("15,625 architectures, 73.3K to 1.53M parameters, ")
            assert [command.title for line, command in titles.items() if command and line == "block edge"] == [
                "0 to 2.34K parameters, 0 to 2.36M MACs"
            ]
            whole = lsp.Range(start=lsp.Position(0, 0), end=position(text, len(text)))
            hints = await client.text_document_inlay_hint_async(lsp.InlayHintParams(document, whole))
            labels = [str(one.label) for one in hints or []]
            assert "f32[10]" in labels
            assert not any("parameters" in label for label in labels)

    run(test)


PROGRAM = """import std.cells
import "parts/own.arch" as parts
import "parts/gone.arch"

block layer(x, width) {
    return x |> conv(width)   |> relu
}

net tiny(width = 8) {
    input image: f32[3, 8, 8]
    x = image |> layer(width) |> parts.stem
    x = x |> layer(width)
    output   y = x |> conv( 4 )
}
"""


def test_names_are_highlighted_linked_found_and_renamed_only_where_they_can_be(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "own.arch").write_text("# net hidden\n\nown block stem(x) {\n    return x |> relu\n}\n")
    (tmp_path / "net.arch").write_text(PROGRAM)

    async def test() -> None:
        async with serving(tmp_path) as client:
            uri = (tmp_path / "net.arch").as_uri()
            document = client.open(uri, PROGRAM.replace("net tiny", "net tinier"))
            at = lsp.Position(10, 19)
            found = await client.text_document_document_highlight_async(lsp.DocumentHighlightParams(document, at))
            kinds = lsp.DocumentHighlightKind
            assert [(one.range.start.line, one.range.start.character, one.kind) for one in found or []] == [
                (4, 6, kinds.Write), (10, 17, kinds.Read), (11, 13, kinds.Read),
            ]  # fmt: skip
            assert [one.range.end.character for one in found or []] == [11, 22, 18]
            links = await client.text_document_document_link_async(lsp.DocumentLinkParams(document))
            places = [(one.range.start.line, one.range.start.character, one.range.end.character) for one in links or []]
            assert places == [(0, 7, 16), (1, 8, 22)]
            targets = [str(one.target).rsplit("/", 2)[1:] for one in links or []]
            assert targets == [["std", "cells.arch"], ["parts", "own.arch"]]
            for query, names in {
                "tm": ["stem"], "TINI": ["tinier"], "": ["layer", "tinier", "stem"], "hidden": [], "y(": [],
            }.items():  # fmt: skip
                symbols = await client.workspace_symbol_async(lsp.WorkspaceSymbolParams(query))
                assert [one.name for one in symbols or []] == names
            (stem,) = await client.workspace_symbol_async(lsp.WorkspaceSymbolParams("stem")) or []
            assert stem.container_name == "parts/own.arch"
            assert isinstance(stem.location, lsp.Location)
            assert (stem.location.range.start, stem.location.range.end) == (lsp.Position(2, 10), lsp.Position(2, 14))
            named = await client.text_document_prepare_rename_async(lsp.PrepareRenameParams(document, at))
            assert isinstance(named, lsp.PrepareRenamePlaceholder)
            assert (named.placeholder, named.range.start) == ("layer", lsp.Position(10, 17))
            relu = lsp.Position(5, 32)
            assert await client.text_document_prepare_rename_async(lsp.PrepareRenameParams(document, relu)) is None

    run(test)


def test_range_formatting_edits_lines_of_range_only(tmp_path: Path) -> None:
    (tmp_path / "net.arch").write_text(PROGRAM)

    async def test() -> None:
        async with serving(tmp_path) as client:
            document = client.open((tmp_path / "net.arch").as_uri(), PROGRAM)
            options = lsp.FormattingOptions(tab_size=4, insert_spaces=True)
            for begin, end, lines in (((5, 0), (5, 3), [5]), ((0, 0), (5, 0), []), ((6, 0), (13, 0), [12])):
                span = lsp.Range(lsp.Position(*begin), lsp.Position(*end))
                edits = await client.text_document_range_formatting_async(
                    lsp.DocumentRangeFormattingParams(document, span, options)
                )
                assert [one.range.start.line for one in edits or []] == lines
            whole = await client.text_document_formatting_async(lsp.DocumentFormattingParams(document, options))
            assert [one.new_text for one in whole or []] == [
                "    return x |> conv(width) |> relu\n", "    output y = x |> conv(4)\n",
            ]  # fmt: skip

    run(test)


@pytest.mark.parametrize("name", ["trionet/trionet.arch", "darts/darts.arch"])
def test_edits_of_formatting_give_the_formatted_text(name: str) -> None:
    """Applied all at once, and range by range from the last one to the first."""
    chance = random.Random(name)
    text = (EXAMPLES / name).read_text("utf-8")
    text = "".join(char * 2 if char == " " and chance.random() < 0.05 else char for char in text)
    text = "\n".join(line + "\n" * (chance.random() < 0.05) for line in text.split("\n"))
    lines, right = text.count("\n"), canonical(text)
    assert right != text
    assert apply_edits(text, formatting_edits(text, name, 0, lines)) == right
    for line in reversed(range(lines)):
        text = apply_edits(text, formatting_edits(text, name, line, line))
    assert text == right


def test_completion_is_ranked_and_offers_calls_after_pipes(tmp_path: Path) -> None:
    text = PROGRAM.replace("output   y = x |> conv( 4 )", "output y = x |> \n    z = x")
    (tmp_path / "net.arch").write_text(text)

    async def test() -> None:
        async with serving(tmp_path, LENSES_AND_SNIPPETS) as client:
            document = client.open((tmp_path / "net.arch").as_uri(), text)
            after_pipe = position(text, text.index("|> \n") + 3)
            items = await client.text_document_completion_async(lsp.CompletionParams(document, after_pipe))
            assert isinstance(items, list)
            by_label = {one.label: one for one in items}
            assert by_label["layer"].insert_text == "layer(${1:width})"
            assert by_label["layer"].insert_text_format is lsp.InsertTextFormat.Snippet
            assert by_label["relu"].insert_text is None
            order = sorted(by_label, key=lambda label: str(by_label[label].sort_text))
            assert order == [one.label for one in items]
            wanted = ["choose", "layer", "conv", "linear", "abs", "width"]
            assert [label for label in order if label in wanted] == wanted
            assert not {"output", "image", "and", "range", "len"} & by_label.keys()
            plain = await client.text_document_completion_async(
                lsp.CompletionParams(document, position(text, text.index("z = x") + 4))
            )
            assert isinstance(plain, list)
            labels = [one.label for one in plain]
            assert {"image", "not", "width"} <= set(labels)
            assert [one for one in plain if one.insert_text] == []

    run(test)


def test_mistakes_are_diagnosed_and_fixed_while_typing(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path) as client:
            path = tmp_path / "net.arch"
            right = "net tiny {\n    input x: f32[3, 8, 8]\n    output y = x |> conv(8) |> relu\n}\n"
            uri = path.as_uri()
            document = client.open(uri, right)
            for version, (wrong, code) in enumerate(
                [("conv(8 8)", "A0102"), ("cnov(8)", "A0201"), ("conv(0)", "A0401")], start=2
            ):
                client.change(uri, version, right.replace("conv(8)", wrong))
                await client.until(
                    lambda code=code: [one.code for one in client.told.get(uri, [])] == [code]  # type: ignore[misc]
                )
                there = client.told[uri][0].range
                assert there.start.line == 2
                actions = await client.text_document_code_action_async(
                    lsp.CodeActionParams(document, there, lsp.CodeActionContext(diagnostics=client.told[uri]))
                )
                assert actions
            client.change(uri, 9, right)
            await client.until(lambda: client.told.get(uri) == [] and client.versions[uri] == 9)

    run(test)


def test_caches_of_closed_files_are_dropped_on_change(tmp_path: Path) -> None:
    (tmp_path / "net.arch").write_text("net n {\n    input x: f32[4]\n    output y = x |> relu\n}\n")
    server = make_server()
    server.protocol._workspace = Workspace(tmp_path.as_uri())
    server.document_of_file(tmp_path / "net.arch")
    assert server.parse_caches
    changed = server.protocol.fm.features[lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES]
    asyncio.run(changed(lsp.DidChangeWatchedFilesParams(changes=[])))
    assert not server.documents
    assert not server.parse_caches


def test_rename_edits_programs_and_architecture_files(tmp_path: Path) -> None:
    for name in ("nas_bench_201.arch", "nor_conv_3x3.json"):
        (tmp_path / name).write_text((EXAMPLES / "nas_bench_201" / name).read_text("utf-8"), "utf-8")
    (tmp_path / "other.arch").write_text(
        'import "nas_bench_201.arch"\n\nnet other {\n    input x: f32[3, 8, 8]\n    output y = x |> edge\n}\n'
    )

    async def test() -> None:
        async with serving(tmp_path) as client:
            path = tmp_path / "nas_bench_201.arch"
            text = path.read_text("utf-8")
            document = client.open(path.as_uri(), text)
            at = position(text, text.index("edge(x)"))
            edit = await client.text_document_rename_async(lsp.RenameParams(document, at, "link"))
            assert edit is not None
            assert edit.changes is not None
            for uri, edits in edit.changes.items():
                file = tmp_path / uri.rsplit("/", 1)[1]
                lines = file.read_text("utf-8").split("\n")
                for one in sorted(edits, key=lambda e: (e.range.start.line, e.range.start.character), reverse=True):
                    line = lines[one.range.start.line]
                    assert isinstance(one, lsp.TextEdit)
                    lines[one.range.start.line] = (
                        line[: one.range.start.character] + one.new_text + line[one.range.end.character :]
                    )
                file.write_text("\n".join(lines), "utf-8")

    run(test)
    assert "edge" not in (tmp_path / "nas_bench_201.arch").read_text().split("\n", 2)[2]
    assert "|> link" in (tmp_path / "other.arch").read_text()
    space = archir.load(tmp_path / "nas_bench_201.arch")
    written = read_architecture((tmp_path / "nor_conv_3x3.json").read_text("utf-8"))
    assert space.architecture(written.choices)["searched.link[0][0].op"] == "nor_conv_3x3"


SUBSET = """net n {
    input image: f32[4, 8, 8]
    least = 12
    width = add(choose widths 2 of [4, 8, 16] where sum(widths) > least)
    output y = image |> conv(width)
}
"""


@pytest.mark.parametrize("nth", [0, 1])
def test_label_is_renamed_in_its_where(nth: int) -> None:
    view = View(SUBSET)
    at = [match.start() for match in re.finditer("widths", SUBSET)][nth]
    assert [found.kind for found in view.occurrences if found.name == "widths"] == ["choice", "choice"]
    assert apply_edits(SUBSET, rename(view, at, "sizes")[None]) == SUBSET.replace("widths", "sizes")
    assert view.occurrence_at(SUBSET.rindex("sum")).kind == "function"  # type: ignore[union-attr]


def test_labels_of_other_definitions_and_names_of_alternatives_may_equal_names_that_a_where_reads() -> None:
    other = "block b(x) {\n    k = 4\n    return x |> conv(k) |> choose act { k2: relu, k3: gelu }\n}"
    text = f"{other}\n{SUBSET}"
    at = re.search(r"\bk\b", text).start()  # type: ignore[union-attr]
    assert rename(View(text), at, "widths")[None]
    assert rename(View(text), text.index("k2"), "least")[None]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("widths", "chosé", "not a valid name"),
        ("widths", "a b", "not a valid name"),
        ("widths", "least", "already defined"),
        ("least", "widths", "already defined"),
    ],
)
def test_rename_rejects_names(old: str, new: str, said: str) -> None:
    with pytest.raises(ArchError, match=said):
        rename(View(SUBSET), SUBSET.index(old), new)


def test_rename_edits_unsaved_text_of_open_documents(tmp_path: Path) -> None:
    block = "block old(x) {\n    return x |> relu\n}\n"
    saved = 'import "a.arch"\n\nnet n {\n    input x: f32[3]\n    output y = x |> old\n}\n'
    (tmp_path / "a.arch").write_text(block)
    (tmp_path / "b.arch").write_text(saved)

    async def test() -> None:
        async with serving(tmp_path) as client:
            client.open((tmp_path / "b.arch").as_uri(), f"# not saved\n{saved}")
            document = client.open((tmp_path / "a.arch").as_uri(), block)
            client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams(changes=[]))
            edit = await client.text_document_rename_async(lsp.RenameParams(document, position(block, 6), "new"))
            assert edit is not None
            assert edit.changes is not None
            (found,) = edit.changes[(tmp_path / "b.arch").as_uri()]
            assert found.range.start.line == 5

    run(test)


def test_rename_finds_files_beside_many_hidden_ones(tmp_path: Path) -> None:
    hidden = tmp_path / ".venv" / "package"
    hidden.mkdir(parents=True)
    for number in range(250):
        (hidden / f"{number}.arch").write_text("")
    (tmp_path / "sub").mkdir()
    for name in ("a.arch", "b.arch", "sub/c.arch"):
        (tmp_path / name).write_text("")
    assert arch_files(tmp_path) == [tmp_path / "a.arch", tmp_path / "b.arch", tmp_path / "sub" / "c.arch"]
    assert arch_files(tmp_path, 1) == [tmp_path / "a.arch"]


def edited(chance: random.Random, text: str) -> str:
    """A text with one random edit: something less, something that stands elsewhere, or a character more."""
    at = chance.randrange(len(text) + 1)
    match chance.randrange(4):
        case 0:
            return text[:at] + text[at + chance.randrange(1, 6) :]
        case 1:
            begin = chance.randrange(len(text) + 1)
            return text[:at] + text[begin : begin + chance.randrange(1, 8)] + text[at:]
        case 2:
            return text[:at] + chance.choice('(){}[]=,.|>"#@ \nx1é𝄞') + text[at:]
    return text


def edits(many: int, each: int) -> None:
    """Random edits; after each so many, what the server says is what a fresh check says."""

    async def test() -> None:
        async with serving(EXAMPLES) as client:
            chance = random.Random(20)
            path = EXAMPLES / "nas_bench_201" / "nas_bench_201.arch"
            original = path.read_text("utf-8")
            text, uri = original, path.as_uri()
            client.open(uri, text)
            for version in range(2, many + 2):
                text = original if chance.random() < 0.1 else edited(chance, text)
                client.change(uri, version, text)
                if version % each:
                    continue
                wanted = [(one.code, one.severity) for one in Checker(str(path), path.parent).check(text)]
                await client.until(
                    lambda version=version, wanted=wanted: (  # type: ignore[misc]
                        client.versions.get(uri) == version
                        and sorted(str(one.code) for one in client.told[uri]) == sorted(code for code, _ in wanted)
                    )
                )

    asyncio.run(test())


def test_server_is_consistent_after_random_edits() -> None:
    edits(60, 20)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_server_is_consistent_after_hundred_thousand_random_edits() -> None:
    edits(100_000, 100)
