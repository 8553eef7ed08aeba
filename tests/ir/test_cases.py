"""Decision diagrams obey their laws under every assignment of a few choices."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archir.diagnostics.errors import RuleError, join_names
from archir.diagnostics.work import WorkError
from archir.diagrams.conditions import conjoin, describe_condition, disjoin, if_else, negate, restrict
from archir.diagrams.diagram import (
    Choice,
    Diagram,
    Value,
    diagram_size,
    fix_choice,
    fold,
    leaves,
    make_diagram,
    outcome_in,
    smallest_assignment,
    support,
    value_at,
)
from archir.diagrams.lifting import CombinationError, lift
from archir.ir.typing import NodeError
from archir.language.elaboration.values import Items

CHOICES = [Choice(f"c{i}", tuple(range(n)), i) for i, n in enumerate([2, 3, 2, 3])]
ASSIGNMENTS = [
    {choice.path: outcome for choice, outcome in zip(CHOICES, outcomes, strict=True)}
    for outcomes in product(*(range(choice.outcome_count) for choice in CHOICES))
]


def table(value: Value) -> list[Value]:
    return [value_at(value, assignment) for assignment in ASSIGNMENTS]


def made(values: list[Any]) -> Value:
    """The diagram of a table, by Shannon expansion."""

    def walk(depth: int, values: list[Any]) -> Value:
        if depth == len(CHOICES):
            return values[0]
        choice = CHOICES[depth]
        size = len(values) // choice.outcome_count
        return make_diagram(
            choice, [walk(depth + 1, values[i * size : (i + 1) * size]) for i in range(choice.outcome_count)]
        )

    return walk(0, values)


numbers = st.lists(st.integers(0, 2), min_size=len(ASSIGNMENTS), max_size=len(ASSIGNMENTS)).map(made)
conditions = st.lists(st.booleans(), min_size=len(ASSIGNMENTS), max_size=len(ASSIGNMENTS)).map(made)


@given(numbers, numbers)
def test_lift_is_pointwise(a: Value, b: Value) -> None:
    assert table(lift(lambda x, y: 10 * x + y, a, b)) == [10 * x + y for x, y in zip(table(a), table(b), strict=True)]


@given(numbers, conditions)
def test_lift_calls_rule_on_reachable_values_only(a: Value, care: Value) -> None:
    seen: set[int] = set()

    def rule(x: int) -> int:
        seen.add(x)
        return x + 1

    result = lift(rule, a, under=care)
    reachable = [x for x, here in zip(table(a), table(care), strict=True) if here]
    assert seen == set(reachable)
    if care is not False:
        assert [y for y, here in zip(table(result), table(care), strict=True) if here] == [x + 1 for x in reachable]


@given(numbers, conditions)
def test_lift_reports_a_smallest_failing_combination(a: Value, care: Value) -> None:
    def rule(x: int) -> int:
        if x == 2:
            raise RuleError("two")
        return x

    failing = [i for i, (x, here) in enumerate(zip(table(a), table(care), strict=True)) if x == 2 and here]
    if not failing:
        lift(rule, a, under=care)
        return
    with pytest.raises(CombinationError) as caught:
        lift(rule, a, under=care)
    found = {choice.path: outcome for choice, outcome in caught.value.assignment.items()}
    matching = [i for i, assignment in enumerate(ASSIGNMENTS) if found.items() <= assignment.items()]
    assert set(matching) <= set(failing)


def test_diagram_errors_survive_pickling() -> None:
    def rule(x: int) -> int:
        raise RuleError("two", "a hint")

    with pytest.raises(CombinationError) as caught:
        lift(rule, make_diagram(CHOICES[0], [1, 2]), under=outcome_in(CHOICES[1], [0]))
    combination, work = caught.value, pickle.loads(pickle.dumps(WorkError()))
    found = pickle.loads(pickle.dumps(NodeError(3, combination)))
    assert (type(found), type(found.error), type(work)) == (NodeError, CombinationError, WorkError)
    assert (found.message, found.hint, found.combination) == ("%3: two", "a hint", combination.combination)
    assert found.notes == (combination.note(),)
    assert found.error.diagnostics[0].notes == combination.diagnostics[0].notes


@given(numbers, numbers, conditions)
def test_lifted_rules_may_return_diagrams(a: Value, b: Value, c: Value) -> None:
    result = lift(lambda x: b if x else c, a)
    assert table(result) == [y if x else z for x, y, z in zip(table(a), table(b), table(c), strict=True)]


@given(conditions, conditions)
def test_conjoin_disjoin_and_negate_are_pointwise(a: Value, b: Value) -> None:
    pairs = list(zip(table(a), table(b), strict=True))
    assert table(conjoin(a, b)) == [x and y for x, y in pairs]
    assert table(disjoin(a, b)) == [x or y for x, y in pairs]
    assert table(negate(a)) == [not x for x, _ in pairs]


@given(conditions, numbers, numbers)
def test_if_else_is_pointwise(c: Value, a: Value, b: Value) -> None:
    assert table(if_else(c, a, b)) == [x if h else y for h, x, y in zip(table(c), table(a), table(b), strict=True)]


@given(numbers, conditions)
def test_restrict_keeps_values_under_condition(a: Value, care: Value) -> None:
    if care is False:
        return
    kept = table(restrict(a, care))
    assert all(x == y for x, y, here in zip(kept, table(a), table(care), strict=True) if here)


@given(numbers, st.sampled_from(CHOICES), st.integers(0, 1))
def test_fix_choice_equals_assigning_the_outcome(a: Value, choice: Choice, outcome: int) -> None:
    fixed = fix_choice(a, choice, outcome)
    assert choice not in support(fixed)
    assert table(fixed) == [value_at(a, {**assignment, choice.path: outcome}) for assignment in ASSIGNMENTS]


@given(numbers)
def test_fold_rebuilds_a_value_and_visits_each_diagram_once(a: Value) -> None:
    visited: list[Diagram] = []

    def rebuild(diagram: Diagram, branches: list[Value]) -> Value:
        visited.append(diagram)
        return make_diagram(diagram.choice, branches)

    assert fold(a, lambda leaf: leaf, rebuild) is a
    assert len(visited) == len(set(visited)) == diagram_size(a)


@given(numbers)
def test_equal_diagrams_are_one_object(a: Value) -> None:
    again = made(table(a))
    assert again is a or again == a
    assert set(leaves(a)) == set(table(a))
    assert len(support(a)) == len(
        [c for c in CHOICES if any(fix_choice(a, c, 0) is not fix_choice(a, c, o) for o in range(c.outcome_count))]
    )


@given(numbers)
def test_smallest_assignment_implies_the_wanted_value(a: Value) -> None:
    found = smallest_assignment(a, lambda leaf: leaf == 1)
    assert (found is None) == (1 not in table(a))
    if found is not None:
        fitting = [
            x for x, s in zip(table(a), ASSIGNMENTS, strict=True) if all(s[c.path] == o for c, o in found.items())
        ]
        assert set(fitting) == {1}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0, False),
        (0.0, -0.0),
        (Items([1]), Items([True])),
        (Items([Items([1])]), Items([Items([1.0])])),
    ],
)
def test_equal_values_of_different_types_stay_distinct(one: Value, other: Value) -> None:
    value = make_diagram(CHOICES[0], [one, other])
    assert isinstance(value, Diagram)
    assert [type(leaf) for leaf in value.branches] == [type(one), type(other)]


def test_subset_choice_outcomes_have_labels_and_conditions() -> None:
    choice = Choice("s", ("a", "b", "c"), 9, k=2)
    assert choice.outcome_count == 3
    assert [choice.label(i) for i in range(3)] == [["a", "b"], ["a", "c"], ["b", "c"]]
    assert choice.outcome(["c", "a"]) == 1
    assert choice.outcome(["a", "a"]) is None
    assert value_at(outcome_in(choice, [0, 1]), {"s": 2}) is False


def plain(draw: Callable[..., Any]) -> Value:
    """A condition as programs have them: few choices, joined by `and` and `or`."""
    found: Value = True
    for _ in range(draw(st.integers(0, 3))):
        choice = draw(st.sampled_from(CHOICES))
        one = outcome_in(choice, sorted(draw(st.sets(st.integers(0, choice.outcome_count - 1)))))
        found = draw(st.sampled_from([conjoin, disjoin]))(found, one) if found is not True else one
    return found


@given(st.composite(plain)() | conditions)
def test_described_condition_holds_exactly_when_true(a: Value) -> None:
    text = describe_condition(a)
    if text.startswith("depends on "):
        assert text == f"depends on {join_names(support(a))}"
        return
    for outcomes, holds in zip(ASSIGNMENTS, table(a), strict=True):
        assert any(all(said(part, outcomes) for part in way.split(", and ")) for way in text.split("; or ")) == holds


def said(part: str, outcomes: Mapping[str, int]) -> bool:
    """Whether words such as `c1 is 0 or 2`, nothing or `never` hold."""
    path, _, labels = part.partition(" is ")
    return str(outcomes[path]) in labels.split(" or ") if labels else part == ""


def test_long_conditions_are_described_by_their_choices() -> None:
    wide = Choice("wide", tuple(range(33)), 0)
    deep = [Choice(f"d{i}", (0, 1), 1 + i) for i in range(5)]
    assert describe_condition(outcome_in(wide, [0])) == "depends on `wide`"
    assert (
        describe_condition(reduce(conjoin, (outcome_in(one, [1]) for one in deep[:4])))
        == "d0 is 1, and d1 is 1, and d2 is 1, and d3 is 1"
    )
    assert describe_condition(reduce(conjoin, (outcome_in(one, [1]) for one in deep))).startswith(
        "depends on `d0`, `d1`"
    )


def test_too_many_choices_are_refused() -> None:
    halves = [make_diagram(Choice(f"x{i}", (0, 1), 100 + i), [0, Fraction(1, 2)]) for i in range(300)]
    with pytest.raises(RuleError, match=r"too many choices|more than 128 choices"):
        reduce(lambda total, half: lift(lambda a, b: a * 3 + b, total, half), halves, 0)
