"""A requirement narrows the choices of the lines after it: excluded values raise no error there."""

from __future__ import annotations

from pathlib import Path

import pytest

import archir
from archir.api import loading
from archir.diagnostics.errors import ArchError
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import Graph
from archir.ir.printer import print_graph
from archir.ir.reader import parse_graph
from archir.ir.serial import from_json, to_json
from archir.ir.typing import infer
from archir.ir.verify import verify
from archir.passes.cost import cost
from archir.passes.freeze import freeze
from archir.passes.prune import prune


def space(body: str, before: str = "") -> archir.Space:
    return archir.loads(f"{before}\nnet n {{\ninput image: f32[4, 6, 6]\n{body}\n}}")


AB = "a = choose a(0, 1, 2)\nb = choose b(0, 1, 2)\n"
NARROWED = {
    "a sum": (f"{AB}require a + b >= 1\noutput y = image |> conv(4 * (a + b))", 8),
    "two that meet": (f"{AB}require a == b\noutput y = (image |> conv(a + 1)) + (image |> conv(b + 1))", 3),
    "a chain": (f"{AB}c = choose c(0, 1)\nrequire a == b\nrequire b == c + 1\noutput y = image |> conv(a)", 2),
    "a division": (f"{AB}require b != 0\noutput y = image |> conv(a // b + 1)", 6),
    "both halves": (f"{AB}require b > 0 and 2 // b == 1\noutput y = image |> conv(a // b + b)", 3),
    "a branch": (f"{AB}require a > 0\nx = image\nif a == 0 {{\nx = x |> conv(a)\n}}\noutput y = x", 6),
    "a branch of types": (f"{AB}require a > 0\noutput y = image |> flatten |> linear(a) if a == 0 else image", 6),
    "a name": (f"{AB}require a > 0\nif a > 0 {{\nx = image\n}}\noutput y = x", 6),
    "a where": (f"{AB}w = choose w 2 of [a, b, 3] where w[0] > 0\noutput y = image |> conv(4 // w[0])", 18),
    "an index": (f"{AB}require a < 2\noutput y = image |> conv([4, 8][a])", 6),
    "a use elsewhere": (
        f"{AB}require a > 0\nx = image |> conv(a, kernel=1)\noutput y = x[0:1] if a == 0 else image",
        6,
    ),
    "candidates that ask inactive choices": (
        "p = [3] if choose c(true, false) else reversed(choose d 2 of [1, 2, 1] where sum(d) > 2)\n"
        "i = choose i(p[:2])\n"
        "x = match i { 3 => image |> conv(4), 2 => image |> conv(4, kernel=1) |> relu, else => image }\n"
        "output y = x |> conv(4 * i)",
        5,
    ),
}


@pytest.mark.parametrize("name", NARROWED)
def test_requirement_excludes_invalid_architectures(name: str) -> None:
    body, satisfying = NARROWED[name]
    found = space(body)
    assert found.satisfying == satisfying
    shapes = [infer(found.specialize(one)) for one in found.enumerate()]
    assert len(shapes) == satisfying
    drawn = [*found.enumerate()]
    assert found.cost(drawn)["params"].tolist() == [cost(found.specialize(one)).params for one in drawn]
    for one in (drawn[0], drawn[-1]):
        for path, outcome in one.outcomes.items():
            left = freeze(found.graph, {path: outcome})
            verify(left)
            assert canonical_hash(found.specialize(one)) in _architectures(left)
    for graph in (
        found.graph,
        prune(found.graph),
        parse_graph(print_graph(found.graph)),
        from_json(to_json(found.graph)),
    ):
        verify(graph)
        assert _architectures(graph) == _architectures(found.graph)


def _architectures(graph: Graph) -> list[str]:
    found = archir.Space(graph)
    return [found.canonical(one) for one in found.enumerate()]


@pytest.mark.parametrize("name", sorted(set(NARROWED) - {"a branch", "a branch of types", "a use elsewhere"}))
def test_same_program_without_requirement_is_error(name: str) -> None:
    lines = [line.split(" where ")[0] for line in NARROWED[name][0].split("\n") if not line.startswith("require")]
    with pytest.raises(ArchError):
        space("\n".join(lines))


def test_requirement_does_not_narrow_preceding_lines() -> None:
    with pytest.raises(ArchError, match="when a = 0, b = 0"):
        space(f"{AB}output y = image |> conv(4 * (a + b))\nrequire a + b >= 1")


def test_size_ignores_requirements() -> None:
    found = space(f"{AB}require a > 0\nx = image |> choose op {{ r: relu, g: conv(a) }}\noutput y = x")
    assert (found.size, found.satisfying) == (18, 12)
    assert all(decision.active is True for decision in found.graph.decisions.values())


def test_requirements_in_blocks_hold_where_these_are_called() -> None:
    before = "block f(x, n) {\nrequire n > 0\nreturn x |> conv(n)\n}"
    assert space(f"{AB}output y = image |> f(a)", before).satisfying == 6
    found = space(f"{AB}output y = image |> choose op {{ f: f(a), g: gelu }}", before)
    assert (found.size, found.satisfying) == (18, 6 + 9)
    assert space("output y = image |> choose op { f: f(0), g: gelu }", before).satisfying == 1


def test_requirements_in_cells_are_stated_once() -> None:
    before = "cell f(x) {\nn = choose n(0, 1, 2)\nrequire n > 0\nreturn x |> conv(4 * n)\n}"
    found = space("output y = image |> f |> f |> f", before)
    assert (found.size, found.satisfying, len(found.graph.constraints)) == (3, 2, 1)


def test_block_may_bound_costs() -> None:
    before = "block f(x, n) {\nrequire params < 200\nreturn x |> conv(n, kernel=1)\n}"
    assert len([*space("output y = image |> f(choose n(4, 8, 400))", before).enumerate()]) == 2


EMPTY = {
    "require n > 2\nrequire m > 1\nrequire n < 9\nrequire n < 2": {"n > 2", "n < 2"},
    "require n > 9": {"n > 9"},
    "w = choose w 2 of [1, n] where sum(w) > 20": {"sum(w) > 20"},
    "require n + m > 4\nrequire n < m\nrequire m < 3": {"n < m", "n + m > 4", "m < 3"},
}


@pytest.mark.parametrize("body", EMPTY)
def test_check_names_the_smallest_contradiction(body: str, tmp_path: Path) -> None:
    path = tmp_path / "n.arch"
    choices = "n = choose n(1, 2, 3)\nm = choose m(1, 2, 3)"
    path.write_text(f"net n {{\ninput image: f32[4, 6, 6]\n{choices}\n{body}\noutput y = image |> conv(n)\n}}\n")
    with pytest.raises(ArchError) as caught:
        loading.graphs(path)
    (problem,) = caught.value.diagnostics
    assert problem.code == "A0510"
    assert problem.span is not None
    said = {problem.span.text, *(note.span.text for note in problem.notes if note.span is not None)}
    assert said == EMPTY[body]


def test_code_after_chosen_return_is_conditional() -> None:
    block = "block b(x) {\nif choose c(true, false) {\nreturn x |> relu\n}\nrequire 1 == 2\nreturn concat([])\n}"
    found = space("output y = image |> b", block)
    assert (found.size, found.satisfying) == (2, 1)
    with pytest.raises(ArchError, match="A0510"):
        space("output y = image |> b", block.replace("choose c(true, false)", "choose c(1, 2) > 2"))
