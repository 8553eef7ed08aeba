"""What lint rules claim, against architectures that are built and compared."""

from __future__ import annotations

import random
from typing import Any

import pytest

import archir
from archir.linting.alternatives import equivalent_groups
from archir.linting.subject import Subject
from archir.linting.unbalanced import _totals
from archir.passes.cost import cost
from tests.language.test_lint import LINT
from tests.published.test_spaces import SPACES, space_of
from tests.soak import with_soak

TIMES = [1, pytest.param(4, marks=pytest.mark.soak)]
"""Of how many architectures each claim is tried on."""
FLAT = ["full_attention", "autola", "nas_bench_201"]
"""Spaces in which choices do not depend on each other, nor say how often something is there: costs add up."""


def swapped(space: archir.Space, codes: tuple[int, ...], position: int, outcome: int) -> archir.Architecture:
    return space.decode([*codes[:position], outcome, *codes[position + 1 :]])


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("name", FLAT)
def test_costs_of_alternatives_add_up(name: str, times: int) -> None:
    space = space_of(name, **SPACES[name].small)
    totals = _totals(Subject(space.graph))
    assert all(total.minimum == total.maximum for total in totals.values())

    def of_alternatives(architecture: archir.Architecture) -> list[int]:
        parts = [totals[owner].minimum for owner in architecture.outcomes.items() if owner in totals]
        return [sum(part[i] for part in parts) for i in range(2)]

    fixed = set()
    for seed in range(8 * times):
        architecture = space.sample(seed)
        whole, parts = cost(space.specialize(architecture)), of_alternatives(architecture)
        fixed.add((whole.params - parts[0], whole.macs - parts[1]))
    assert len(fixed) == 1


def test_bounds_of_a_value_hold_for_every_architecture() -> None:
    text = """net values {
        input x: f32[8, 4, 4]
        width = choose width(4, 16)
        kernel = choose kernel(1, 3)
        output y = x |> conv(width, kernel)
    }"""
    space = archir.loads(text)
    totals = _totals(Subject(space.graph))
    for position, choice in enumerate(space.choices):
        for outcome in range(2):
            costs = [cost(space.specialize(a)).params for a in space.enumerate() if a.codes[position] == outcome]
            total = totals[choice.path, outcome]
            assert (total.minimum[0], total.maximum[0]) == (min(costs), max(costs))


def test_nested_choice_gives_cost_range_of_alternative() -> None:
    text = """net nested {
        input x: f32[8, 4, 4]
        output y = x |> choose op { pool: max_pool(3), deep: conv(8) |> choose inner { skip: identity, conv: conv(8) } }
    }"""
    total = _totals(Subject(archir.loads(text).graph))["op", 1]
    assert (total.minimum[0], total.maximum[0]) == (8 * 8 * 9, 2 * 8 * 8 * 9)


SPACES_OF_PROGRAMS = [
    *(str(path) for path in sorted(LINT.glob("*.arch")) if path.read_text("utf-8").count("\nnet ") < 2),
    *SPACES,
]


@pytest.mark.parametrize("name", SPACES_OF_PROGRAMS, ids=lambda name: str(name).rpartition("/")[2])
@pytest.mark.parametrize("times", TIMES)
def test_equivalent_alternatives_have_equal_canonical_forms(name: str, times: int) -> None:
    small: dict[str, Any] = SPACES[name].small if name in SPACES else {}
    space = space_of(name, **small) if name in SPACES else archir.load(name)
    subject, rng = Subject(space.graph), random.Random(0)
    for position, choice in enumerate(space.choices):
        for group in equivalent_groups(subject, choice):
            drawn = [a.codes for a in (space.sample(rng) for _ in range(10 * times)) if a.codes[position] >= 0]
            assert drawn
            for codes in drawn:
                assert len({space.canonical(swapped(space, codes, position, outcome)) for outcome in group}) == 1


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize(
    "name", with_soak(["full_attention", "nas_bench_201", "autola", "darts"], ["nas_bench_201", "darts"])
)
def test_non_equivalent_alternatives_differ_in_some_architecture(name: str, times: int) -> None:
    space = space_of(name, **SPACES[name].small)
    subject, rng = Subject(space.graph), random.Random(0)
    drawn = [space.sample(rng).codes for _ in range(5 * times)]
    for position, choice in enumerate(space.choices[: 4 * times]):
        if choice.k is None:
            assert equivalent_groups(subject, choice) == []
            active = [codes for codes in drawn if codes[position] >= 0]
            for one in range(1, choice.outcome_count):
                made = [[space.canonical(swapped(space, c, position, o)) for o in (0, one)] for c in active]
                assert any(first != second for first, second in made)
