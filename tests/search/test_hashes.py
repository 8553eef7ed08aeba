"""Canonical hashes of architectures: cached values, and duplicates among candidates."""

from __future__ import annotations

import random

import pytest

import archir
from archir.equivalence.canonical import Canonical, canonical_hash
from archir.search.proposals import Proposals
from archir.spaces.space import Space
from tests.examples import NETS, elaborated
from tests.search.test_multi import PLAIN, REQUIRED
from tests.soak import with_soak

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
    "opposites": "    x = x |> conv(c) |> choose op { scale: scale(-1.0), skip: identity }",
    "slices": "    x = concat(x |> conv(c), x |> conv(c))[0:choose kept(2, 4, 6)]",
    "unread": """
    y = x |> choose op { conv: conv(c, choose kernel(1, 3)), pool: max_pool(3) }
    x = choose side { left: x, right: y }""",
}


def tricky(body: str) -> Space:
    return archir.loads(NET.format(body=body))


@pytest.mark.parametrize("name", TRICKY)
def test_cached_hashes_equal_network_hashes(name: str) -> None:
    space = tricky(TRICKY[name])
    several = list(space.enumerate())
    assert len({space.canonical(one) for one in several}) > 1
    for one in several:
        assert space.canonical(one) == canonical_hash(space.specialize(one)), dict(one)


SMALL = ["nas_bench_201/nas_bench_201.arch:nas_bench_201", "glit/glit.arch:glit"]


@pytest.mark.parametrize("path", with_soak([one for one in NETS if "/" in one], SMALL))
def test_cached_hashes_equal_network_hashes_in_published_spaces(path: str) -> None:
    """Each with a neighbour, which is the same network where the changed choice has no effect."""
    space = elaborated(path, **NETS[path])
    rng = random.Random(0)
    several = [space.sample(seed) for seed in range(3)]
    several += [space.mutate(one, rng) for one in several if space.size > 1]
    for one in several:
        assert space.canonical(one) == canonical_hash(space.specialize(one))


def test_choices_without_effect_are_not_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    space = tricky(TRICKY["unread"])
    hashed: list[object] = []
    usual = Canonical.hash
    monkeypatch.setattr(Canonical, "hash", lambda self, one: (hashed.append(one), usual(self, one))[1])
    several = list(space.enumerate())
    assert len({space.canonical(one) for one in several}) == len(hashed) == 4
    assert len(several) == 6


FORMS = {
    "pointwise before tokens": ("y |> silu |> to_tokens", "y |> to_tokens |> silu"),
    "pointwise before slices": ("(y |> gelu)[0:2]", "y[0:2] |> gelu"),
    "slices of slices": ("y[0:3][1:3]", "y[1:3]"),
    "slices side by side": ("concat(y[0:2], y[2:4])", "y"),
    "slices of sums": ("(y + z)[1:3]", "y[1:3] + z[1:3]"),
    "pointwise side by side": ("concat(y |> tanh, z |> tanh)", "concat(y, z) |> tanh"),
    "side by side": ("concat(concat(y, z), y)", "concat(y, concat(z, y))"),
    "sums": ("(y + z) + y", "(y |> scale(2.0)) + z"),
    "products": ("(y * z) * y", "y * (y * z)"),
    "factors": ("(y |> scale(0.5)) * z", "(y * z) |> scale(0.5)"),
    "halves": ("(y |> scale(0.25)) + (y |> scale(0.75))", "y"),
    "zeros": ("y + (z |> zero)", "y"),
    "zeros of zeros": ("y + (z |> zero |> avg_pool(3) |> relu)", "y"),
    "nothing": ("y |> dropout(0.0) |> identity |> avg_pool(1)", "y"),
    "again": ("y |> relu |> relu", "y |> relu"),
    "shuffles": ("y |> relu |> channel_shuffle(2)", "y |> channel_shuffle(2) |> relu"),
    "shapes": ("y |> flatten |> reshape([36, 4])", "y |> reshape([36, 4])"),
    "biases": ("y |> conv(4, bias=true) |> batch_norm", "y |> conv(4) |> batch_norm"),
    "constants": ("y |> shift(1.0) |> batch_norm", "y |> batch_norm"),
}


@pytest.mark.parametrize("name", FORMS)
def test_equivalent_networks_have_equal_hashes(name: str) -> None:
    one, other = FORMS[name]
    space = archir.loads(f"""net forms(c = 4) {{
        input x: f32[4, 6, 6]
        y = x |> conv(c, 3)
        z = x |> conv(c, 3) |> batch_norm
        form = choose form(1, 2)
        output y = match form {{ 1 => {one}, 2 => {other} }}
    }}""")
    first, second = space.enumerate()
    assert space.canonical(first) == space.canonical(second)


# candidates


@pytest.mark.parametrize("space", [PLAIN, REQUIRED, tricky(TRICKY["zeros"]), tricky(TRICKY["opposites"])])
def test_candidates_have_distinct_hashes(space: Space) -> None:
    several = list(space.enumerate())
    asked = Proposals(space, 0).take(iter(several), len(several))
    assert [one.architecture for one in asked] == list(space.unique(several))
    assert [one.hash for one in asked[:5]] == [space.canonical(one.architecture) for one in asked[:5]]


def test_without_dedup_all_architectures_are_candidates() -> None:
    space = archir.without_dedup(tricky(TRICKY["zeros"]))
    several = list(space.enumerate())
    found = Proposals(space, 0).take(iter(several), len(several))
    assert [one.architecture for one in found] == several


def test_sampling_ends_in_large_space_with_one_network() -> None:
    """Beyond what is listed, draws in a row of which none is new are the end."""
    body = "x = x |> conv(c)\n" + "".join(
        f"    x = x |> choose c{i} {{ a: identity, b: avg_pool(1) }}\n" for i in range(16)
    )
    space = tricky(f"    {body}")
    assert space.size == 2**16
    assert len(Proposals(space, 0).sample(5)) == 1


@pytest.mark.parametrize("name", TRICKY)
def test_repair_keeps_valid_architectures(name: str) -> None:
    space = tricky(TRICKY[name])
    several = list(space.enumerate())
    assert [space.repair(one.codes, random.Random(0)) for one in several] == several
