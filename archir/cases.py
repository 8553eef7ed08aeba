"""Values that depend on choices, as decision diagrams.

A *choice* is a variable with finitely many outcomes. A value that depends on choices is a `Case`: a reduced, ordered
multi-valued decision diagram whose leaves are plain values. Cases are interned, so equal ones are one object.
Whatever is true of plain values is carried over by `lift`, which applies a function to every *reachable* combination
of leaves; conditions are Cases whose leaves are booleans. This one mechanism proves shapes, counts architectures,
draws them uniformly and builds `select` nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, reduce
from itertools import combinations, islice, repeat
from math import copysign
from typing import Any, TypeGuard
from weakref import WeakValueDictionary

from archir.errors import FAULTS, NOWHERE, Note, RuleError, Span, unforeseen
from archir.work import WorkError, spend

Value = Any
"""A plain value or a `Case` of plain values."""
Label = int | str
"""How an alternative is written in an architecture."""

MOST_CHOICES = 128
"""Choices one value may depend on along one path."""
MOST_STEPS = 20_000
"""Combinations one operation on values may visit."""
MOST_KNOWN = 16_384
"""Conjunctions and disjunctions that are remembered: what is repeated in a program has the same conditions."""
MOST_OUTCOMES = 20_000
"""Outcomes one choice may have."""


def subsets(count: int, take: int) -> int:
    """How many ways there are to take so many of so many things; at least so many, where they are beyond all bounds."""
    ways = 1
    for i in range(min(take, count - take)):
        ways = ways * (count - i) // (i + 1)
        if ways > 10**18:
            break
    return ways


@dataclass(frozen=True, eq=False)
class Choice:
    """A decision: pick one of `alternatives`, or an unordered `take` of them.

    `path` is its identity; `order` its place in the creation order, which is also the diagrams' variable order.
    """

    path: str
    alternatives: tuple[Label, ...]
    order: int
    take: int | None = None
    tags: frozenset[str] = frozenset()
    span: Span = field(default=NOWHERE, repr=False)
    places: tuple[Span, ...] = field(default=(), repr=False)
    """Where the alternatives are written; empty where that is no one place each."""

    @cached_property
    def outcomes(self) -> int:
        """How many outcomes there are: the alternatives, or the subsets of size `take`."""
        return len(self.alternatives) if self.take is None else subsets(len(self.alternatives), self.take)

    @cached_property
    def subsets(self) -> tuple[tuple[int, ...], ...]:
        """For each outcome, the positions of the alternatives it picks."""
        return tuple(combinations(range(len(self.alternatives)), 1 if self.take is None else self.take))

    def label(self, outcome: int) -> Label | list[Label]:
        """An outcome as an architecture writes it."""
        picked = [self.alternatives[i] for i in self.subsets[outcome]]
        return picked[0] if self.take is None else picked

    def outcome(self, label: object) -> int | None:
        """The outcome a label stands for; None if it stands for none."""
        names = {str(name): i for i, name in enumerate(self.alternatives)}
        labels = label if isinstance(label, list) else [label]
        picked = tuple(sorted(names.get(str(one), -1) for one in labels))
        return self._positions.get(picked)

    @cached_property
    def _positions(self) -> dict[tuple[int, ...], int]:
        return {subset: i for i, subset in enumerate(self.subsets)}

    def __str__(self) -> str:
        return self.path


_MOST_SHOWN = 4
"""Levels of a Case that its text shows: written out, a diagram can be exponentially larger than it is."""


class Case:
    """A value for each outcome of a choice. Made by `case` only, so that equal ones are identical."""

    __slots__ = ("__weakref__", "branches", "choice", "depth")

    def __init__(self, choice: Choice, branches: tuple[Value, ...], depth: int) -> None:
        self.choice, self.branches, self.depth = choice, branches, depth

    def __str__(self) -> str:
        if self.depth > _MOST_SHOWN:
            return f"case({self.choice.path}: ...)"
        return f"case({self.choice.path}: {', '.join(map(str, self.branches))})"

    __repr__ = __str__


_interned: WeakValueDictionary[Hashable, Case] = WeakValueDictionary()


def varies(value: Value) -> TypeGuard[Case]:
    """Whether a value depends on choices."""
    return type(value) is Case


_THEMSELVES = {Case, int, str}
"""Types of values that are their own keys."""


def key(value: Value) -> Hashable:
    """A key that tells values apart as Python's `==` does not (`1`, `1.0` and `True`; 0.0 and -0.0)."""
    if type(value) in _THEMSELVES:
        found: Hashable = value
        return found
    if isinstance(value, tuple):
        spend(len(value) / 2)
        return (type(value), *map(key, value))
    if type(value) is float:
        return (float, value, copysign(1.0, value))
    return (type(value), value)


