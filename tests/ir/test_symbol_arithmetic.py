"""Symbolic integers against the numbers that they stand for in every architecture."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from archir.diagrams.diagram import Choice, Diagram, make_diagram, value_at
from archir.diagrams.symbols import SymbolicInt, ValueNeededError, concrete_value, is_long_range

WIDTH, DEPTH = Choice("width", (2, 4, 6), 0), Choice("depth", (1, 3), 1)
ASSIGNMENTS = [{"width": i, "depth": j} for i, j in product(range(3), range(2))]


def listed(choice: Choice, *numbers: int) -> Diagram:
    found = make_diagram(choice, list(numbers))
    assert isinstance(found, Diagram)
    return found


A, B = listed(WIDTH, 2, 4, 6), listed(DEPTH, 1, 3)


def numbers(value: Any) -> list[int]:
    return [value_at(concrete_value(value), assignment) for assignment in ASSIGNMENTS]


SUMS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: 3 - a,
    lambda a, b: a - b * 2 - 5,
    lambda a, b: -(a * b) + a,
    lambda a, b: (a + b) * (a - b),
    lambda a, b: 2 * a // 2,
    lambda a, b: (4 * a + 8 * b + 12) // -4,
    lambda a, b: 6 * a * b % 3,
    lambda a, b: a - a,
    lambda a, b: a * 0 + 7,
]


@pytest.mark.parametrize("number", range(len(SUMS)))
def test_symbolic_arithmetic_equals_pointwise_arithmetic(number: int) -> None:
    wanted = [SUMS[number](a, b) for a, b in zip(numbers(A), numbers(B), strict=True)]
    found = SUMS[number](SymbolicInt.of(A), SymbolicInt.of(B))
    assert numbers(found) == wanted
    if isinstance(found, SymbolicInt):
        low, high = found.bounds
        assert low <= min(wanted)
        assert max(wanted) <= high
    else:
        assert set(wanted) == {found}


def test_canceled_symbols_become_integers() -> None:
    a = SymbolicInt.of(A)
    assert type(a - a) is int
    assert a.value() is A
    assert repr(a) == "..."
    assert hash(a + 1) == hash(1 + a)


@pytest.mark.parametrize(
    ("compare", "answer"),
    [
        (lambda a: a == 2, None),
        (lambda a: a == 7, False),
        (lambda a: a == 1, False),
        (lambda a: a == a + 0, True),
        (lambda a: a == "wide", False),
        (lambda a: a != 9, True),
        (lambda a: a < 2, False),
        (lambda a: a < 3, None),
        (lambda a: a < 7, True),
        (lambda a: a <= 1, False),
        (lambda a: a <= 2, None),
        (lambda a: a <= 6, True),
        (lambda a: a > 6, False),
        (lambda a: a > 5, None),
        (lambda a: a >= 2, True),
        (lambda a: a >= 7, False),
        (lambda a: bool(a), True),
        (lambda a: bool(a - 4), None),
    ],
)
def test_comparison_is_decided_by_bounds_or_needs_value(
    compare: Callable[[SymbolicInt], bool], answer: bool | None
) -> None:
    if answer is None:
        with pytest.raises(ValueNeededError) as asked:
            compare(SymbolicInt.of(A))
        assert asked.value.variables == {A}
        assert len({compare_to(compare, number) for number in (2, 4, 6)}) == 2
    else:
        assert compare(SymbolicInt.of(A)) is answer
        assert {compare_to(compare, number) for number in (2, 4, 6)} == {answer}


def compare_to(compare: Callable[[Any], bool], number: int) -> bool:
    return bool(compare(number))


@pytest.mark.parametrize(
    "rule",
    [
        lambda a: a // 4,
        lambda a: a // 0,
        lambda a: a // (a + 1),
        lambda a: a % 4,
        lambda a: a % 0,
        lambda a: a / 2,
        lambda a: 8 // a,
        lambda a: 8 % a,
        lambda a: a**2,
        lambda a: int(a),
        lambda a: range(10)[a],
        lambda a: round(a),
        lambda a: abs(a),
        lambda a: a == 2.5,
        lambda a: a == Fraction(5, 2),
        lambda a: a < 2.5,
    ],
)
def test_unsupported_operations_need_concrete_value(rule: Callable[[SymbolicInt], object]) -> None:
    with pytest.raises(ValueNeededError, match="needs the concrete value"):
        rule(SymbolicInt.of(A))


def test_symbols_reject_non_integers() -> None:
    a: Any = SymbolicInt.of(A)
    for wrong in (lambda: a + "1", lambda: a - 1.5, lambda: a * None):
        with pytest.raises(TypeError):
            wrong()


def test_long_ranges_are_integers_of_one_choice() -> None:
    many = Choice("many", tuple(range(65)), 2)
    assert is_long_range(listed(many, *range(65)))
    assert not is_long_range(A)
    assert not is_long_range(make_diagram(many, [*range(64), "x"]))  # type: ignore[arg-type]
    assert not is_long_range(make_diagram(many, [*range(64), listed(Choice("late", (0, 1), 3), 1, 2)]))  # type: ignore[arg-type]
