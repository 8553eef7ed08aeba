"""Hostile names and labels are rejected when graphs are read and when hand-built graphs are written as code."""

from __future__ import annotations

import ast
import json
import keyword
import re
import shlex
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any
from xml.etree import ElementTree

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archir
from archir.diagnostics.errors import ArchError
from archir.diagrams.diagram import Choice
from archir.ir.graph import Decision, Graph, Node
from archir.ir.names import is_name, is_scope
from archir.ir.printer import print_graph
from archir.ir.reader import parse_graph
from archir.ir.serial import from_json, to_json
from archir.ir.structure import Input, Select
from archir.language.decompiler.flat_program import to_source
from archir.ops.activation import Relu
from archir.ops.arithmetic import Add
from archir.ops.conv import Conv
from archir.pictures import picture
from archir_onnx.files.models import save
from archir_onnx.lowering.model import build
from archir_torch import BACKEND as TORCH
from archir_torch.export.source.emit import emit, emit_block
from tests.conftest import EXAMPLES

NET = """
block unit(x, width) {
    return x |> conv(width) |> relu
}
net small(width = 4) {
    input image: f32[1, 8, 8]
    x = image |> unit(width) |> unit(2 * width)
    output logits = x |> global_avg_pool |> linear(3)
    output features = x
}
"""

CODE = "__import__('os').system('true')"
HOSTILE = [
    "a\nimport os", "a\r\nb", f"{CODE}", f'a": {CODE}, "b', f"a' + {CODE} + 'b", f'"""\n{CODE}\n"""', "a\\", "a\\\"b",
    "a\"b", "a'b", "", " ", "a b", "1a", "a-b", "a.b c", "a[0", "a[0]\n", "a]", "a[-1]", "a[x]", "a..b", ".a", "a.",
    "a[0]b", "{a}", "{{a}}", "%s", "$(true)", "`true`", "a;b", "a#b", "//", "-->", "</script><script>", "<!--", "&lt;",
    "a\0b", "\x1b[31m", "\x9b31m", "a\u202eb", "a\u2066b", "\u200b", "\ufeffa", "\N{CYRILLIC SMALL LETTER A}",
    "\N{FULLWIDTH LATIN SMALL LETTER A}", "\u00e9", "e\u0301", "\N{MATHEMATICAL BOLD SMALL A}", "\u2028", "\u0085",
    "\ud800", "a\udfff", "\N{ROMAN NUMERAL ONE}", "x" * 20_000, "_\u00b2", "lambda: 0", "a:=1", "*a", "%%{init: {}}%%",
]  # fmt: skip
hostile = st.sampled_from(HOSTILE) | st.text(min_size=1, max_size=8).filter(lambda text: not is_scope(text))
KEYWORDS = sorted({*keyword.kwlist, *keyword.softkwlist, "self", "torch", "nn", "F", "main", "load", "print", "json"})
"""Names in `.arch`, which mean something in Python."""


def graph_of(source: str = NET) -> Graph:
    return archir.loads(source).graph


def places(document: Any) -> Iterator[Callable[[Any, str], None]]:
    """Ways to put a text where a name or a scope stands in a document."""

    def key(of: str) -> Callable[[Any, str], None]:
        def change(data: Any, text: str) -> None:
            name = next(iter(data[of]))
            data[of] = {text if one == name else one: value for one, value in data[of].items()}

        return change

    yield lambda data, text: data.update(name=text)
    yield lambda data, text: data["nodes"][0]["attributes"].update(label=text)
    yield lambda data, text: data["nodes"][1].update(scope=text)
    yield from map(key, ("outputs", "blocks", "parameters"))
    yield lambda data, text: data["blocks"].update({next(iter(data["blocks"])): text})
    yield lambda data, text: data["choices"].append({"path": text, "alternatives": [1, 2]})
    yield lambda data, text: data["choices"].append({"path": "c", "alternatives": [1, 2], "tags": [text]})
    yield lambda data, text: data["parameters"].update(p={"definition": text})


DOCUMENT = to_json(graph_of())
PLACES = list(places(DOCUMENT))


@pytest.mark.parametrize("change", PLACES)
@settings(max_examples=60, deadline=None)
@given(text=hostile)
def test_from_json_rejects_invalid_name(change: Callable[[Any, str], None], text: str) -> None:
    document = deepcopy(DOCUMENT)
    change(document, text)
    if text == "" and document["nodes"][1]["scope"] == "":
        from_json(document)  # what has no weights need not stand anywhere
        return
    with pytest.raises(ArchError, match="A0705"):
        from_json(document)


@pytest.mark.parametrize("change", PLACES)
def test_from_json_rejects_every_hostile_name(change: Callable[[Any, str], None]) -> None:
    for text in HOSTILE:
        document = deepcopy(DOCUMENT)
        change(document, text)
        assert not is_name(text)
        if document["nodes"][1]["scope"] != "":
            with pytest.raises(ArchError, match="A0705"):
                from_json(document)


def renamed(text: str, place: str) -> Graph:
    """A graph that was built by hand, with this name in one place."""
    names = dict.fromkeys(("net", "input", "output", "scope", "block"), "plain") | {place: text}
    graph = Graph(names["net"])
    x = graph.add(Node(Input(names["input"], (1, 8, 8)), scope="image"))
    one = graph.add(Node(Conv(4, 3), scope=f"{names['scope']}.conv" if place != "scope" else text), x)
    two = graph.add(Node(Relu(), scope="plain.relu"), one)
    graph.outputs = {names["output"]: graph.add(Node(Add()), one, two), "second": two}
    graph.blocks = {"plain": names["block"]}
    return graph


WHERE = ["net", "input", "output", "scope", "block"]


