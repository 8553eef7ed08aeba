"""Values that depend on choices, as decision diagrams.

A *choice* is a variable with finitely many outcomes. A value that depends on choices is a `Case`: a reduced, ordered
multi-valued decision diagram whose leaves are plain values. Cases are interned, so equal ones are one object.
`lifting` carries over to them what holds of plain values; `conditions` has what is true or false of them.
This one mechanism proves shapes, counts architectures, draws them uniformly and builds `select` nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, islice, repeat
from math import copysign
from typing import Any, TypeGuard
from weakref import ref

from archir.diagnostics.errors import NOWHERE, RuleError, Span
from archir.diagnostics.work import WorkError, at_hand, spend

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

    __slots__ = ("__weakref__", "about", "branches", "choice", "depth")

    def __init__(self, choice: Choice, branches: tuple[Value, ...], depth: int) -> None:
        self.choice, self.branches, self.depth = choice, branches, depth
        self.about: tuple[Choice, ...] = ()
        """The choices that it depends on, once `support` was asked."""

    def __str__(self) -> str:
        if self.depth > _MOST_SHOWN:
            return f"case({self.choice.path}: ...)"
        return f"case({self.choice.path}: {', '.join(map(str, self.branches))})"

    __repr__ = __str__


class _Reference(ref[Case]):
    __slots__ = ("name",)
    name: Hashable


_interned: dict[Hashable, _Reference] = {}
"""All Cases that are in use, by what they are. A dictionary of weak values would do, in twice the time."""


def _forget(reference: _Reference) -> None:
    if _interned.get(reference.name) is reference:
        del _interned[reference.name]


def varies(value: Value) -> TypeGuard[Case]:
    """Whether a value depends on choices."""
    return type(value) is Case


THEMSELVES = {Case, int, str}
"""Types of values that are their own keys."""
_SIMPLE = THEMSELVES | {bool, type(None)}
"""Types of values that are one if they are equal and of one type."""
_YES, _NO = object(), object()


def key(value: Value) -> Hashable:
    """A key that tells values apart as Python's `==` does not (`1`, `1.0` and `True`; 0.0 and -0.0)."""
    if type(value) in THEMSELVES:
        found: Hashable = value
        return found
    if type(value) is bool:
        return _YES if value else _NO
    if isinstance(value, tuple):
        spend(len(value) / 2)
        return (type(value), *map(key, value))
    if type(value) is float:
        return (float, value, copysign(1.0, value))
    return (type(value), value)


def keys(values: tuple[Value, ...]) -> Hashable:
    """A key that tells sequences of values apart, as `key` does values."""
    kinds = set(map(type, values))
    if kinds <= _SIMPLE:
        return values, bool in kinds and (int not in kinds or tuple(map(type, values)))
    return tuple(map(key, values))


def same(one: Value, other: Value) -> bool:
    """Whether two values are one: the same Case, or plain and equal in type and value."""
    if one is other or type(one) is not type(other):
        return one is other
    if type(one) in _SIMPLE:
        return bool(one == other)
    return key(one) == key(other)


def case(choice: Choice, branches: Iterable[Value]) -> Value:
    """The value with these branches; no Case at all if they agree. Branches test later choices only."""
    branches = tuple(branches)
    first = branches[0]
    kind = type(first)
    for branch in branches:
        if branch is not first and (kind is Case or type(branch) is not kind or not same(first, branch)):
            break
    else:
        return first
    work = at_hand()
    if work is not None:
        work.left -= len(branches)
        if work.left < 0:
            raise WorkError
    kinds = set(map(type, branches))
    name: Hashable
    if kinds <= _SIMPLE:  # of these, only integers and booleans are equal to each other
        told = bool in kinds and (int not in kinds or tuple(map(type, branches)))
        name = choice, branches, told
    else:
        name = (choice, *map(key, branches))
    reference = _interned.get(name)
    found = None if reference is None else reference()
    if found is None:
        depth = 1 + (max([branch.depth for branch in branches if type(branch) is Case]) if Case in kinds else 0)
        if depth > MOST_CHOICES:
            raise EntangledError(f"more than {MOST_CHOICES}")
        found = Case(choice, branches, depth)
        reference = _interned[name] = _Reference(found, _forget)
        reference.name = name
    return found


