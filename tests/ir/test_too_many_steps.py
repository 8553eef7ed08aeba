"""Operations on conditions whose exact result would take too many steps."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from archir.diagrams import conditions
from archir.diagrams.conditions import (
    Restrictor,
    check_satisfiable,
    conjoin,
    conjoin_assumptions,
    disjoin,
    if_else,
    may_hold_together,
    project,
    restrict,
    switch,
)
from archir.diagrams.diagram import Choice, DiagramSizeError, Value, make_diagram, outcome_in, value_at

CHOICES = [Choice(f"c{i}", (0, 1), i) for i in range(6)]
ASSIGNMENTS = [
    dict(zip((choice.path for choice in CHOICES), row, strict=True)) for row in product((0, 1), repeat=len(CHOICES))
]


def parity(first: int) -> Value:
    """Whether an odd number of every second choice is made: a part for each of them."""
    found: Value = False
    for choice in CHOICES[first::2]:
        found = if_else(outcome_in(choice, [1]), if_else(found, False, True), found)
    return found


def total(first: int) -> Value:
    found: Any = 0
    for choice in CHOICES[first::2]:
        found = switch(choice, [found, shifted(found)])
    return found


def shifted(value: Any) -> Any:
    return (
        make_diagram(value.choice, [shifted(one) for one in value.branches])
        if hasattr(value, "branches")
        else value + 1
    )


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing takes more than three steps."""
    monkeypatch.setattr(conditions, "MAX_STEPS", 3)


EVEN, ODD = parity(0), parity(1)
NUMBER = total(1)


@pytest.mark.usefixtures("few")
def test_rejects_joins_that_exceed_size_limit() -> None:
    for work in (lambda: conjoin.__wrapped__(EVEN, ODD), lambda: disjoin.__wrapped__(EVEN, ODD)):
        with pytest.raises(DiagramSizeError):
            work()
    with pytest.raises(DiagramSizeError):
        if_else(EVEN, NUMBER, total(0))
    with pytest.raises(DiagramSizeError):
        switch(CHOICES[5], [EVEN, ODD])


def test_joins_within_default_limit_are_exact() -> None:
    conjoin.cache_clear()
    for assignment in ASSIGNMENTS:
        assert value_at(conjoin(EVEN, ODD), assignment) is (value_at(EVEN, assignment) and value_at(ODD, assignment))
        assert value_at(if_else(EVEN, NUMBER, 9), assignment) == (
            value_at(NUMBER, assignment) if value_at(EVEN, assignment) else 9
        )


@pytest.mark.usefixtures("few")
def test_restricted_value_is_exact_where_condition_holds() -> None:
    """Where a condition is too much, a weaker one is taken, or none."""
    found = restrict(NUMBER, EVEN)
    for assignment in ASSIGNMENTS:
        if value_at(EVEN, assignment):
            assert value_at(found, assignment) == value_at(NUMBER, assignment)


@pytest.mark.usefixtures("few")
def test_restrict_uses_projected_condition() -> None:
    """`c1` has its second outcome wherever the condition holds, which its hull still says."""
    under = conjoin(outcome_in(CHOICES[1], [1]), EVEN)
    assert project(under, frozenset([CHOICES[1]])) is outcome_in(CHOICES[1], [1])
    value = switch(CHOICES[1], [7, 8])
    assert restrict(value, under) == 8


def test_restrictor_stays_exact_when_cache_overflows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "MAX_CACHED", 0)
    restriction = Restrictor()
    for _ in range(2):
        found = restriction.restrict(NUMBER, EVEN)
        assert all(value_at(found, one) == value_at(NUMBER, one) for one in ASSIGNMENTS if value_at(EVEN, one))
    assert restriction.restrict(NUMBER, True) is NUMBER
    assert restriction.restrict(3, EVEN) == 3


@pytest.mark.usefixtures("few")
def test_may_hold_together_unless_disproved() -> None:
    assert may_hold_together(EVEN, if_else(EVEN, False, True), ODD, NUMBER_IS_ODD)


NUMBER_IS_ODD = if_else(ODD, True, False)


def test_conjoin_assumptions_adds_related_assumptions_only() -> None:
    zero, one = outcome_in(CHOICES[0], [0]), outcome_in(CHOICES[0], [1])
    far = outcome_in(CHOICES[3], [1])
    assert conjoin_assumptions(zero, [True, far]) is zero
    assert conjoin_assumptions(zero, [one, far]) is False
    assert conjoin_assumptions(zero, [False]) is False
    assert conjoin_assumptions(True, [zero, far]) is conjoin(zero, far)
    linked = disjoin(one, far)  # with the first, the third follows
    assert conjoin_assumptions(zero, [linked]) is conjoin(zero, far)
    assert conjoin_assumptions(zero, [linked, outcome_in(CHOICES[3], [0])]) is False


IF_EVEN_THEN_ODD = if_else(EVEN, ODD, True)


@pytest.mark.usefixtures("few")
def test_conjoin_assumptions_omits_too_large_assumptions() -> None:
    conjoin.cache_clear()
    assert conjoin_assumptions(EVEN, [IF_EVEN_THEN_ODD]) is EVEN


def test_satisfiability_check_is_limited_in_steps() -> None:
    other = if_else(EVEN, False, True)
    assert check_satisfiable([EVEN, True], 0) is True
    assert check_satisfiable([EVEN, other], 1_000_000) is False
    assert check_satisfiable([EVEN, other], 0) is None
    assert may_hold_together(EVEN, other) is (check_satisfiable([EVEN, other], 20_000) is not False)
