"""Fronts, ranks and hypervolumes, each against its definition."""

from __future__ import annotations

from itertools import product
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archir.search.pareto import Values, crowding_distances, front_indices, front_ranks, hypervolume

Points = list[tuple[float, ...]]


@st.composite
def points(draw: st.DrawFn, most: int = 25) -> Points:
    """Points of one to five objectives on a grid, so that many are equal in some of them."""
    objectives, side = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    return draw(st.lists(st.tuples(*[st.integers(0, side).map(float)] * objectives), min_size=1, max_size=most))


def dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


@given(points())
def test_fronts_and_ranks_equal_definition(given: Points) -> None:
    free = [p for p in given if not any(dominates(q, p) for q in given)]
    assert front_indices(given) == [given.index(p) for p in sorted(set(free))]
    left, rank = set(given), dict(zip(given, front_ranks(given), strict=True))
    assert [rank[p] for p in given] == front_ranks(given)
    for level in range(max(rank.values()) + 1):
        first = {p for p in left if not any(dominates(q, p) for q in left)}
        assert first == {p for p in given if rank[p] == level}
        left -= first


@given(points(most=8))
@settings(max_examples=50)
def test_hypervolume_is_the_number_of_unit_cells(given: Points) -> None:
    reference = (4.0,) * len(given[0])
    cells = product(range(4), repeat=len(reference))
    dominated = sum(any(all(x <= c for x, c in zip(p, cell, strict=True)) for p in given) for cell in cells)
    assert hypervolume(given, reference) == dominated


def test_hypervolume_equals_known_values() -> None:
    assert hypervolume([(0.0, 2.0), (1.0, 1.0), (2.0, 2.0)], (3.0, 3.0)) == 3 + 2
    assert hypervolume([], (1.0,)) == 0
    assert hypervolume([(3.0, 0.0)], (3.0, 3.0)) == 0  # nothing of it is within the reference


@pytest.mark.parametrize("objectives", [1, 2, 3, 4])
def test_front_of_no_points_is_empty_and_of_equal_points_the_first(objectives: int) -> None:
    nothing: Values = []
    assert (front_indices(nothing), front_ranks(nothing)) == ([], [])
    same = [(1.0,) * objectives] * 3
    assert (front_indices(same), front_ranks(same)) == ([0], [0, 0, 0])


def test_point_with_infinite_value_may_be_on_front() -> None:
    assert front_ranks([(inf, 1.0), (inf, 0.0), (1.0, inf)]) == [1, 0, 0]


def test_a_front_of_many_is_found_in_one_pass() -> None:
    """Each of them is on the front, so that whoever compares all pairs compares 10^10."""
    many = 100_000
    stairs = [(float(i), float(many - i), float(i % 7)) for i in range(many)]
    assert front_indices(stairs) == [*range(many)]
    assert set(front_ranks(stairs)) == {0}


def test_crowding_is_the_side_length_of_the_cuboid() -> None:
    assert crowding_distances([(0.0, 4.0), (1.0, 2.0), (4.0, 0.0)]) == [inf, 2.0, inf]
    assert crowding_distances([(0.0, 4.0), (1.0, 3.0), (2.0, 2.0), (4.0, 0.0)])[1:3] == [0.5 + 0.5, 0.75 + 0.75]
    assert crowding_distances([(1.0, 1.0)]) == [inf]
