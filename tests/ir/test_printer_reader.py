"""Text and JSON forms of graphs: exact round trips, and diagnostics for malformed input."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from fractions import Fraction
from functools import reduce
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import annotated

import archir.ops  # noqa: F401  (declares the operations)
from archir.diagnostics.errors import ArchError
from archir.diagrams.conditions import conjoin
from archir.diagrams.diagram import Choice, make_diagram, outcome_in
from archir.diagrams.lifting import lift
from archir.ir.graph import Constraint, Decision, Graph, Node
from archir.ir.printer import print_graph
from archir.ir.reader import parse_graph
from archir.ir.serial import from_json, to_json
from archir.ir.structure import Input, Select
from archir.ir.verify import verify
from archir.ops.activation import Relu
from archir.ops.conv import Conv
from archir.ops.shape import Slice

TEXT = """\
net tiny(channels=16, ratio=1/4, sizes=(1, 2), one=("x",), steps=0..4, block=<se>, rate=1e-05, form=none) {
  choice layer[0].op {local_k3_h4, nonlocal} @stage
  choice inputs 2 of {0, 1, 2} when case(layer[0].op: true, false)
  require case(layer[0].op: case(inputs: true, true, false), false) "sum(depths) <= 12"
  require macs <= 600000000 when case(layer[0].op: true, false)
  %0 = input "image" f32[3, 32, 32]
  block stem = stem_block
  %1 = conv(%0, channels=16, kernel=case(layer[0].op: 3, 5)) @ stem.conv : f32[16, 32, 32]
  block layer[0] = layer
  %2 = relu(%1) @ layer[0].relu : f32[16, 32, 32]
  %3 = conv(%1, channels=16, kernel=1, padding="valid") @ "odd name" : f32[16, 32, 32]
  %4 = select(%2, %3) by layer[0].op [0, 1] : f32[16, 32, 32]
  %5 = slice(%4, stop=case(inputs: 8, 8, 16)) : f32[case(inputs: 8, 8, 16), 32, 32]
  output logits = %5
}
"""

PLAIN = TEXT.replace('"odd name"', "even.name")
"""JSON has no names but those that files can have."""


def tiny() -> Graph:
    """The graph of TEXT, built by hand."""
    op = Choice("layer[0].op", ("local_k3_h4", "nonlocal"), 0, tags=frozenset({"stage"}))
    inputs = Choice("inputs", (0, 1, 2), 1, 2)
    first = outcome_in(op, [0])
    graph = parse_graph("net tiny {}")
    graph.decisions = {"layer[0].op": Decision(op), "inputs": Decision(inputs, first)}
    graph.parameters = {"channels": 16, "ratio": Fraction(1, 4), "sizes": (1, 2), "one": ("x",), "steps": range(4)}
    graph.parameters |= parse_graph("net x(block=<se>) {}").parameters | {"rate": 1e-5, "form": None}
    graph.constraints = [
        Constraint(conjoin(first, outcome_in(inputs, [0, 1])), "require", "sum(depths) <= 12"),
        Constraint(first, cost="macs", relation="<=", limit=600_000_000),
    ]
    image = graph.add(Node(Input("image", (3, 32, 32)), scope="image"))
    stem = graph.add(Node(Conv(16, make_diagram(op, (3, 5))), scope="stem.conv"), image)
    relu = graph.add(Node(Relu(), scope="layer[0].relu"), stem)
    conv = graph.add(Node(Conv(16, 1, padding="valid"), scope="odd name"), stem)
    chosen = graph.add(Node(Select("layer[0].op", (0, 1)), scope="layer[0].op"), relu, conv)
    graph.outputs["logits"] = graph.add(Node(Slice(0, make_diagram(inputs, (8, 8, 16)))), chosen)
    graph.blocks = {"layer[0]": "layer", "stem": "stem_block", "gone": "gone"}
    return graph


def test_graph_prints_to_expected_text_and_back() -> None:
    assert print_graph(tiny()) == TEXT
    assert print_graph(parse_graph(TEXT)) == TEXT


def test_printed_types_are_optional() -> None:
    graph = parse_graph(TEXT)
    bare = print_graph(graph, {})
    assert ": f32" not in bare
    assert print_graph(parse_graph(bare)) == TEXT
    graph.add(Node(Conv(16)), 99)
    assert "%6 = conv(%99, channels=16)\n" in print_graph(graph)  # broken graphs are printed, too


@settings(max_examples=20, deadline=None)
@given(annotated())
def test_text_round_trips_random_graphs(graph: Graph) -> None:
    comes_back(graph)


@pytest.mark.soak
@settings(max_examples=1000, deadline=None)
@given(annotated())
def test_text_round_trips_many_random_graphs(graph: Graph) -> None:
    comes_back(graph)


def comes_back(graph: Graph) -> None:
    text, data = print_graph(graph), to_json(graph)
    verify(graph)
    assert to_json(parse_graph(text)) == data
    assert print_graph(parse_graph(text)) == text


@settings(max_examples=40, deadline=None)
@given(annotated(odd=False))
def test_json_round_trips_random_graphs(graph: Graph) -> None:
    comes_back_as_json(graph)


@pytest.mark.soak
@settings(max_examples=1000, deadline=None)
@given(annotated(odd=False))
def test_json_round_trips_many_random_graphs(graph: Graph) -> None:
    comes_back_as_json(graph)


def comes_back_as_json(graph: Graph) -> None:
    assert print_graph(from_json(json.loads(json.dumps(to_json(graph))))) == print_graph(graph)


def test_large_diagrams_are_printed_shared() -> None:
    graph = parse_graph('net big {%0 = input "x" f32[8] output y = %0}')
    choices = [Choice(f"c[{i}]", tuple(range(4)), i) for i in range(40)]
    graph.decisions = {choice.path: Decision(choice) for choice in choices}
    total = reduce(lambda a, b: lift(lambda x, y: x + y, a, b), (make_diagram(c, range(4)) for c in choices))
    graph.constraints.append(Constraint(lift(lambda n: n <= 60, total), "require", "sum(c) <= 60"))
    text = print_graph(graph)
    assert len(text) < 200_000  # 4 ** 40 leaves
    assert print_graph(parse_graph(text)) == text
    assert print_graph(from_json(json.loads(json.dumps(to_json(graph))))) == text


# what is wrong

HEAD = 'net x {\nchoice a {1, 2} choice b {1, 2}\n%0 = input "x" f32[8]\n'

WRONG = [
    ("net", "A0701", "ends too early"),
    ("net x {~}", "A0701", "unexpected character '~'"),
    ('net x {output "y\n" = %0}', "A0701", "does not end on its line"),
    ("net x {output y}", "A0701", "expected `=`"),
    (HEAD + "%1 = conv(channels=3, %0)}", "A0701", "before attributes"),
    (HEAD + '%1 = relu(%0) @ "\\q"}', "A0701", "as in JSON"),
    ("net x(a=" + "(" * 300 + "1," + ")" * 300 + ") {}", "A0701", ""),
    ("net x(a=" + "(" * 300 + "1" + ",)" * 300 + ") {}", "A0701", "nest deeper"),
    ("net x(a=1/0) {}", "A0702", "divides by zero"),
    (f"net x(a={'9' * 2000}) {{}}", "A0702", "too long"),
    ("net x { choice a {1, 1} }", "A0702", "an alternative twice"),
    ("net x { choice a 3 of {1, 2} }", "A0702", "cannot take 3"),
    (f"net x {{ choice a 15 of {{{', '.join(map(str, range(30)))}}} }}", "A0702", "too large"),
    ("net x { choice a {1, 2} when 3 }", "A0702", "must be true or false"),
    (HEAD + "%1 = rellu(%0)}", "A0702", "did you mean `relu`?"),
    (HEAD + "%1 = relu(%0, kernel=3)}", "A0702", "no attribute `kernel`"),
    (HEAD + "%1 = linear(%0)}", "A0702", "needs `channels`"),
    (HEAD + '%1 = linear(%0, channels="a")}', "A0702", "must be an integer"),
    (HEAD + "%1 = linear(%0, channels=4, channels=4)}", "A0702", "given twice"),
    (HEAD + "%1 = relu(%0, %0)}", "A0702", "takes 1 operands, not 2"),
    (HEAD + "%1 = relu(%0) : f23[8]}", "A0702", "did you mean `f32`?"),
    ('net x {%0 = input "x" f32[0]}', "A0702", "at least 1"),
    (HEAD + "require macs <= true}", "A0702", "must be an integer"),
    (HEAD + "%1 = scale(%0, factor=case(a: 1.0))}", "A0702", "2 outcomes, but 1"),
    (HEAD + "%1 = scale(%0, factor=case(b: 1.0, case(a: 1.0, 2.0)))}", "A0702", "tested below"),
    (HEAD + "%1 = scale(%0, factor=case(c: 1.0, 2.0))}", "A0703", "no choice `c`"),
    (
        HEAD + "$0 = case(a: 1, 2)" + "".join(f"${i + 1} = case(a: (${i},), 0)" for i in range(999)) + "}",
        "A0702",
        "nest",
    ),
    (HEAD + '%1 = input "x" f32[8]}', "A0703", "two inputs `x`"),
    (HEAD + "%1 = scale(%0, factor=$0)}", "A0703", "not defined before"),
    (HEAD + "%1 = relu(%2)}", "A0703", "no node `%2`"),
    (HEAD + "%0 = relu(%0)}", "A0703", "defined twice"),
    (HEAD + "choice a {1}}", "A0703", "two choices"),
    (HEAD + "output y = %0 output y = %0}", "A0703", "defined twice"),
    (HEAD + "%1 = select(%0) by a [0, 1]}", "A0703", "not a position"),
    (HEAD + "%1 = select(%0) by a [0]}", "A0703", "2 outcomes"),
    (HEAD + "%1 = relu(%0) : f32[4] output y = %1}", "A0704", "declared f32[4], but is f32[8]"),
    (HEAD + "%1 = relu(%0) : f32[8] %2 = slice(%1, stop=9) output y = %2}", "A0704", "slice 0:9"),
]


@pytest.mark.parametrize(("text", "code", "message"), WRONG)
def test_rejects_malformed_text_with_position(text: str, code: str, message: str) -> None:
    with pytest.raises(ArchError) as caught:
        parse_graph(text, "wrong.ir")
    first = caught.value.diagnostics[0]
    assert first.code == code
    assert message in str(first)
    assert str(first).startswith("wrong.ir:")


def test_all_text_errors_are_reported_once() -> None:
    with pytest.raises(ArchError) as caught:
        parse_graph(HEAD + "%1 = rellu(%0)\n%2 = relu(%1)\n%3 = linear(%2)\n%4 = linear(%0)\noutput y = %9}")
    assert [d.code for d in caught.value.diagnostics] == ["A0702", "A0702", "A0702", "A0703"]
    assert "^" * len("rellu(%0)") in str(caught.value)


def refusal(function: Callable[..., object], *arguments: object) -> str:
    """The codes of what a function refuses, if it does."""
    try:
        function(*arguments)
    except ArchError as error:
        return " ".join(sorted({d.code for d in error.diagnostics if str(d)}))
    return ""


def read_or_refuse(text: str) -> None:
    refused = refusal(parse_graph, text)
    assert all(code in ("A0701", "A0702", "A0703", "A0704") for code in refused.split())
    if not refused:
        printed = print_graph(parse_graph(text))
        assert print_graph(parse_graph(printed)) == printed


@given(st.text())
def test_random_text_parses_or_is_rejected(text: str) -> None:
    read_or_refuse(text)


WORDS = ["case", "select", "%0", "%4", "$0", "1/0", "..", "layer[0].op", "true", '"x"', "f32[3]", "-1"]
TOKENS = [*"{}()[]=,:@%$<>", *WORDS]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_edited_text_parses_or_is_rejected(data: Any) -> None:
    text = TEXT
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        stop = start + data.draw(st.integers(0, 8))
        text = text[:start] + data.draw(st.sampled_from(["", *TOKENS]) | st.text(max_size=2)) + text[stop:]
    read_or_refuse(text)


def from_json_or_refuse(data: object) -> None:
    refused = refusal(from_json, data)
    assert refused in ("", "A0705")
    if not refused:
        graph = from_json(data)
        assert print_graph(parse_graph(print_graph(graph, {}))) == print_graph(graph)
        assert refusal(verify, graph) in ("", "A0706")


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda items: st.lists(items, max_size=3) | st.dictionaries(st.text(max_size=3), items, max_size=3),
    max_leaves=5,
)
pieces = documents | st.sampled_from(
    [
        *(2**5000, -1, 0, 10**9, True, 1.0, [[]], "select", "input", "relu", "layer[0].op"),
        *({"case": "inputs", "branches": [1, 2, 3]}, {"value": 0}, {"rational": [1, 0]}),
        *({"float": "nan"}, {"range": [0]}, {"definition": "a b"}),
    ]
)


@given(documents)
def test_random_json_parses_or_is_rejected(data: object) -> None:
    from_json_or_refuse(data)


@given(st.data())
def test_edited_json_graph_parses_or_is_rejected(data: Any) -> None:
    changed_somewhere(data)


@pytest.mark.soak
@settings(max_examples=2000, deadline=None)
@given(st.data())
def test_many_edited_json_graphs_parse_or_are_rejected(data: Any) -> None:
    changed_somewhere(data)


def changed_somewhere(data: Any) -> None:
    document = to_json(parse_graph(PLAIN))
    for _ in range(data.draw(st.integers(1, 2))):
        place: Any = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and data.draw(st.integers(0, 3)):
                place = place[key]
                continue
            if data.draw(st.booleans()):
                place[key] = deepcopy(data.draw(pieces))
            else:
                del place[key]
            break
    from_json_or_refuse(document)


def test_json_errors_name_the_path() -> None:
    document = to_json(parse_graph(PLAIN))
    document["nodes"][1]["attributes"]["kernel"]["branches"][1] = "5"
    with pytest.raises(ArchError, match=r"\$\.nodes\[1\]: `kernel` of `conv` must be an integer"):
        from_json(document)
    with pytest.raises(ArchError, match=r"\$\.schema: this archir reads schema 1"):
        from_json(document | {"schema": 2})
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(ArchError, match="nest deeper"):
        from_json(to_json(parse_graph(PLAIN)) | {"parameters": {"a": deep}})
