"""Deriving architectures from strengths reproduces published rules and keeps constraints."""

from __future__ import annotations

import operator
import random
from collections import Counter
from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir.spaces.architecture import Architecture
from archir.spaces.derive import derive
from archir.spaces.space import Space
from tests.conftest import EXAMPLES

Strengths = dict[str, list[float]]


def drawn(space: Space, seed: int) -> Strengths:
    """Random probabilities for every choice of one among several, a row summing to 1."""
    rng = np.random.default_rng(seed)
    return {c.path: rng.dirichlet(np.ones(len(c.alternatives))).tolist() for c in space.choices if c.k is None}


def test_derived_alternative_is_the_strongest() -> None:
    space = archir.load(EXAMPLES / "full_attention" / "full_attention.arch")
    strengths = drawn(space, 0)
    derived = derive(space, strengths)
    for choice in space.choices:
        assert derived[choice.path] == choice.alternatives[int(np.argmax(strengths[choice.path]))]


def test_zero_is_never_kept_where_it_is_excluded() -> None:
    """AutoLA: the argmax over all but zero (facts c, g7)."""
    space = archir.load(EXAMPLES / "autola" / "autola.arch", zero=True, affine=False, depth=8)
    strengths = {path: [0.9, *[0.1 / 8] * 3, 0.1 / 4, *[0.1 / 8] * 4] for path in drawn(space, 0)}
    assert set(derive(space, strengths, ["zero"]).values()) == {"spatial_d1"}
    assert set(derive(space, strengths).values()) == {"zero"}


@pytest.mark.parametrize("seed", range(5))
def test_darts_keeps_the_two_strongest_inputs_of_a_node(seed: int) -> None:
    """Written again as in the paper, section 2.4: an edge is as strong as its strongest operation that is not none."""
    space = archir.load(EXAMPLES / "darts" / "darts.arch:darts", channels=4, cells=3, affine=False, zero=True, size=8)
    strengths = drawn(space, seed)
    derived = derive(space, strengths, ["none_connect"])
    for cell, node in product(("normal", "reduction"), range(4)):
        edges = {i: strengths[f"{cell}.searched.edge[{node}][{i}].op"][1:] for i in range(node + 2)}
        kept = sorted(sorted(edges, key=lambda i: -max(edges[i]))[:2])
        assert derived[f"{cell}.searched.inputs[{node}]"] == kept
        for i in kept:
            choice = next(c for c in space.choices if c.path == f"{cell}.searched.edge[{node}][{i}].op")
            assert derived[choice.path] == choice.alternatives[1 + int(np.argmax(edges[i]))]


def test_nos_keeps_a_feature_among_a_nodes_inputs() -> None:
    """Written again as the fact sheet resolves it (g3): the two strongest edges; if neither is a feature, the weaker
    gives way to the strongest feature operation of any edge but the stronger's."""
    space = archir.load(EXAMPLES / "nos" / "nos.arch:nos", channels=16, cells=3, affine=False, size=8)
    for seed in range(20):
        assert_nos_rule(space, drawn(space, seed))


def assert_nos_rule(space: Space, strengths: Strengths) -> None:
    for path, row in strengths.items():
        if "edge" in path:  # gates and kernels are strong, so that the rule has something to do
            strengths[path] = [value * (1 if i < 7 else 5) for i, value in enumerate(row)]
    derived = derive(space, strengths)
    for cell, node in product(("normal", "reduction"), range(4)):
        prefix = f"{cell}.searched.heterogeneous[{node}]"
        pairs = [(strengths[f"{prefix}.edge[{i}].op"][o], i, o) for i in range(node + 2) for o in range(11)]
        pairs.sort(reverse=True)
        _, first, op = pairs[0]
        second = next((i, o) for _, i, o in pairs if i != first and (op < 7 or o < 7))
        wanted = dict(sorted([(first, op), second]))
        labels = next(c for c in space.choices if c.path == f"{prefix}.edge[0].op").alternatives
        assert derived[f"{prefix}.inputs"] == list(wanted)
        assert {i: derived[f"{prefix}.edge[{i}].op"] for i in wanted} == {i: labels[o] for i, o in wanted.items()}
        assert derived[f"{prefix}.op"] == labels[int(np.argmax(strengths[f"{prefix}.op"]))]