def when(choice: Choice, outcomes: Iterable[int]) -> Value:
    """The condition that `choice` has one of `outcomes`."""
    branches = [False] * choice.outcomes
    for outcome in outcomes:
        branches[outcome] = True
    return case(choice, branches)


class _Never:
    """The value of what cannot be reached."""


NEVER = _Never()


def reachable(choice: Choice, branches: list[Value], filler: Value = NEVER) -> Value:
    """The value with these branches, of which those that are NEVER may be anything, such as `filler`."""
    if NEVER not in branches:
        return case(choice, branches)
    if filler is NEVER:
        filler = next((branch for branch in branches if branch is not NEVER), NEVER)
    return filler if filler is NEVER else case(choice, [filler if branch is NEVER else branch for branch in branches])


class EntangledError(RuleError):
    """A value depends on more choices, or on more combinations of them, than are followed."""

    def __init__(self, number: str = "too many") -> None:
        super().__init__(f"a value depends on {number} choices at once", code="A0605")


def branches_of(values: Iterable[Value], choice: Choice) -> Iterator[tuple[Value, ...]]:
    """What is left of values for each outcome of a choice; none of them tests earlier ones."""
    return zip(*[v.branches if type(v) is Case and v.choice is choice else repeat(v) for v in values], strict=False)


def order_of(choice: Choice) -> int:
    """Where a choice stands among those that a diagram tests."""
    return choice.order


def branch_of(value: Value, choice: Choice, outcome: int) -> Value:
    """What is left of a value for an outcome of a choice; it tests no earlier one."""
    return value.branches[outcome] if type(value) is Case and value.choice is choice else value


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


def leaves(value: Value) -> Iterator[Value]:
    """The distinct plain values a value may take."""
    if type(value) is not Case:
        yield value
        return
    seen: set[Hashable] = set()
    stack = [value]
    while stack:
        one = stack.pop()
        kind = type(one)
        name = one if kind in THEMSELVES else key(one)
        if name in seen:
            continue
        seen.add(name)
        if kind is Case:
            spend(len(one.branches) / 2)
            stack.extend(one.branches[::-1])
        else:
            yield one


def first(value: Value) -> Value:
    """The first of the plain values a value may take."""
    while type(value) is Case:
        value = value.branches[0]
    return value


def parted(value: Value) -> list[tuple[Value, Value]]:
    """The distinct plain values a value may take, each with the condition under which it does."""
    memo: dict[Case, dict[Hashable, Value]] = {}

    def walk(value: Value) -> dict[Hashable, Value]:
        if type(value) is not Case:
            return {key(value): True}
        if value not in memo:
            below = [walk(branch) for branch in value.branches]
            names = dict.fromkeys(name for conditions in below for name in conditions)
            spend(len(names))
            memo[value] = {name: case(value.choice, [c.get(name, False) for c in below]) for name in names}
        return memo[value]

    conditions = walk(value)
    return [(leaf, conditions[key(leaf)]) for leaf in leaves(value)]


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
    for value in values:
        if type(value) is Case:
            found.update(dict.fromkeys(value.about or _about(value)))
    return sorted(found, key=order_of)


def _about(value: Case) -> tuple[Choice, ...]:
    found: dict[Choice, None] = {}
    seen: set[Case] = set()
    stack = [value]
    while stack:
        one = stack.pop()
        if one not in seen:
            seen.add(one)
            found[one.choice] = None
            stack.extend([branch for branch in one.branches if type(branch) is Case])
    spend(len(seen))
    value.about = tuple(found)
    return value.about


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
