"""What is said of values and conditions where telling it exactly takes too many steps."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from archir.diagrams import conditions
from archir.diagrams.cases import Choice, EntangledError, Value, at, case, when
from archir.diagrams.conditions import (
    Restriction,
    both,
    compatible,
    either,
    hull,
    if_else,
    met,
    narrowed,
    restrict,
    switch,
)

CHOICES = [Choice(f"c{i}", (0, 1), i) for i in range(6)]
ASSIGNMENTS = [
    dict(zip((choice.path for choice in CHOICES), row, strict=True)) for row in product((0, 1), repeat=len(CHOICES))
]


def parity(first: int) -> Value:
    """Whether an odd number of every second choice is made: a part for each of them."""
    found: Value = False
    for choice in CHOICES[first::2]:
        found = if_else(when(choice, [1]), if_else(found, False, True), found)
    return found


def total(first: int) -> Value:
    found: Any = 0
    for choice in CHOICES[first::2]:
        found = switch(choice, [found, shifted(found)])
    return found


def shifted(value: Any) -> Any:
    return case(value.choice, [shifted(one) for one in value.branches]) if hasattr(value, "branches") else value + 1


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing takes more than three steps."""
    monkeypatch.setattr(conditions, "MOST_STEPS", 3)


EVEN, ODD = parity(0), parity(1)
NUMBER = total(1)


@pytest.mark.usefixtures("few")
def test_what_cannot_be_joined_is_refused() -> None:
    for work in (lambda: both.__wrapped__(EVEN, ODD), lambda: either.__wrapped__(EVEN, ODD)):
        with pytest.raises(EntangledError):
            work()
    with pytest.raises(EntangledError):
        if_else(EVEN, NUMBER, total(0))
    with pytest.raises(EntangledError):
        switch(CHOICES[5], [EVEN, ODD])


def test_what_is_not_joined_in_time_is_joined_with_more() -> None:
    both.cache_clear()
    for assignment in ASSIGNMENTS:
        assert at(both(EVEN, ODD), assignment) is (at(EVEN, assignment) and at(ODD, assignment))
        assert at(if_else(EVEN, NUMBER, 9), assignment) == (at(NUMBER, assignment) if at(EVEN, assignment) else 9)


@pytest.mark.usefixtures("few")
def test_restricted_values_are_right_where_they_are_asked_for() -> None:
    """Where a condition is too much, a weaker one is taken, or none."""
    found = restrict(NUMBER, EVEN)
    for assignment in ASSIGNMENTS:
        if at(EVEN, assignment):
            assert at(found, assignment) == at(NUMBER, assignment)


@pytest.mark.usefixtures("few")
def test_what_a_weaker_condition_says_is_used() -> None:
    """`c1` has its second outcome wherever the condition holds, which its hull still says."""
    under = both(when(CHOICES[1], [1]), EVEN)
    assert hull(under, frozenset([CHOICES[1]])) is when(CHOICES[1], [1])
    value = switch(CHOICES[1], [7, 8])
    assert restrict(value, under) == 8


def test_what_is_known_of_parts_is_forgotten_when_it_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "MOST_KNOWN", 0)
    restriction = Restriction()
    for _ in range(2):
        found = restriction.of(NUMBER, EVEN)
        assert all(at(found, one) == at(NUMBER, one) for one in ASSIGNMENTS if at(EVEN, one))
    assert restriction.of(NUMBER, True) is NUMBER
    assert restriction.of(3, EVEN) == 3


@pytest.mark.usefixtures("few")
def test_conditions_hold_together_unless_it_is_proved_that_they_do_not() -> None:
    assert compatible(EVEN, if_else(EVEN, False, True), ODD, NUMBER_IS_ODD)


NUMBER_IS_ODD = if_else(ODD, True, False)


def test_narrowed_is_all_that_has_to_do_with_a_condition() -> None:
    zero, one = when(CHOICES[0], [0]), when(CHOICES[0], [1])
    far = when(CHOICES[3], [1])
    assert narrowed(zero, [True, far]) is zero
    assert narrowed(zero, [one, far]) is False
    assert narrowed(zero, [False]) is False
    assert narrowed(True, [zero, far]) is both(zero, far)
    linked = either(one, far)  # with the first, the third follows
    assert narrowed(zero, [linked]) is both(zero, far)
    assert narrowed(zero, [linked, when(CHOICES[3], [0])]) is False


IF_EVEN_THEN_ODD = if_else(EVEN, ODD, True)


@pytest.mark.usefixtures("few")
def test_narrowed_leaves_out_what_is_too_much() -> None:
    both.cache_clear()
    assert narrowed(EVEN, [IF_EVEN_THEN_ODD]) is EVEN


def test_whether_conditions_are_met_is_told_within_some_steps() -> None:
    other = if_else(EVEN, False, True)
    assert met([EVEN, True], 0) is True
    assert met([EVEN, other], 1_000_000) is False
    assert met([EVEN, other], 0) is None
    assert compatible(EVEN, other) is (met([EVEN, other], 20_000) is not False)
