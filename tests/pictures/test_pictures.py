"""Pictures of networks and spaces: content, layout, and escaping of names."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from io import BytesIO
from itertools import combinations, permutations, product
from math import factorial, prod
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageColor

from archir.api import loading
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.diagrams.diagram import Choice, make_diagram
from archir.ir.graph import Decision, Graph, Node
from archir.ir.structure import Input, Select
from archir.language.elaboration.elaborate import elaborate
from archir.ops.activation import Relu, Scale
from archir.ops.conv import Conv
from archir.passes import PASSES, run
from archir.pictures import TEXT_FORMATS, picture, picture_file, png
from archir.pictures.labels import amount, width
from archir.pictures.layout import HEADER, Edge, Sheet, place, plan
from archir.pictures.outline import Box, Link, Outline, outline
from archir.pictures.style import Heat, hues
from archir.spaces.space import Space
from tests.conftest import EXAMPLES, ROOT
from tests.examples import NETS, small_graph
from tests.ir.random_graphs import graphs
from tests.soak import with_soak

SPACE = EXAMPLES / "full_attention" / "full_attention.arch"
SMALL = """
block mixer(x, width) {
    y = x |> conv(width) |> relu
    return y + x
}

net small {
    input image: f32[8, 16, 16]
    kernel = choose kernel @size(3, 5)
    x = image |> conv(8, kernel) |> mixer(8)
    x = x |> choose op @layer {
        plain: conv(8)
        wide: conv(16) |> relu |> conv(8, kernel=1)
        skip: identity
    }
    if kernel > 3 {
        x = x |> max_pool(3)
    }
    output logits = x |> global_avg_pool |> linear(10)
}
"""


@pytest.fixture(scope="module")
def small() -> Graph:
    return elaborate(SMALL)


@pytest.fixture(scope="module")
def space() -> Graph:
    return loading.graph(SPACE)


def shown(root: Box, opened: frozenset[int]) -> Iterator[Box]:
    for part in root.parts:
        yield part
        if part.number in opened:
            yield from shown(part, opened)


def titles(of: Outline, depth: int = 1) -> list[str]:
    return [box.title for box in shown(of.root, of.opened(depth))]


def box(of: Outline, title: str) -> Box:
    return next(one for one in of.root.walk() if one.title == title)


# What is shown


def test_a_space_is_collapsed_to_its_blocks(space: Graph) -> None:
    stages = [f"stage[{i}]" for i in range(5)]
    assert titles(outline(space)) == ["image", "stem", *stages, "global_avg_pool", "linear", "logits"]
    assert "3 choices" in box(outline(space), "stage[2]").lines


def test_a_choice_holds_its_alternatives_side_by_side(space: Graph) -> None:
    of = outline(space, "layer")
    names = [f"local_k{kernel}_h{heads}" for kernel in (3, 5, 7) for heads in (4, 8)]
    assert titles(of) == [
        "input", "choose op", *names, "nonlocal", "one of 7", "conv 1×1", "add", "output",
    ]  # fmt: skip
    choice = box(of, "choose op")
    assert choice.is_varying
    assert choice.kind == "choice"
    assert choice.header == "@layer · 7 alternatives"
    sheets = place(of.root, of.opened(1))
    assert len({top for _, top in sheets[choice.number].corners[:7]}) == 1
    assert box(of, "local_k7_h8").lines[0] == "bottleneck"


def test_every_way_of_choosing_is_drawn(small: Graph) -> None:
    of = outline(small)
    value = next(one for one in of.root.parts if one.title == "choose kernel" and not one.parts)
    assert (value.kind, value.parts, value.lines) == ("choice", (), ("3 | 5 @size",))
    by_value = next(one for one in of.root.parts if one.title == "choose kernel" and one.parts)
    assert [part.title for part in by_value.parts] == ["3", "5", "one of 2"]
    assert [part.kind for part in by_value.parts] == ["through", "pooling", "choice"]
    op = box(of, "choose op")
    assert [part.title for part in op.parts] == ["plain", "wide", "skip", "one of 3"]
    assert [part.lines[0] for part in op.parts] == ["conv 3×3", "8×16×16", "identity", "8×16×16"]
    assert box(of, "conv 3|5").is_varying


def test_cell_calls_are_drawn_as_separate_boxes() -> None:
    text = "cell c(x) {\n return x |> choose op { a: conv(8), b: relu |> conv(8) }\n}\n"
    text += "net n {\n input x: f32[8, 4, 4]\n output y = x |> c |> c\n}"
    of = outline(elaborate(text))
    assert titles(of) == ["x", "c", "c_2", "y"]
    assert box(of, "c_2").lines == ("op: 1 of 2", "8×4×4")
    assert not any("params" in line for line in box(of, "c").lines)


def test_boxes_show_costs_of_their_blocks() -> None:
    graph = loading.graph(EXAMPLES / "resnet50.arch")
    of = outline(graph)
    assert of.subtitle == "190 operations · 25.6M params · 4.09G MACs"
    assert box(of, "bottleneck[0][0]").lines == ("256×56×56", "75K params", "231M MACs")
    details = dict(next(one for one in of.root.walk() if one.scope == "imagenet_stem.conv_bn.conv").details)
    assert details["weight weight"] == "64×3×7×7"
    assert details["params"] == "9,408"
    assert details["stride"] == "2"


def test_an_architecture_has_no_choice_left(space: Graph) -> None:
    found = Space(space)
    of = outline(found.specialize(found.sample(1)))
    assert len(titles(of)) == 10
    assert all(one.kind not in ("choice", "through") and not one.is_varying for one in of.root.walk())
    layer = next(one for one in of.root.walk() if one.scope == "stage[0].layer[0]")
    assert any(part.title.startswith("local_k") and part.lines[0] == "bottleneck" for part in layer.parts)


def test_block_is_selected_by_scope_or_name(space: Graph) -> None:
    by_scope, by_name = outline(space, "stage[0].layer[0]"), outline(space, "layer")
    assert by_scope.root == by_name.root
    assert outline(space, "stage[4].layer[2].op").subtitle.startswith("block of full_attention")
    inner = outline(space, "stage[0].layer[0].op.nonlocal")
    assert inner.subtitle == "block of full_attention · 9 operations · 512 params · 17.3M MACs"
    with pytest.raises(ArchError, match=r"A1301.*there is no block `layr`"):
        outline(space, "layr")


def test_outline_of_optimized_space_has_no_cycle(space: Graph) -> None:
    for name in PASSES:
        of = outline(run(space, [name]))
        assert len(list(of.root.walk())) > 500
        place(of.root, of.opened(9))


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (1000, "1K"), (999_500, "1M"), (4_089_184_256, "4.09G")]
)
def test_amount_formats_number(number: int, text: str) -> None:
    assert amount(number) == text


def test_cell_is_drawn_as_inputs_nodes_and_edges() -> None:
    of = outline(small_graph("darts/darts.arch:darts"), "normal")
    edges = [part for part in of.root.parts if part.title.startswith("edge")]
    assert len(edges) == 14
    assert all((edge.kind, edge.lines[0]) == ("choice", "op: 1 of 7") for edge in edges)
    nodes = [part for part in of.root.parts if part.title == "add"]
    assert [node.lines[0] for node in nodes[1:]] == ["2 of 3 inputs", "2 of 4 inputs", "2 of 5 inputs"]
    others = [part.title for part in of.root.parts if part not in (*edges, *nodes)]
    assert others == ["input 1", "input 2", "concat", "choose inputs[0]", "output", "op: 1 of 7"]
    assert [part.title for part in of.root.parts if part.is_beside] == ["choose inputs[0]", "op: 1 of 7"]
    linked = {part for a, b, _ in of.root.links for part in (a, b)}
    assert linked == {i for i, part in enumerate(of.root.parts) if not part.is_beside}
    assert " · 18 choices" in of.subtitle
    assert titles(outline(small_graph("darts/darts.arch:darts"), "normal"), 2).count("sep_conv_3x3") == 14


def test_a_choice_has_one_edge_to_each_reader_whatever_its_alternatives() -> None:
    """Also if the reader is a choice of inputs, which reads the alternatives themselves."""
    text = """