def test_pc_darts_edge_weights_scale_operation_strengths() -> None:
    """PC-DARTS: an edge is as strong as its weight times its strongest operation (Xu et al. 2020, section 3.3)."""
    space = archir.load(EXAMPLES / "darts" / "darts.arch:darts", channels=4, cells=3, size=8)
    strengths = {path: [1 / 7] * 7 for path in drawn(space, 0)}
    strengths["normal.searched.inputs[2]"] = [0.1, 0.4, 0.1, 0.4]
    assert derive(space, strengths)["normal.searched.inputs[2]"] == [1, 3]


def test_requirements_on_choices_are_kept() -> None:
    space = archir.loads("""
net n() {
    input x: f32[8]
    a = choose a(2, 4, 8)
    b = choose b(2, 4, 8)
    require a + b <= 10
    output y = x |> linear(a) |> linear(b) |> linear(2)
}""")
    strong = {"a": [0.1, 0.2, 0.7], "b": [0.1, 0.1, 0.8]}
    assert dict(derive(space, strong)) == {"a": 2, "b": 8}
    assert dict(derive(space, {"a": [0.1, 0.1, 0.8], "b": [0.1, 0.2, 0.7]})) == {"a": 8, "b": 2}


def test_bounds_on_costs_are_kept() -> None:
    space = archir.load(EXAMPLES / "full_attention" / "full_attention.arch").where("macs <= 20M")
    rng = random.Random(0)
    strengths = {c.path: [rng.random() for _ in c.alternatives] for c in space.choices}
    derived = derive(space, strengths)
    assert space.within(derived)
    choices = {choice.path: choice for choice in space.choices}

    def likelihood(architecture: Architecture) -> float:
        codes = ((path, choices[path].alternatives.index(str(label))) for path, label in architecture.items())
        return sum(np.log(strengths[path][code]) for path, code in codes)

    assert all(likelihood(other) <= likelihood(derived) for other in space.neighbors(derived))


def test_rejects_excluding_all_alternatives() -> None:
    space = archir.loads("net n() {\n    input x: f32[4]\n    output y = choose op { a: linear(x, 4), b: x }\n}")
    with pytest.raises(ArchError, match="A2101"):
        derive(space, {}, ["a", "b"])


CHAIN = """
net chain() {
    input x: f32[4, 6, 6]
    a = choose a(0, 1, 2, 3)
    b = choose b(0, 1, 2, 3)
    c = choose c(0, 1, 2, 3)
    d = choose d(0, 1, 2, 3)
    require a + b == 3
    require b + c == 3
    require c + d == 3
    require d >= 2
    output y = x |> conv(1 + a + b + c + d, kernel=1)
}
"""


@pytest.mark.parametrize("first", "abcd")
@pytest.mark.parametrize("wish", range(4))
def test_strongest_completable_alternative_is_derived(first: str, wish: int) -> None:
    """Each of them alone leaves what all of them rule out: what is strongest is taken of what can be completed."""
    space = archir.loads(CHAIN)
    possible = {one[first] for one in space.enumerate()}
    strengths = [0.1 + 0.1 * i for i in range(4)]
    strengths[wish] = 0.9
    derived = derive(space, {first: strengths})
    assert derived in set(space.enumerate())
    assert derived[first] == max((strengths[int(str(one))], one) for one in possible)[1]


