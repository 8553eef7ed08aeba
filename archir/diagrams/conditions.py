"""Conditions: diagrams with boolean leaves, and the operations on them.

These are conjunction, disjunction, projection, satisfiability, and simplification of a value under a condition.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Sequence
from functools import lru_cache, reduce
from itertools import starmap

from archir.diagnostics.errors import RuleError, join_names
from archir.diagnostics.work import spend
from archir.diagrams.diagram import (
    MAX_CACHED,
    MAX_STEPS,
    UNREACHABLE,
    Choice,
    Diagram,
    DiagramSizeError,
    Value,
    choice_order,
    cofactor,
    cofactors,
    fill_unreachable,
    fold,
    leaves,
    make_diagram,
    same,
    support,
    tuple_key,
    varies,
)


def conjoin_assumptions(condition: Value, assumptions: Sequence[Value]) -> Value:
    """Return the conjunction of a condition with the assumptions that share choices with it.

    If the condition is True, all assumptions are conjoined. The result is False if the condition contradicts the
    assumptions. Assumptions that would make the diagram exceed its size limit are left out, which makes the result
    weaker.
    """
    left = [assumption for assumption in assumptions if assumption is not True]
    try:
        if condition is True:
            return reduce(conjoin, left, True)
        while left and condition is not False:
            choices = set(support(condition))
            related = [
                assumption for assumption in left if assumption is False or not choices.isdisjoint(support(assumption))
            ]
            if not related:
                break
            if any(conjoin(condition, assumption) is False for assumption in related):
                return False
            condition = reduce(conjoin, related, condition)
            left = [assumption for assumption in left if not any(assumption is used for used in related)]
    except RuleError:
        pass
    return condition


def restrict(value: Value, condition: Value) -> Value:
    """Return a smaller diagram that equals `value` where the condition holds; elsewhere its value is arbitrary.

    If the computation exceeds the size limit, `value` is returned unchanged. (The restrict operator of Coudert and
    Madre.)
    """
    return value if type(value) is not Diagram or condition is True else Restrictor().restrict(value, condition)


class Restrictor:
    """Applies `restrict` to many values, and caches the results for their subdiagrams."""

    def __init__(self) -> None:
        self._cache: dict[tuple[Diagram, Diagram], Value] = {}
        self._max_cached = 0

    def restrict(self, value: Value, condition: Value) -> Value:
        """Return `value` simplified where `condition` holds; see the function `restrict`."""
        if type(value) is not Diagram or condition is True:
            return value
        if len(self._cache) > MAX_CACHED:
            self._cache.clear()
        self._max_cached = len(self._cache) + MAX_STEPS
        try:
            return self._walk(value, condition)
        except DiagramSizeError:
            weaker = project(condition, frozenset(support(value)))
        try:
            return value if weaker is condition else self._walk(value, weaker)
        except DiagramSizeError:
            return value

    def _walk(self, value: Value, condition: Value) -> Value:
        if condition is False:
            return UNREACHABLE
        if condition is True or type(value) is not Diagram:
            return value
        if value is condition:
            return True
        pair = value, condition
        cache = self._cache
        if pair in cache:
            return cache[pair]
        if len(cache) > self._max_cached:
            raise DiagramSizeError
        spend(2)
        walk, choice, condition_choice = self._walk, value.choice, condition.choice
        if choice is condition_choice:
            branches = [
                walk(branch, subcondition)
                for branch, subcondition in zip(value.branches, condition.branches, strict=True)
            ]
        elif choice.order < condition_choice.order:
            branches = [walk(branch, condition) for branch in value.branches]
        else:
            choice = condition_choice
            branches = [
                UNREACHABLE if subcondition is False else walk(value, subcondition)
                for subcondition in condition.branches
            ]
        result = cache[pair] = fill_unreachable(choice, branches)
        return result


def possible_outcomes(choice: Choice, condition: Value) -> set[int]:
    """Return the outcomes that a choice can have when a condition holds."""
    possible: set[int] = set()
    seen: set[int] = set()
    stack = [condition]
    while stack and len(possible) < choice.outcome_count:
        value = stack.pop()
        if value is False or id(value) in seen:
            continue
        if type(value) is not Diagram or value.choice.order > choice.order:
            possible.update(range(choice.outcome_count))
        elif value.choice is choice:
            possible.update(i for i, branch in enumerate(value.branches) if branch is not False)
        else:
            seen.add(id(value))
            stack.extend(value.branches)
    return possible


@lru_cache(MAX_CACHED)
def conjoin(left: Value, right: Value) -> Value:
    """Return the conjunction of two conditions."""
    return _combine(left, right, False)


@lru_cache(MAX_CACHED)
def disjoin(left: Value, right: Value) -> Value:
    """Return the disjunction of two conditions."""
    return _combine(left, right, True)


def _combine(left: Value, right: Value, absorbing: bool) -> Value:
    """Return the conjunction (`absorbing` is False) or the disjunction (`absorbing` is True) of two conditions.

    `absorbing` is the absorbing element: an operand with this value decides the result alone.
    """
    memo: dict[tuple[Diagram, Diagram], Value] = {}

    def walk(left: Value, right: Value) -> Value:
        if left is absorbing or right is absorbing:
            return absorbing
        if type(left) is not Diagram:
            return right
        if type(right) is not Diagram or left is right:
            return left
        operands = left, right
        if operands in memo:
            return memo[operands]
        if len(memo) > MAX_STEPS:
            raise DiagramSizeError
        choice, right_choice = left.choice, right.choice
        left_branches, right_branches = left.branches, right.branches
        if choice is right_choice:
            branches = [walk(*pair) for pair in zip(left_branches, right_branches, strict=True)]
        elif choice.order < right_choice.order:
            branches = [
                walk(branch, right) if type(branch) is Diagram else branch if branch is absorbing else right
                for branch in left_branches
            ]
        else:
            choice = right_choice
            branches = [
                walk(left, branch) if type(branch) is Diagram else branch if branch is absorbing else left
                for branch in right_branches
            ]
        result = memo[operands] = make_diagram(choice, branches)
        return result

    return walk(left, right)


@lru_cache(MAX_CACHED)
def negate(condition: Value) -> Value:
    """Return the negation of a condition."""
    return if_else(condition, False, True)


def if_else(condition: Value, if_true: Value, if_false: Value) -> Value:
    """Return the value that is `if_true` where the condition holds and `if_false` elsewhere (the ite operator)."""
    if condition is True or same(if_true, if_false):
        return if_true
    if condition is False:
        return if_false
    memo: dict[Hashable, Value] = {}

    def walk(condition: Value, if_true: Value, if_false: Value) -> Value:
        if condition is True or if_true is if_false:
            return if_true
        if condition is False:
            return if_false
        values = condition, if_true, if_false
        state = tuple_key(values)
        if state not in memo:
            if len(memo) > MAX_STEPS:
                raise DiagramSizeError
            spend(2)
            top = min([value.choice for value in values if type(value) is Diagram], key=choice_order)
            memo[state] = make_diagram(top, starmap(walk, cofactors(values, top)))
        return memo[state]

    return walk(condition, if_true, if_false)


def switch(choice: Choice, values: Sequence[Value]) -> Value:
    """Return the value that is `values[i]` when the choice has outcome i.

    Each `values[i]` may depend on any choices.
    """
    memo: dict[Hashable, Value] = {}

    def walk(values: tuple[Value, ...]) -> Value:
        top = choice
        for value in values:
            if type(value) is Diagram and value.choice.order < top.order:
                top = value.choice
        if top is choice:
            return make_diagram(choice, [cofactor(value, choice, i) for i, value in enumerate(values)])
        state = tuple_key(values)
        if state not in memo:
            if len(memo) > MAX_STEPS:
                raise DiagramSizeError
            spend(len(values) / 2)
            memo[state] = make_diagram(top, map(walk, cofactors(values, top)))
        return memo[state]

    return walk(tuple(values))


def may_hold_together(*conditions: Value) -> bool:
    """Return whether some combination of outcomes satisfies all conditions.

    Also returns True if deciding this would take too many steps.
    """
    return check_satisfiable(conditions, MAX_STEPS) is not False


def check_satisfiable(conditions: Iterable[Value], max_steps: int) -> bool | None:
    """Return whether some combination of outcomes satisfies all conditions.

    Returns None if this is undecided after `max_steps` steps.
    """
    refuted: set[tuple[Value, ...]] = set()

    def walk(remaining: tuple[Value, ...]) -> bool | None:
        if not remaining:
            return True
        if len(refuted) > max_steps:
            return None
        if remaining in refuted:
            return False
        spend(len(remaining))
        top = min([condition.choice for condition in remaining], key=choice_order)
        for outcome in range(top.outcome_count):
            cofactors = dict.fromkeys([cofactor(condition, top, outcome) for condition in remaining])
            if False not in cofactors:
                result = walk(tuple([condition for condition in cofactors if condition is not True]))
                if result is not False:
                    return result
        refuted.add(remaining)
        return False

    distinct = dict.fromkeys(conditions)
    if False in distinct:
        return False
    return walk(tuple([condition for condition in distinct if condition is not True]))


def project(condition: Value, choices: Container[Choice]) -> Value:
    """Project a condition onto `choices` by existential quantification of all other choices.

    The result is the strongest condition on `choices` that holds wherever `condition` holds.
    """

    def project_node(diagram: Diagram, branches: list[Value]) -> Value:
        return make_diagram(diagram.choice, branches) if diagram.choice in choices else reduce(disjoin, branches, False)

    return fold(condition, lambda leaf: leaf, project_node)


def is_condition(value: Value) -> bool:
    """Return whether every leaf of a value is a boolean."""
    return type(value) is bool or (varies(value) and all(type(leaf) is bool for leaf in leaves(value)))


MAX_DESCRIBED = 4
"""Maximum nesting of choices in a condition's description, and number of alternatives (`; or`) per level."""
MAX_LISTED_OUTCOMES = 32
"""Maximum number of outcomes of one choice that the description of a condition lists."""