import std.cells
block op(x, stride) { return x |> choose op { a: relu, b: conv(8) } }
block combined(one, other) { return choose combine { add: one + other, mul: one * other } }
cell c(x) { return pairs(x, x, op, combined, blocks=2) }
net n { input x: f32[8, 4, 4]
 output y = x |> c }
"""
    of = outline(elaborate(text), "c")
    edges = [(a, b) for a, b, _ in of.root.links if a is not None and of.root.parts[a].kind == "choice"]
    assert len(edges) == len({*edges}) > 8


def test_choices_made_outside_of_a_block_are_listed_beside_it() -> None:
    of = outline(small_graph("glit/glit.arch:glit"), "layer")
    beside = [part.title for part in of.root.parts if part.is_beside]
    assert beside == ["choose expansion[0]", "choose kernel[0]", "choose key[0]", "choose ratio[0]"]
    assert box(of, "choose globals[0]").kind == "choice"
    assert " · 5 choices" in of.subtitle


def test_block_of_one_part_is_drawn_as_this_part() -> None:
    text = """
block inner(x, width) {
    return x |> conv(width) |> relu
}
block outer(x) {
    return x |> inner(8)
}
block varied(x, op) {
    return x |> op(8)
}
block plain(x, width) {
    return x |> linear(width)
}
net n {
    input x: f32[8, 4, 4]
    y = x |> outer |> varied(inner) |> varied(conv)
    output z = y |> global_avg_pool |> plain(10)
}
"""
    of = outline(elaborate(text))
    assert titles(of) == ["x", "outer", "inner", "conv 3×3", "global_avg_pool", "linear", "z"]
    assert box(of, "outer").lines[0] == "inner"
    assert [part.title for part in box(of, "outer").parts] == ["conv 3×3", "relu"]


def chain(body: str, result: str = "x") -> list[str]:
    """Titles of a net whose variables `x` and `y` change in a loop."""
    text = "block b(x) {\n return x |> conv(8) |> relu\n}\n"
    text += f"net n {{\n input i: f32[8, 4, 4]\n x = i\n y = i\n {body}\n output o = {result}\n}}"
    return titles(outline(elaborate(text)))


def test_equal_blocks_that_follow_each_other_are_folded() -> None:
    assert chain("for i in 0..5 {\n x = x |> b\n}") == ["i", "b × 5", "o"]
    assert chain("for i in 0..2 {\n x = x |> b\n}") == ["i", "b[0]", "b[1]", "o"]
    assert chain("for i in 0..5 {\n z = x\n x = b(x) + y\n y = z\n}") == ["i", "b × 5", "o"]
    wider = chain('for i in 0..6 {\n x = x |> b |> max_pool(2, stride=2 if i == 2 else 1, padding="same")\n}')
    assert wider[1:2] + wider[-2:] == ["b[0]", "b × 3", "o"] or "b × 3" in wider


def test_blocks_are_not_folded_if_others_read_them_or_they_are_parallel() -> None:
    read = chain("t = []\n for i in 0..5 {\n x = x |> b\n t = t + [x]\n}", "concat(t)")
    assert read == ["i", *(f"b[{i}]" for i in range(5)), "concat", "o"]
    parallel = chain("t = [i |> b for k in 0..5]", "concat(t)")
    assert parallel[1:6] == [f"b[{i}]" for i in range(5)]
    dense = chain("t = [i]\n for k in 0..5 {\n t = t + [sum(t) |> b]\n}", "t[5]")
    assert dense.count("b[4]") == 1


# Where it stands


def check_layout(of: Outline, depth: int) -> None:
    """No box overlaps, every edge leads from box to box without touching another, and nothing sticks out."""
    opened = of.opened(depth)
    sheets, boxes = place(of.root, opened), {box.number: box for box in of.root.walk()}
    assert sheets.keys() == {0, *(box.number for box in shown(of.root, opened))}
    for number in opened:
        check_sheet(boxes[number], sheets)


def check_sheet(one: Box, sheets: dict[int, Sheet]) -> None:
    sheet, inner = sheets[one.number], [sheets[part.number] for part in one.parts]
    spots = [(x, y, x + s.width, y + s.height) for (x, y), s in zip(sheet.corners, inner, strict=True)]
    for left, top, right, bottom in spots:
        assert 0 < left < right < sheet.width
        assert top >= HEADER
        assert bottom < sheet.height
    corners = np.array(spots).T
    for part, a in enumerate(spots[:-1]):
        b = corners[:, part + 1 :]
        assert ((a[2] < b[0]) | (b[2] < a[0]) | (a[3] < b[1]) | (b[3] < a[1])).all()
    in_rows = [i for i, part in enumerate(one.parts) if not part.is_beside]
    beside = [spots[i] for i in range(len(spots)) if i not in in_rows]
    assert set(drawn(sheet)) == set(one.links)
    for ends in ([(e.source, e.x0, e.tensor) for e in sheet.edges], [(e.target, e.x1, e.tensor) for e in sheet.edges]):
        assert len({end[:2] for end in ends if end[0] >= 0}) == len({end for end in ends if end[0] >= 0})
    for edge in sheet.edges:
        if edge.source >= 0:
            left, _, right, bottom = spots[edge.source]
            assert left < edge.x0 < right
            assert edge.y0 == bottom
            exits = inner[edge.source].exits
            assert exits is None or edge.x0 == pytest.approx(left + exits[edge.tensor])
        if edge.target >= 0:
            left, top, right, _ = spots[edge.target]
            assert left < edge.x1 < right
            assert edge.y1 == top
            entries = inner[edge.target].entries
            assert entries is None or edge.x1 == pytest.approx(left + entries[edge.tensor])
        assert 0 < min(edge.x0, edge.x1) <= max(edge.x0, edge.x1) < sheet.width
        for left, top, _, bottom in beside:
            assert edge.y1 <= top or edge.y0 >= bottom or max(edge.x0, edge.x1) < left
        assert edge.y0 <= edge.leave < edge.arrive == edge.y1
        if in_rows:
            left, top, right, bottom = corners[:, in_rows]
            straight = (edge.y0 < bottom) & (top < edge.leave) & (left < edge.x0) & (edge.x0 < right)
            assert {in_rows[part] for part in np.flatnonzero(straight)} <= {edge.source}
            assert ((bottom <= edge.leave) | (top >= edge.arrive)).all()


def drawn(sheet: Sheet) -> Iterator[Link]:
    """The links of a box as someone reads them off its edges: each followed to where it ends, by position alone."""
    assert sheet.entries is not None
    assert sheet.exits is not None
    starts = {(x, HEADER, tensor): None for tensor, x in sheet.entries.items()}
    ends = {(x, sheet.height, tensor) for tensor, x in sheet.exits.items()}
    follow: list[tuple[int | None, Edge]] = []
    from_bends: dict[tuple[float, float, Any], list[Edge]] = {}
    for edge in sheet.edges:
        if edge.source < 0:
            from_bends.setdefault((edge.x0, edge.y0, edge.tensor), []).append(edge)
        if edge.source >= 0 or (edge.x0, edge.y0, edge.tensor) in starts:
            follow.append((edge.source if edge.source >= 0 else None, edge))
    for source, edge in follow:
        if edge.target >= 0:
            yield source, edge.target, edge.tensor
        elif (edge.x1, edge.y1, edge.tensor) in ends:
            yield source, None, edge.tensor
        else:
            on = from_bends.get((edge.x1, edge.y1, edge.tensor))
            assert on, "an edge ends nowhere"
            follow += [(source, e) for e in on]


@given(graphs(), st.integers(1, 4))
def test_layout_of_random_graph_is_valid(graph: Graph, depth: int) -> None:
    check_layout(outline(graph), depth)


DRAWN = with_soak(
    NETS,
    {
        "autoformer/autoformer.arch:autoformer_tiny",
        "deit_tiny.arch:deit_tiny",
        "mobilenet_v2.arch:mobilenet_v2",
        "nas_bench_201/nas_bench_201.arch:nas_bench_201",
        "nas_bert/nas_bert.arch:nas_bert",
    },
)
"""Layers, blocks in blocks, cells, attention, and choices of each."""


@pytest.mark.parametrize("net", DRAWN)
def test_layout_of_example_is_valid(net: str) -> None:
    of = outline(small_graph(net))
    for depth in (1, 2, 9):
        check_layout(of, depth)


def test_a_thousand_nodes_are_laid_out(space: Graph) -> None:
    assert len(space) > 1000
    check_layout(outline(space), 99)


def test_width_estimates_order_texts_by_width() -> None:
    assert width("iii", 10) < width("nnn", 10) < width("WWW", 10)
    assert width("漢字", 10) > width("ab", 10)


def crossings(box: Box) -> int:
    """How often edges of a box cross between its rows."""
    order = plan(box)
    place = {slot: k for row in order.rows for k, slot in enumerate(row)}
    ends = [(row, place[a], place[b]) for row, a, b, *_ in order.segments]
    return sum(r == s and (a - c) * (b - d) < 0 for (r, a, b), (s, c, d) in combinations(ends, 2))


def test_a_planar_cell_is_drawn_without_crossings() -> None:
    assert crossings(outline(small_graph("nas_bench_201/nas_bench_201.arch:nas_bench_201"), "searched").root) == 0


@given(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_no_other_order_of_rows_has_fewer_crossings(pairs: set[tuple[int, int]]) -> None:
    links: list[Link] = sorted((min(pair), max(pair), min(pair)) for pair in pairs if pair[0] != pair[1])
    root = Box(0, "block", "", parts=tuple(Box(i + 1, "data", "") for i in range(7)), links=tuple(dict.fromkeys(links)))
    order = plan(root)
    ends: list[tuple[int, int, int]] = [(row, a, b) for row, a, b, *_ in order.segments]
    ways = prod(factorial(len(row)) for row in order.rows)
    if ways > 300:
        return

    def count(rows: tuple[tuple[int, ...], ...]) -> int:
        place = {slot: k for row in rows for k, slot in enumerate(row)}
        return sum(
            r == s and (place[a] - place[c]) * (place[b] - place[d]) < 0
            for (r, a, b), (s, c, d) in combinations(ends, 2)
        )

    assert count(order.rows) == min(map(count, product(*(list(permutations(row)) for row in order.rows))))


# Formats


def test_page_of_repeated_blocks_is_small() -> None:
    graph = small_graph("darts/darts.arch:darts")
    of = outline(graph)
    boxes, page = list(of.root.walk()), Page(picture(graph, "html"))
    assert len(boxes) > 1700
    assert len(json.loads(page.data)["templates"]) < len(boxes) / 5
    assert len(page.data) < 200_000


@pytest.mark.parametrize("net", DRAWN)
def test_every_example_is_drawn_in_every_format(net: str) -> None:
    graph = small_graph(net)
    for format in TEXT_FORMATS:
        for depth in (1, 3):
            check_format(format, picture(graph, format, depth))


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("net", NETS)
def test_every_full_size_example_is_drawn_in_every_format(net: str) -> None:
    graph = loading.graph(EXAMPLES / net)
    of = outline(graph)
    for depth in (1, 2, 9):
        check_layout(of, depth)
    for format in TEXT_FORMATS:
        check_format(format, picture(graph, format, 3))


@pytest.mark.parametrize("format", with_soak(TEXT_FORMATS, ["svg"]))
def test_the_same_graph_makes_the_same_picture(format: str, space: Graph) -> None:
    assert picture(space, format, 3) == picture(loading.graph(SPACE), format, 3)


@pytest.mark.parametrize("format", ["svg", "mermaid", "dot"])
def test_picture_of_small_net_matches_golden_file(
    format: str, small: Graph, golden: Callable[[str, str], None]
) -> None:
    golden(f"pictures/small.{format}", picture(small, format, 2))


def png_of(graph: Graph, depth: int = 1, heat: Heat | None = None) -> tuple[Image.Image, ElementTree.Element]:
    """A picture as PNG, in RGB, and as SVG."""
    image = Image.open(BytesIO(picture_file(graph, "png", depth, heat=heat)))
    return image.convert("RGB"), ElementTree.fromstring(picture(graph, "svg", depth, heat=heat))


@pytest.mark.parametrize("is_heated", [False, True])
def test_png_has_the_boxes_edges_and_texts_of_the_svg(small: Graph, is_heated: bool) -> None:
    image, svg = png_of(small, 2, Heat.of(Space(small), "params") if is_heated else None)
    assert image.size == (2 * int(svg.get("width", 0)), 2 * int(svg.get("height", 0)))
    kinds = set()
    for group in svg.iter(f"{SVG}g"):
        face = group.find(f"{SVG}rect[@class='face']")
        if face is not None:
            x, y, wide = (float(face.get(name, 0)) for name in ("x", "y", "width"))
            kind = group.get("class", "").replace(" varied", "").split()[-1]
            assert image.getpixel((round(2 * (x + wide / 2)), round(2 * (y + 4)))) == ImageColor.getrgb(hues(kind)[0])
            texts = image.convert("L").crop((2 * x + 12, 2 * y + 8, 2 * (x + wide) - 12, 2 * y + 50))
            assert min(texts.tobytes()) < 140
            kinds.add(kind)
    assert len(kinds) > 4
    for edge in svg.iter(f"{SVG}path"):
        if edge.get("class") == "edge":
            x0, y0 = (2 * float(number) for number in re.findall(r"[\d.]+", edge.get("d", ""))[:2])
            assert image.getpixel((round(x0), round(y0) + 3)) != (255, 255, 255)


def test_png_needs_no_font_and_has_a_maximum_size(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    with_font = picture_file(small, "png")
    monkeypatch.setattr(png, "_FONTS", ())
    png._font.cache_clear()
    assert picture_file(small, "png") != with_font
    png._font.cache_clear()
    with pytest.raises(ArchError, match=r"A1302.*30000 x 3000 pixels is too large for PNG"):
        png.to_png('<svg xmlns="http://www.w3.org/2000/svg" width="30000" height="3000"></svg>')


def test_documented_pictures_match_their_commands(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "pictures.md").read_text()
    commands = re.findall(r"^archir (show .*-o docs/pictures/\S+)$", text, re.MULTILINE)
    assert commands
    for command in commands:
        *arguments, name = shlex.split(command)
        out = tmp_path / "picture.svg"
        result = invoke(*(str(ROOT / a) if a.startswith("examples/") else a for a in arguments), str(out))
        assert result.exit_code == 0, result.output
        assert out.read_text() == (ROOT / name).read_text(), f"{name} is out of date: run archir {command}"


SVG = "{http://www.w3.org/2000/svg}"
SVG_TAGS = {f"{SVG}{t}" for t in ("svg", "title", "style", "defs", "marker", "path", "rect", "text", "tspan", "g")}
DOT_STRING = r'"(?:[^"\\\n]|\\.)*"'
DOT_LINE = re.compile(
    rf"digraph {DOT_STRING} {{|\}}|subgraph cluster_\d+ {{|n\d+ -> n\d+"
    rf"|(n\d+|node|edge) \[((\w+=({DOT_STRING}|\w+|[\d.]+)) ?)+\]|((\w+=({DOT_STRING}|\w+)) ?)+"
)
LABEL = r'"(?:[\w ,.=@\-+()\[\]·×|…/%]|#\d+;|<br/>)*"'
MERMAID_LINE = re.compile(
    rf"flowchart TD|%% (?:[\w ,.=@\-+()\[\]·×|…/%:]|#\d+;)*|n\d+(\[|\(\[|\[\[){LABEL}(\]|\]\)|\]\])"
    rf"|subgraph n\d+\[{LABEL}\]|end|n\d+ --> n\d+|classDef \w+ [\w:#, -]+|class [n\d,]+ \w+"
)


class Page(HTMLParser):
    """The elements of a page, and its data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.resources: list[str] = []
        self.data = ""
        self._within = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        found = dict(attributes)
        self.resources += [value or "" for name, value in found.items() if name in ("src", "href")]
        self._within = found.get("id") or ""

    def handle_data(self, data: str) -> None:
        if self._within == "data":
            self.data, self._within = data, ""