def same(one: Value, other: Value) -> bool:
    """Whether two values are one: the same Case, or plain and equal in type and value."""
    return one is other or (type(one) is type(other) and type(one) is not Case and key(one) == key(other))


def case(choice: Choice, branches: Iterable[Value]) -> Value:
    """The value with these branches; no Case at all if they agree. Branches test later choices only."""
    branches = tuple(branches)
    first = branches[0]
    for branch in branches:
        if branch is not first and not same(first, branch):
            break
    else:
        return first
    name = (choice, *[branch if type(branch) in _THEMSELVES else key(branch) for branch in branches])
    found = _interned.get(name)
    spend(len(branches))
    if found is None:
        depth = 1 + max(branch.depth if type(branch) is Case else 0 for branch in branches)
        if depth > MOST_CHOICES:
            raise EntangledError(f"more than {MOST_CHOICES}")
        found = _interned[name] = Case(choice, branches, depth)
    return found


def when(choice: Choice, outcomes: Iterable[int]) -> Value:
    """The condition that `choice` has one of `outcomes`."""
    outcomes = set(outcomes)
    return case(choice, (i in outcomes for i in range(choice.outcomes)))


class _Never:
    """The value of what cannot be reached."""


NEVER = _Never()


class EntangledError(RuleError):
    """A value depends on more choices, or on more combinations of them, than are followed."""

    def __init__(self, number: str = "too many") -> None:
        super().__init__(f"a value depends on {number} choices at once", code="A0605")


@dataclass(frozen=True, eq=False)
class _Failure:
    error: RuleError


class CaseError(RuleError):
    """A rule refused some combination; `assignment` is the smallest one (choice to outcome; empty: all)."""

    def __init__(self, error: RuleError, assignment: Mapping[Choice, int]) -> None:
        super().__init__(error.message, error.hint, error.code, error.span)
        self.assignment = dict(assignment)
        if assignment:
            self.diagnostics = (replace(self.diagnostics[0], notes=(Note(f"when {self.combination}"),)),)

    @property
    def combination(self) -> str:
        """The combination in words, such as `layer[2].op = conv5`."""
        return describe(self.assignment)


def describe(assignment: Mapping[Choice, int]) -> str:
    """An assignment in words."""
    parts = []
    for choice, outcome in assignment.items():
        label = choice.label(outcome)
        parts.append(f"{choice.path} = {label if not isinstance(label, list) else ' + '.join(map(str, label))}")
    return ", ".join(parts)


class Excluded(Exception):  # noqa: N818  (no error: what runs here never happens)
    """The conditions that are given leave no combination under which this could happen."""


def lift(rule: Callable[..., Value], *values: Value, under: Value = True, given: Sequence[Value] = ()) -> Value:
    """`rule` applied to every combination of plain values that `under` lets happen.

    The rule may itself return a Case. Combinations outside `under` get an arbitrary value, chosen so that the
    result is small; so do those that it refuses and the conditions `given` rule out. Raises CaseError with the smallest
    failing combination if the rule raises RuleError, or anything else by mistake, for another; and Excluded if no
    combination is left.
    """
    for value in values:
        if type(value) is Case:
            break
    else:
        if under is not False:
            return _once(rule, values, under, given)
    try:
        return _lifted(rule, values, under, given)
    except EntangledError:
        weaker = hull(under, frozenset(support(*values)))  # of choices that no value depends on, rules are not told
        if weaker is under:
            raise
        return _lifted(rule, values, weaker, given)


def _once(rule: Callable[..., Value], values: tuple[Value, ...], under: Value, given: Sequence[Value]) -> Value:
    """`rule` applied to plain values."""
    spend(1)
    try:
        return rule(*values)
    except WorkError:
        raise
    except RuleError as error:
        refusal = error
    except FAULTS as error:
        refusal = unforeseen(error)
    if under is True and not given:
        raise refusal
    return _excused(_Failure(refusal), under, given)


def _lifted(rule: Callable[..., Value], values: tuple[Value, ...], under: Value, given: Sequence[Value]) -> Value:
    failed = False
    held: dict[int, _Held] = {}
    memo: dict[Hashable, Value] = {}

    def walk(state: tuple[Value, ...]) -> Value:
        """The result for what is left of `under`, which comes first, and of the values."""
        nonlocal failed
        care = state[0]
        if care is False:
            return NEVER
        values, top = state[1:], None
        for value in values:
            if type(value) is Case and (top is None or value.choice.order < top.order):
                top = value.choice
        if top is None:
            spend(1)
            try:
                result = rule(*values)
            except WorkError:
                raise
            except RuleError as error:
                failed = True
                return _Failure(error)
            except FAULTS as error:
                failed = True
                return _Failure(unforeseen(error))
            return held.setdefault(id(result), _Held(result)) if type(result) is Case else result
        name = tuple([value if type(value) in _THEMSELVES else key(value) for value in state])
        if name in memo:
            return memo[name]
        if len(memo) > MOST_STEPS:
            raise EntangledError
        spend(3)
        if type(care) is Case and care.choice.order < top.order:
            top = care.choice
        result = memo[name] = _join(top, list(map(walk, _branches(state, top))))
        return result

    result = walk((under, *values))
    if held:
        result = _composed(result, list(held.values()))
    return result if not failed else _excused(result, under, given)