def describe_condition(condition: Value) -> str:
    """Describe a condition in words, such as `depth is 2 or 3, and op[0] is conv`.

    The text is empty if the condition always holds. If a full description would be too long, the text only names the
    choices that the condition depends on.
    """
    if type(condition) is not Diagram:
        return "" if condition else "never"
    alternatives = _describe_branches(condition, MAX_DESCRIBED)
    return "; or ".join(alternatives) if alternatives else f"depends on {join_names(support(condition))}"


def _describe_branches(condition: Diagram, levels: int) -> list[str]:
    """Return a description of each combination of outcomes for which a condition holds; [] if there are too many."""
    labels: dict[Value, list[object]] = {}
    for outcome, branch in enumerate(condition.branches[: MAX_LISTED_OUTCOMES + 1]):
        if branch is not False:
            labels.setdefault(branch, []).append(condition.choice.label(outcome))
    if len(condition.branches) > MAX_LISTED_OUTCOMES or len(labels) > MAX_DESCRIBED or not levels:
        return []
    descriptions = []
    for branch, outcome_labels in labels.items():
        here = f"{condition.choice.path} is {' or '.join(map(str, outcome_labels))}"
        further = (
            [""]
            if branch is True
            else [f", and {description}" for description in _describe_branches(branch, levels - 1)]
        )
        if not further:
            return []
        descriptions += [here + description for description in further]
    return descriptions if len(descriptions) <= MAX_DESCRIBED else []