def check_format(format: str, text: str) -> None:
    """A text is well-formed, and holds no element or statement but those that pictures are made of."""
    if format == "svg":
        assert {element.tag for element in ElementTree.fromstring(text).iter()} <= SVG_TAGS
    elif format == "html":
        page = Page(text)
        assert page.elements.count("script") == 2
        assert not page.resources
        assert "://" not in re.sub(r"http://www\.w3\.org/2000/svg", "", text)
        assert json.loads(page.data)["templates"]
    else:
        line = DOT_LINE if format == "dot" else MERMAID_LINE
        wrong = [one for one in text.splitlines() if not line.fullmatch(one.strip())]
        assert not wrong


HOSTILE = [
    "</script><script>alert(1)</script>", "</title></style></svg><img src=x onerror=alert(1)>", '"]; end; click n1 "x',
    '" shape=box]; b [label="', "\\", '\\"', "a\nb --> c", "]]>", "{{script}}", "#quot;#35;", "`**md**`", "&amp;<!--",
    "\x00\x1b\ud800\u202e\u2028", "end", "javascript:alert(1)", "%%{init: {}}%%",
]  # fmt: skip


def hostile_graph(name: str) -> Graph:
    """A graph in which everything that has a name has this one."""
    graph = Graph(name)
    choice = Choice(name, (name, f"{name}!"), 0, tags=frozenset({name}))
    graph.decisions = {name: Decision(choice)}
    image = graph.add(Node(Input(name, (2, 4, 4)), scope=name))
    conv = graph.add(Node(Conv(2), scope=f"{name}.{name}"), image)
    scaled = graph.add(Node(Scale(make_diagram(choice, [1.0, 2.0])), scope=f"{name}.b"), conv)
    relu = graph.add(Node(Relu(), scope=f"{name}.c"), conv)
    graph.outputs[name] = graph.add(Node(Select(name, (0, 1)), scope=name), scaled, relu)
    graph.blocks = {name: name}
    return graph