def _branches(values: Iterable[Value], choice: Choice) -> Iterator[tuple[Value, ...]]:
    """What is left of values for each outcome of a choice; none of them tests earlier ones."""
    return zip(*[v.branches if type(v) is Case and v.choice is choice else repeat(v) for v in values], strict=False)


@dataclass(frozen=True, eq=False, slots=True)
class _Held:
    """A Case that stands as a leaf of another, until they are composed."""

    value: Case


def _composed(outer: Value, held: list[_Held]) -> Value:
    """A value whose leaves may be held Cases, which may test choices that come before those above them.

    All are walked together, so that it takes as long as the result is large.
    """
    within: dict[int, tuple[int, ...]] = {}
    memo: dict[Hashable, Value] = {}
    places = {id(one): place for place, one in enumerate(held)}

    def reach(value: Value) -> tuple[int, ...]:
        """The places of the Cases below a value."""
        if type(value) is _Held:
            return (places[id(value)],)
        if type(value) is not Case:
            return ()
        if id(value) not in within:
            within[id(value)] = tuple(sorted({place for branch in value.branches for place in reach(branch)}))
        return within[id(value)]

    def walk(value: Value, inner: tuple[Value, ...]) -> Value:
        """`inner` is what is left of the Cases at `reach(value)`."""
        if type(value) is not Case:
            return inner[0] if type(value) is _Held else value
        if not inner:
            return value
        name = (value, *[one if type(one) in _THEMSELVES else key(one) for one in inner])
        if name not in memo:
            if len(memo) > MOST_STEPS:
                raise EntangledError
            spend(2 + len(inner) + value.choice.outcomes / 2)
            top = min([value.choice, *(one.choice for one in inner if type(one) is Case)], key=_order)
            left = dict(zip(reach(value), inner, strict=True))
            branches = []
            for outcome in range(top.outcomes):
                below = _branch(value, top, outcome)
                branches.append(walk(below, tuple([_branch(left[place], top, outcome) for place in reach(below)])))
            memo[name] = case(top, branches)
        return memo[name]

    return walk(outer, tuple([held[place].value for place in reach(outer)]))


def _order(choice: Choice) -> int:
    return choice.order


def _branch(value: Value, choice: Choice, outcome: int) -> Value:
    return value.branches[outcome] if type(value) is Case and value.choice is choice else value


def _join(choice: Choice, branches: list[Value]) -> Value:
    """A case whose branches may be unreachable."""
    reached = [branch for branch in branches if branch is not NEVER]
    if not reached:
        return NEVER
    filler = next((branch for branch in reached if type(branch) is not _Failure), reached[0])
    return case(choice, [filler if branch is NEVER else branch for branch in branches])


def _excused(result: Value, under: Value, given: Sequence[Value]) -> Value:
    """A result where no rule failed, if what is given rules the others out; raises the smallest failure if not."""
    failing = lift(lambda leaf, care: care and type(leaf) is _Failure, result, under)
    left = narrowed(failing, given)
    if left is False:
        fine = both(under, negate(failing))
        if fine is False:
            raise Excluded
        return lift(lambda leaf: leaf, result, under=fine)
    found = smallest(left, lambda leaf: leaf is True)
    assert found is not None, "a rule failed at a combination that is reachable"
    about = set(support(failing))
    found = {choice: outcome for choice, outcome in found.items() if choice in about}
    leaf = at(result, {choice.path: outcome for choice, outcome in found.items()})
    raise CaseError(leaf.error, found)


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
            condition = reduce(both, near, condition)
            left = [one for one in left if not any(one is other for other in near)]
    except RuleError:
        pass
    return condition