@pytest.mark.parametrize("place", WHERE)
@settings(max_examples=60, deadline=None)
@given(text=hostile)
def test_writers_reject_invalid_names_in_handmade_graphs(place: str, text: str) -> None:
    graph = renamed(text, place)
    if place == "scope" and text == "":
        return
    for write in (emit, to_source, lambda graph: emit_block(graph, "plain" if place != "block" else text)):
        with pytest.raises(ArchError, match=r"A0908|A0906"):
            write(graph)


def checked(source: str, known: set[str]) -> None:
    """Whether a Python file has only identifiers and strings that were made of these names."""
    tree = ast.parse(source)
    text = re.compile(r"[A-Za-z0-9_.,:{}\[\] `'*/()=;!?\n-]*")
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name):
                assert is_name(name)
                assert name not in {"eval", "exec", "compile", "open", "__import__", "getattr", "globals"}
            case ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                assert is_name(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                assert is_name(name)
                assert not keyword.iskeyword(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                home = getattr(node, "module", None) or names[0].name
                assert home.partition(".")[0] in {"torch", "json", "sys", "pathlib", "collections", "typing", "math"}
            case ast.Constant(value=str(value)):
                assert text.fullmatch(value), value
    assert known <= set(re.findall(r"\w+", source))


@pytest.mark.parametrize("name", KEYWORDS)
def test_python_keywords_as_names_give_valid_python(name: str) -> None:
    """What is written can be parsed, and nothing is called what Python would take for something else."""
    document = deepcopy(DOCUMENT)
    for change in PLACES[:6]:
        change(document, name)
    document["parameters"] = {}
    graph = from_json(document)
    source = emit(graph)
    checked(source, set())
    compile(source, "net.py", "exec")


@pytest.mark.parametrize("example", ["resnet50.arch", "deit_tiny.arch", "mobilenet_v2.arch"])
def test_code_emitted_for_examples_has_only_safe_names(example: str) -> None:
    path = next(EXAMPLES.rglob(example))
    checked(emit(archir.load(path).graph), {"Path", "load"})


def labelled(label: str) -> Graph:
    """A space with a choice whose alternative has a label that is any text."""
    graph = Graph("small")
    x = graph.add(Node(Input("image", (1, 8, 8)), scope="image"))
    graph.decisions["c"] = Decision(Choice("c", (label, "other"), 0, None, frozenset()))
    one = graph.add(Node(Conv(4, 3), scope="conv"), x)
    two = graph.add(Node(Relu(), scope="relu"), one)
    graph.outputs["y"] = graph.add(Node(Select("c", (0, 1)), scope="c"), one, two)
    return graph


@settings(max_examples=60, deadline=None)
@given(label=hostile.filter(lambda text: (text != "other" and text.isascii()) or text.isprintable()))
def test_hostile_labels_are_escaped_in_every_format(label: str) -> None:
    graph, plain = labelled(label), labelled("plain")
    assert to_json(from_json(json.loads(json.dumps(to_json(graph))))) == to_json(graph)
    assert print_graph(parse_graph(print_graph(graph))) == print_graph(graph)
    assert len(print_graph(graph).splitlines()) == len(print_graph(plain).splitlines())
    for shape in ("dot", "mermaid"):
        shown, wanted = (picture(one, shape, 3) for one in (graph, plain))
        assert len(shown.splitlines()) == len(wanted.splitlines())
        assert all(char.isprintable() or char == "\n" for char in shown)
    shlex.split(picture(graph, "dot", 3), posix=True)
    found, wanted_tags = (
        [one.tag for one in ElementTree.fromstring(picture(g, "svg", 3)).iter()] for g in (graph, plain)
    )
    assert len(found) == len(wanted_tags)
    page = picture(graph, "html", 3)
    assert page.count("<script") == picture(plain, "html", 3).count("<script")


@settings(max_examples=40, deadline=None)
@given(text=hostile.filter(lambda text: text.isprintable() or ("\ud800" not in text and "\udfff" not in text)))
def test_onnx_metadata_keeps_any_text(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    graph = graph_of()
    model = build(graph, TORCH.arrays(TORCH.lower(graph)), metadata={"recipe": text})
    path = tmp_path_factory.mktemp("onnx") / "net.onnx"
    save(model, path)
    read = onnx.load(path)
    assert {one.key: one.value for one in read.metadata_props}["recipe"] == text


statements = st.recursive(
    st.sampled_from(["y = y |> conv(2)", "y = y |> unit", "y = y |> batch_norm"]),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(
        lambda lines: "for NAME in 0..2 {\n" + "\n".join(lines) + "\n}"
    ),
    max_leaves=6,
)


@settings(max_examples=30, deadline=None)
@given(st.lists(statements, min_size=1, max_size=4))
def test_scope_name_is_never_both_value_and_list(lines: list[str]) -> None:
    """In scopes: `conv` and `conv[0]` cannot be two attributes of one module, nor `conv[0]` and `conv[0][1]`."""
    body = "\n".join(lines)
    for i in range(body.count("NAME")):
        body = body.replace("NAME", f"i{i}", 1)
    text = f"block unit(x) {{ return x |> conv(2) }}\nnet n {{\ninput x: f32[2, 4, 4]\ny = x\n{body}\noutput z = y\n}}"
    graph = archir.loads(text).graph
    scopes = [graph[number].scope for number in graph if graph[number].scope]
    assert len(scopes) == len(set(scopes))
    depths: dict[tuple[str, ...], int] = {}
    for scope in scopes:
        path: tuple[str, ...] = ()
        for component in scope.split("."):
            path = (*path, component.partition("[")[0])
            assert depths.setdefault(path, component.count("[")) == component.count("[")