@pytest.mark.parametrize("format", TEXT_FORMATS)
@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_escaped_in_every_format(name: str, format: str) -> None:
    graph = hostile_graph(name)
    for depth in (1, 3):
        check_format(format, picture(graph, format, depth))
    if format == "html" and name.isprintable():
        page = Page(picture(graph, format))
        assert any(name in detail[1:] for box in json.loads(page.data)["templates"] for detail in box["details"])
    if format == "svg" and name.isprintable() and len(name) < 30:
        texts = [element.text for element in ElementTree.fromstring(picture(graph, format)).iter(f"{SVG}text")]
        assert name in texts


@given(st.text(min_size=1, max_size=12), st.sampled_from(sorted(TEXT_FORMATS)))
def test_any_name_is_escaped_in_every_format(name: str, format: str) -> None:
    check_format(format, picture(hostile_graph(name), format, 2))


@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_choice_strings_are_escaped_in_every_format(format: str) -> None:
    text = 'net n {\n input x: f32[2, 4, 4]\n a = choose a("</script><script>alert(1)</script>", "]; b -> c")\n'
    text += ' output y = match a {\n  "]; b -> c" => x |> relu, else => x\n }\n}\n'
    check_format(format, picture(elaborate(text), format, 2))


# The command


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def test_a_file_is_written_as_its_suffix_says(tmp_path: Path) -> None:
    for name, begins in (("space.svg", "<svg"), ("space.html", "<!"), ("space.json", "{"), ("space.txt", "net ")):
        done = CliRunner().invoke(main, ["show", str(EXAMPLES / "resnet50.arch"), "-o", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
        assert (tmp_path / name).read_text().startswith(begins)


def test_the_command_writes_pictures(tmp_path: Path) -> None:
    out = tmp_path / "space.html"
    assert "wrote" in invoke("show", str(SPACE), "--format", "html", "-o", str(out)).output
    check_format("html", out.read_text())
    text = invoke("show", str(SPACE), "--format", "svg", "--block", "bottleneck", "--depth", "2").output
    assert ">local_attention 3×3<" in text
    seeded = invoke("show", str(SPACE), "--format", "mermaid", "--seed", "0", "--depth", "9").output
    assert "choose" not in seeded
    assert invoke("show", str(SPACE), "--format", "json").output == invoke("show", str(SPACE), "--json").output
    assert "A1301" in invoke("show", str(SPACE), "--format", "dot", "--block", "nothing").stderr
    assert "wrote" in invoke("show", str(SPACE), "--block", "layer", "-o", str(tmp_path / "layer.png")).output
    assert (tmp_path / "layer.png").read_bytes().startswith(b"\x89PNG")
    assert "PNG is not text: add -o FILE.png" in invoke("show", str(SPACE), "--format", "png").stderr
    wrong = invoke("show", str(SPACE), "--block", "layer")
    assert wrong.exit_code == 2
    assert "--block only applies to pictures" in wrong.stderr