def smallest(value: Value, wanted: Callable[[Value], bool]) -> dict[Choice, int] | None:
    """The assignment of fewest choices under which `value` is a wanted leaf; None if there is none."""
    memo: dict[int, dict[Choice, int] | None] = {}

    def walk(value: Value) -> dict[Choice, int] | None:
        if type(value) is not Case:
            return {} if wanted(value) else None
        if id(value) not in memo:
            found: dict[Choice, int] | None = None
            for outcome, branch in enumerate(value.branches):
                below = walk(branch)
                if below is not None and (found is None or len(below) + 1 < len(found)):
                    found = {value.choice: outcome, **below}
            memo[id(value)] = found
        return memo[id(value)]

    return walk(value)


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
        name = value, care
        if name not in self._known:
            if len(self._known) > self._most:
                raise EntangledError
            spend(3)
            choice = value.choice if value.choice.order < care.choice.order else care.choice
            values = value.branches if value.choice is choice else repeat(value)
            cares = care.branches if care.choice is choice else repeat(care)
            self._known[name] = _join(choice, list(map(self._walk, values, cares)))
        return self._known[name]


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
    memo: dict[tuple[int, int], Value] = {}

    def walk(one: Value, other: Value) -> Value:
        if one is settles or other is settles:
            return settles
        if type(one) is not Case:
            return other
        if type(other) is not Case or one is other:
            return one
        name = (id(one), id(other))
        if name not in memo:
            if len(memo) > MOST_STEPS:
                raise EntangledError
            choice = one.choice if one.choice.order < other.choice.order else other.choice
            ones = one.branches if one.choice is choice else repeat(one)
            others = other.branches if other.choice is choice else repeat(other)
            memo[name] = case(choice, map(walk, ones, others))
        return memo[name]

    return walk(one, other)


@lru_cache(MOST_KNOWN)
def negate(condition: Value) -> Value:
    """Negation of a condition."""
    return lift(lambda a: not a, condition)


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
        name = condition, key(one), key(other)
        if name not in memo:
            if len(memo) > MOST_STEPS:
                raise EntangledError
            spend(3)
            tops = [value.choice for value in (condition, one, other) if type(value) is Case]
            top = min(tops, key=_order)
            memo[name] = case(top, [walk(*left) for left in _branches((condition, one, other), top)])
        return memo[name]

    return walk(condition, one, other)


def compatible(*conditions: Value) -> bool:
    """Whether conditions hold together for some combination, or telling takes too long."""
    refuted: set[tuple[Value, ...]] = set()

    def walk(left: tuple[Value, ...]) -> bool:
        if not left or len(refuted) > MOST_STEPS:
            return True
        if left in refuted:
            return False
        spend(len(left))
        top = min([condition.choice for condition in left], key=_order)
        for outcome in range(top.outcomes):
            below = dict.fromkeys(_branch(condition, top, outcome) for condition in left)
            if False not in below and walk(tuple(condition for condition in below if condition is not True)):
                return True
        refuted.add(left)
        return False

    given = dict.fromkeys(conditions)
    return False not in given and walk(tuple(condition for condition in given if condition is not True))


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


def leaves(value: Value) -> Iterator[Value]:
    """The distinct plain values a value may take."""
    seen: set[Hashable] = set()
    stack = [value]
    while stack:
        one = stack.pop()
        name = one if type(one) in _THEMSELVES else key(one)
        if name in seen:
            continue
        spend(1)
        seen.add(name)
        if type(one) is Case:
            stack.extend(reversed(one.branches))
        else:
            yield one


def size(value: Value) -> int:
    """How many Cases a value is made of."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        one = stack.pop()
        if type(one) is Case and id(one) not in seen:
            seen.add(id(one))
            stack.extend(one.branches)
    return len(seen)


def worded(value: Value, show: Callable[[Value], str] = str) -> str:
    """What a value may be, as a message says it: `16`, `16 or 32`, `16, 32, 48 or others`."""
    words = list(dict.fromkeys(show(leaf) for leaf in islice(leaves(value), _MOST_SHOWN + 1)))
    if len(words) > _MOST_SHOWN:
        words = [*words[: _MOST_SHOWN - 1], "others"]
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def support(*values: Value) -> list[Choice]:
    """The choices that values depend on, in order."""
    found: dict[Choice, None] = {}
    seen: set[int] = set()
    stack = [value for value in values if type(value) is Case]
    while stack:
        one = stack.pop()
        if id(one) not in seen:
            seen.add(id(one))
            found[one.choice] = None
            stack.extend(branch for branch in one.branches if type(branch) is Case)
    spend(len(seen))
    return sorted(found, key=_order)


def at(value: Value, outcomes: Mapping[str, int]) -> Value:
    """The plain value under outcomes by path. A choice that is not among them does not matter: it is inactive."""
    while type(value) is Case:
        value = value.branches[outcomes.get(value.choice.path, 0)]
    return value


def fix(value: Value, choice: Choice, outcome: int) -> Value:
    """The value given an outcome of one choice."""
    memo: dict[int, Value] = {}

    def walk(value: Value) -> Value:
        if type(value) is not Case or value.choice.order > choice.order:
            return value
        if value.choice is choice:
            return value.branches[outcome]
        if id(value) not in memo:
            memo[id(value)] = case(value.choice, [walk(branch) for branch in value.branches])
        return memo[id(value)]

    return walk(value)
