"""Conditions: what is true of some outcomes of choices; and values where conditions hold."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Sequence
from functools import lru_cache, reduce
from itertools import starmap

from archir.diagnostics.errors import RuleError, listed
from archir.diagnostics.work import spend
from archir.diagrams.cases import (
    MOST_KNOWN,
    MOST_STEPS,
    NEVER,
    Case,
    Choice,
    EntangledError,
    Value,
    branch_of,
    branches_of,
    case,
    keys,
    leaves,
    order_of,
    reachable,
    same,
    support,
    varies,
)


def narrowed(condition: Value, given: Sequence[Value]) -> Value:
    """A condition and all that is given and has to do with it: False if together they never hold.

    What is given is left out once this gets too large to be told.
    """
    left = [one for one in given if one is not True]
    try:
        if condition is True:
            return reduce(both, left, True)
        while left and condition is not False:
            about = set(support(condition))
            near = [one for one in left if one is False or not about.isdisjoint(support(one))]
            if not near:
                break
            if any(both(condition, one) is False for one in near):
                return False
            condition = reduce(both, near, condition)
            left = [one for one in left if not any(one is other for other in near)]
    except RuleError:
        pass
    return condition


def restrict(value: Value, under: Value) -> Value:
    """The value where `under` holds; elsewhere whatever makes it small. Where that is too much work it stays."""
    return value if type(value) is not Case or under is True else Restriction().of(value, under)


class Restriction:
    """Values where conditions hold; what is known of parts of values and conditions is not worked out again."""

    def __init__(self) -> None:
        self._known: dict[tuple[Case, Case], Value] = {}
        self._most = 0

    def of(self, value: Value, under: Value) -> Value:
        """See `restrict`."""
        if type(value) is not Case or under is True:
            return value
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
        self._most = len(self._known) + MOST_STEPS
        try:
            return self._walk(value, under)
        except EntangledError:
            weaker = hull(under, frozenset(support(value)))
        try:
            return value if weaker is under else self._walk(value, weaker)
        except EntangledError:
            return value

    def _walk(self, value: Value, care: Value) -> Value:
        if care is False:
            return NEVER
        if care is True or type(value) is not Case:
            return value
        if value is care:
            return True
        name = value, care
        known = self._known
        if name in known:
            return known[name]
        if len(known) > self._most:
            raise EntangledError
        spend(2)
        walk, choice, other = self._walk, value.choice, care.choice
        if choice is other:
            branches = [walk(one, under) for one, under in zip(value.branches, care.branches, strict=True)]
        elif choice.order < other.order:
            branches = [walk(one, care) for one in value.branches]
        else:
            choice = other
            branches = [NEVER if under is False else walk(value, under) for under in care.branches]
        found = known[name] = reachable(choice, branches)
        return found


def outcomes(choice: Choice, under: Value) -> set[int]:
    """The outcomes that a choice may have where a condition holds."""
    found: set[int] = set()
    seen: set[int] = set()
    stack = [under]
    while stack and len(found) < choice.outcomes:
        value = stack.pop()
        if value is False or id(value) in seen:
            continue
        if type(value) is not Case or value.choice.order > choice.order:
            found.update(range(choice.outcomes))
        elif value.choice is choice:
            found.update(i for i, branch in enumerate(value.branches) if branch is not False)
        else:
            seen.add(id(value))
            stack.extend(value.branches)
    return found


@lru_cache(MOST_KNOWN)
def both(one: Value, other: Value) -> Value:
    """Conjunction of conditions."""
    return _joined(one, other, False)


@lru_cache(MOST_KNOWN)
def either(one: Value, other: Value) -> Value:
    """Disjunction of conditions."""
    return _joined(one, other, True)


def _joined(one: Value, other: Value, settles: bool) -> Value:
    """The conjunction of two conditions, which False settles, or their disjunction, which True does."""
    memo: dict[tuple[Case, Case], Value] = {}

    def walk(one: Value, other: Value) -> Value:
        if one is settles or other is settles:
            return settles
        if type(one) is not Case:
            return other
        if type(other) is not Case or one is other:
            return one
        name = one, other
        if name in memo:
            return memo[name]
        if len(memo) > MOST_STEPS:
            raise EntangledError
        choice, later = one.choice, other.choice
        ones, others = one.branches, other.branches
        if choice is later:
            found = [walk(*pair) for pair in zip(ones, others, strict=True)]
        elif choice.order < later.order:
            found = [
                walk(branch, other) if type(branch) is Case else branch if branch is settles else other
                for branch in ones
            ]
        else:
            choice = later
            found = [
                walk(one, branch) if type(branch) is Case else branch if branch is settles else one for branch in others
            ]
        result = memo[name] = case(choice, found)
        return result

    return walk(one, other)


@lru_cache(MOST_KNOWN)
def negate(condition: Value) -> Value:
    """Negation of a condition."""
    return if_else(condition, False, True)


def if_else(condition: Value, one: Value, other: Value) -> Value:
    """`one` where the condition holds, `other` elsewhere."""
    if condition is True or same(one, other):
        return one
    if condition is False:
        return other
    memo: dict[Hashable, Value] = {}

    def walk(condition: Value, one: Value, other: Value) -> Value:
        if condition is True or one is other:
            return one
        if condition is False:
            return other
        values = condition, one, other
        name = keys(values)
        if name not in memo:
            if len(memo) > MOST_STEPS:
                raise EntangledError
            spend(2)
            top = min([value.choice for value in values if type(value) is Case], key=order_of)
            memo[name] = case(top, starmap(walk, branches_of(values, top)))
        return memo[name]

    return walk(condition, one, other)


def switch(choice: Choice, values: Sequence[Value]) -> Value:
    """For each outcome of the choice, its value, which may itself depend on any choices."""
    memo: dict[Hashable, Value] = {}

    def walk(values: tuple[Value, ...]) -> Value:
        top = choice
        for value in values:
            if type(value) is Case and value.choice.order < top.order:
                top = value.choice
        if top is choice:
            return case(choice, [branch_of(value, choice, i) for i, value in enumerate(values)])
        name = keys(values)
        if name not in memo:
            if len(memo) > MOST_STEPS:
                raise EntangledError
            spend(len(values) / 2)
            memo[name] = case(top, map(walk, branches_of(values, top)))
        return memo[name]

    return walk(tuple(values))


def compatible(*conditions: Value) -> bool:
    """Whether conditions hold together for some combination, or telling takes too long."""
    return met(conditions, MOST_STEPS) is not False


def met(conditions: Iterable[Value], most: int) -> bool | None:
    """Whether conditions hold together for some combination; None if that takes more than so many steps to tell."""
    refuted: set[tuple[Value, ...]] = set()

    def walk(left: tuple[Value, ...]) -> bool | None:
        if not left:
            return True
        if len(refuted) > most:
            return None
        if left in refuted:
            return False
        spend(len(left))
        top = min([condition.choice for condition in left], key=order_of)
        for outcome in range(top.outcomes):
            below = dict.fromkeys([branch_of(condition, top, outcome) for condition in left])
            if False not in below:
                found = walk(tuple([condition for condition in below if condition is not True]))
                if found is not False:
                    return found
        refuted.add(left)
        return False

    given = dict.fromkeys(conditions)
    if False in given:
        return False
    return walk(tuple([condition for condition in given if condition is not True]))


def hull(condition: Value, kept: Container[Choice]) -> Value:
    """The strongest condition on the choices `kept` that holds wherever a condition does."""
    memo: dict[int, Value] = {}

    def walk(value: Value) -> Value:
        if type(value) is not Case:
            return value
        if id(value) not in memo:
            branches = [walk(branch) for branch in value.branches]
            memo[id(value)] = case(value.choice, branches) if value.choice in kept else reduce(either, branches, False)
        return memo[id(value)]

    return walk(condition)


def is_condition(value: Value) -> bool:
    """Whether a value is true or false, whatever is chosen."""
    return type(value) is bool or (varies(value) and all(type(leaf) is bool for leaf in leaves(value)))


MOST_TOLD = 4
"""Levels of a condition that words say, and cases of each."""
MOST_OUTCOMES_TOLD = 32
"""Outcomes of a choice that words list."""


def told(condition: Value) -> str:
    """A condition in words, such as `depth is 2 or 3, and op[0] is conv`: nothing, if it always holds. Of one that is
    entangled, only what it depends on."""
    if type(condition) is not Case:
        return "" if condition else "never"
    ways = _ways(condition, MOST_TOLD)
    return "; or ".join(ways) if ways else f"depends on {listed(support(condition))}"


def _ways(condition: Case, levels: int) -> list[str]:
    """The cases in which a condition holds; none, where these are too many."""
    labels: dict[Value, list[object]] = {}
    for outcome, branch in enumerate(condition.branches[: MOST_OUTCOMES_TOLD + 1]):
        if branch is not False:
            labels.setdefault(branch, []).append(condition.choice.label(outcome))
    if len(condition.branches) > MOST_OUTCOMES_TOLD or len(labels) > MOST_TOLD or not levels:
        return []
    found = []
    for branch, those in labels.items():
        here = f"{condition.choice.path} is {' or '.join(map(str, those))}"
        further = [""] if branch is True else [f", and {way}" for way in _ways(branch, levels - 1)]
        if not further:
            return []
        found += [here + way for way in further]
    return found if len(found) <= MOST_TOLD else []
