"""Comparison of network outputs: differences, non-finite values and random inputs."""

from __future__ import annotations

from math import inf, isinf, isnan, nan

import numpy as np
import pytest

from archir.backends.comparison import Difference, random_input
from archir.diagnostics.errors import ArchError
from archir.ir.types import TensorType


def test_union_keeps_largest_difference_of_outputs() -> None:
    first = Difference.of([1.0, 2.0], [1.0, 4.0])
    assert first == Difference(2, 0.5)
    assert first | Difference.of([30.0], [40.0]) == Difference(10, 0.5)
    assert Difference.of(np.array([True, False]), np.array([True, True])) == Difference(1, 1)
    assert Difference.of([], []) == Difference.of([0.0], [0.0]) == Difference()


@pytest.mark.parametrize(("found", "wanted"), [(nan, 1), (1, nan), (inf, 1), (1, inf), (inf, -inf), (nan, inf)])
def test_value_finite_on_one_side_is_never_close(found: float, wanted: float) -> None:
    """On either side of an output that is right: `max` keeps whichever comes first."""
    wrong = Difference.of([0.0, found], [0.0, wanted])
    for both in (wrong | Difference(), Difference() | wrong):
        assert isnan(both.relative)
        assert not both.relative <= 1e30


def test_same_non_finite_value_on_both_sides_agrees() -> None:
    """As long as there is something to compare: the rest says how far they are apart."""
    for odd in (nan, inf, -inf):
        assert Difference.of([2.0, odd], [4.0, odd]) == Difference(2, 0.5)
        assert isnan(Difference.of([odd, odd], [odd, odd]).relative)
        assert isnan((Difference.of([odd], [odd]) | Difference.of([1.0], [1.0])).relative)


def test_differing_shapes_are_not_broadcast() -> None:
    assert isinf(Difference.of(np.zeros((1, 3)), np.zeros((2, 3))).relative)


def test_random_inputs_have_the_type_of_the_input() -> None:
    rng = np.random.default_rng(0)
    assert random_input(rng, 2, TensorType((3,), "f16")).dtype == np.float16
    assert set(random_input(rng, 9, TensorType((9,), "i64")).flat) == {0, 1}
    with pytest.raises(ArchError, match=r"A0907.*bf16"):
        random_input(rng, 2, TensorType((3,), "bf16"))
