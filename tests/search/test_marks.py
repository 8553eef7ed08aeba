"""Marks: the same for architectures that compute the same, so that only those of one mark need be compared."""

from __future__ import annotations

from collections import defaultdict

import pytest

import archir
from archir.search.multi.proposals import Proposals
from archir.search.spaces.space import Space
from tests.examples import NETS, elaborated
from tests.portions import portion
from tests.search.test_multi import PLAIN, REQUIRED

NET = """net tricky(c = 4) {{
    input x: f32[4, 6, 6]
{body}
    output y = x |> global_avg_pool |> linear(3)
}}"""
OPS = """choose {label} {{
        none: zero, skip: identity, pool: avg_pool(3)
        conv: conv(c, 1, bias=choose bias(false, true)) |> batch_norm
    }}"""
TRICKY = {
    "zeros": f"""
    for i in 0..2 {{
        one = x |> {OPS.format(label="one")}
        other = x |> relu |> {OPS.format(label="other")}
        x = one + other
    }}""",
    "factors": f"""
    gate = x |> global_avg_pool(keep=true) |> conv(c, 1) |> sigmoid
    gate = gate |> choose gated {{ yes: identity, no: zero }}
    x = (x |> conv(c) |> relu) * gate + (x |> {OPS.format(label="op")})""",
    "order": """
    repeat choose depth(1, 2, 3) {
        x = x |> choose op { a: conv(c, 3) |> relu, b: conv(c, 1) |> relu, skip: identity }
    }""",
    "sides": """
    x = concat(x |> conv(choose left(2, 4)), x |> conv(2)) |> choose act { relu: relu, none: identity } |> conv(c)""",
}
UNMARKED = {
    "differences": "    x = (x |> conv(c)) - (x |> choose op { conv: conv(c), skip: identity })",
    "opposites": "    x = x |> conv(c) |> choose op { scale: scale(-1.0), skip: identity }",
    "slices": "    x = concat(x |> conv(c), x |> conv(c))[0:choose kept(2, 4, 6)]",
    "flattened": "    x = concat(x |> conv(c), x |> conv(c))[0:4] |> choose op { conv: conv(c), skip: identity }",
}


def tricky(body: str) -> Space:
    return archir.loads(NET.format(body=body))


def agrees(space: Space, several: list[archir.Architecture]) -> None:
    """Marks that are looked up are those of canonical forms, and the same wherever hashes are."""
    assert space.likeness.marks is not None
    found = defaultdict(set)
    for one in several:
        mark = space.likeness.mark(one)
        assert mark == space.likeness.marks.counted(one.outcomes), dict(one)
        found[space.canonical(one)].add(mark)
    assert all(len(marks) == 1 for marks in found.values())


@pytest.mark.parametrize("name", TRICKY)
def test_marks_follow_the_laws(name: str) -> None:
    space = tricky(TRICKY[name])
    several = list(space.enumerate())
    agrees(space, several)
    marks = {space.likeness.mark(one) for one in several}
    assert 1 < len(marks) <= len({space.canonical(one) for one in several})


@pytest.mark.parametrize("name", UNMARKED)
def test_what_might_vanish_has_no_marks(name: str) -> None:
    space = tricky(UNMARKED[name])
    assert space.likeness.marks is None
    one = space.sample(0)
    assert space.likeness.mark(one) == space.canonical(one)


SMALL = ["nas_bench_201/nas_bench_201.arch:nas_bench_201", "glit/glit.arch:glit", "darts/darts.arch:darts"]


@pytest.mark.parametrize("path", portion([one for one in NETS if "/" in one], SMALL))
def test_marks_of_published_spaces(path: str) -> None:
    space = elaborated(path, **NETS[path])
    if space.likeness.marks is not None:
        agrees(space, [space.sample(seed) for seed in range(8)])
    else:
        assert path not in SMALL


@pytest.mark.parametrize("space", [PLAIN, REQUIRED, tricky(TRICKY["zeros"]), tricky(UNMARKED["opposites"])])
def test_candidates_are_those_that_hashes_alone_would_leave(space: Space) -> None:
    several = list(space.enumerate())
    asked = Proposals(space, 0).first(iter(several), len(several))
    assert [one.architecture for one in asked] == list(space.unique(several))
    assert [one.hash for one in asked[:5]] == [space.canonical(one.architecture) for one in asked[:5]]