NAMES = "abcde"
WIDTHS = (1, 2, 3)
RELATIONS = {"==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge}
Rule = tuple[str, str, str, int]
"""`a + b <= 4`."""


def entangled(draw: random.Random, bounded: bool) -> tuple[str, list[Rule]]:
    """A net of five choices among three widths, with requirements on pairs of them, and maybe one on its cost."""
    rules = []
    for _ in range(draw.randint(2, 5)):
        one, other = sorted(draw.sample(NAMES, 2))
        rules.append((one, other, draw.choice(list(RELATIONS)), draw.randint(3, 5)))
    lines = [f"    {name} = choose {name}({', '.join(map(str, WIDTHS))})" for name in NAMES]
    lines += [f"    require {one} + {other} {relation} {total}" for one, other, relation, total in rules]
    lines += [f"    x = x |> linear({name})" for name in NAMES]
    lines += [f"    require params <= {draw.randint(8, 60)}"] if bounded else []
    return "\n".join(["net n() {", "    input x: f32[2]", *lines, "    output y = x", "}"]), rules


def kept(rule: Rule, taken: Mapping[str, int]) -> bool:
    """Whether a rule holds, or can hold, by itself, whatever is not taken yet."""
    one, other, relation, total = rule
    options = [(taken[name],) if name in taken else WIDTHS for name in (one, other)]
    return any(RELATIONS[relation](a + b, total) for a, b in product(*options))


def greedy(strengths: Strengths, rules: list[Rule]) -> dict[str, int] | None:
    """The strongest alternative of all choices first, each kept from what one rule by itself rules out."""
    taken: dict[str, int] = {}
    for name in sorted(NAMES, key=lambda name: -max(strengths[name])):
        ranked = sorted(WIDTHS, key=lambda width: -strengths[name][width - 1])
        fine = [width for width in ranked if all(kept(rule, taken | {name: width}) for rule in rules)]
        if not fine:
            return None
        taken[name] = fine[0]
    return taken


@pytest.mark.parametrize("bounded", [False, True])
def test_derivation_is_greedy_when_feasible_and_optimal_otherwise(bounded: bool) -> None:
    """By a greedy rule and a list of all architectures, both written again. Within bounds on costs it is the best."""
    ends = Counter[str]()
    for seed in range(60):
        draw = random.Random(seed)
        text, rules = entangled(draw, bounded)
        strengths: Strengths = {name: [draw.random() for _ in WIDTHS] for name in NAMES}
        try:
            space = archir.loads(text)
            every = [{str(path): one[path] for path in one} for one in space.enumerate()]
        except ArchError:  # no architecture satisfies them
            continue
        if not every:
            with pytest.raises(ArchError):
                derive(space, strengths)
            ends["none"] += 1
            continue
        wanted: Mapping[str, Any] | None = greedy(strengths, rules)
        ends["greedy" if wanted in every else "best"] += 1
        if bounded or wanted not in every:
            wanted = max(every, key=lambda one: prod(strengths[name][int(str(one[name])) - 1] for name in NAMES))
        assert dict(derive(space, strengths)) == wanted, text
    assert min(ends["greedy"], ends["best"]) > 5, ends


def test_cost_bounds_and_exclusions_hold_together() -> None:
    space = archir.loads("""
        net n() {
            input x: f32[8]
            x = x |> choose a { wide: linear(64) |> linear(8), none: identity, thin: linear(2) |> linear(8) }
            x = x |> choose b { wide: linear(64) |> linear(8), none: identity, thin: linear(2) |> linear(8) }
            require params <= 1200
            output y = x
        }""")
    strengths = {"a": [0.5, 0.4, 0.1], "b": [0.5, 0.4, 0.1]}
    assert sorted(map(str, derive(space, strengths).values())) == ["none", "wide"]
    assert sorted(map(str, derive(space, strengths, ["none"]).values())) == ["thin", "wide"]
    with pytest.raises(ArchError, match=r"A2101.*the excluded alternatives: no architecture has params <= 1200"):
        derive(space, strengths, ["none", "thin"])


def test_alternative_leading_only_to_excluded_ones_is_avoided() -> None:
    space = archir.loads("""
        net n() {
            input x: f32[4, 6, 6]
            output y = x |> choose way { deep: choose inner { none: zero, zeros: zero }, flat: relu }
        }
    """)
    assert dict(derive(space, {"way": [0.9, 0.1]}, ["none", "zeros"])) == {"way": "flat"}
