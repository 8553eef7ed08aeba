"""Multi-valued decision diagrams (MDDs): values that depend on choices.

A *choice* is a variable with finitely many outcomes. A value that depends on choices is a `Diagram`: a reduced, ordered
multi-valued decision diagram whose leaves are plain values. Diagrams are hash-consed: equal diagrams are the same
object. `lifting` applies functions of plain values to diagrams, and `conditions` has the operations on diagrams with
boolean leaves. Shape proofs, counting and uniform sampling of architectures, and the construction of `select` nodes are
all built on them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, islice, repeat
from math import copysign
from typing import Any, TypeGuard, TypeVar
from weakref import ref

from archir.diagnostics.errors import NO_SPAN, RuleError, Span
from archir.diagnostics.work import WorkError, budget_or_none, spend

Value = Any
"""A plain value, or a `Diagram` whose leaves are plain values."""
Result = TypeVar("Result")
"""What `fold` computes for each value."""
Label = int | str
"""The label of an alternative in an architecture file."""

MAX_CHOICES = 128
"""Maximum depth of a diagram: the number of choices on one path from the root to a leaf."""
MAX_STEPS = 20_000
"""Maximum number of states (combinations of subdiagrams) that one operation on diagrams may visit."""
MAX_CACHED = 16_384
"""Maximum number of entries in each cache of diagram operations.

Caching pays off because programs repeat the same blocks, and the same conditions with them.
"""
MAX_OUTCOMES = 20_000
"""Maximum number of outcomes that one choice may have."""


def subset_count(n: int, k: int) -> int:
    """Return the number of k-subsets of n elements, or a lower bound of that number if it exceeds 10^18."""
    ways = 1
    for i in range(min(k, n - k)):
        ways = ways * (n - i) // (i + 1)
        if ways > 10**18:
            break
    return ways


@dataclass(frozen=True, eq=False)
class Choice:
    """A decision variable: pick one of `alternatives`, or an unordered subset of `k` of them.

    `path` identifies the choice. `order` is its rank in the order of creation, which is also the variable order of
    diagrams.
    """

    path: str
    alternatives: tuple[Label, ...]
    order: int
    k: int | None = None
    """Number of alternatives that are picked; None for a choice of a single alternative."""
    tags: frozenset[str] = frozenset()
    span: Span = field(default=NO_SPAN, repr=False)
    alternative_spans: tuple[Span, ...] = field(default=(), repr=False)
    """The source span of each alternative; empty if the alternatives have no spans of their own."""

    @cached_property
    def outcome_count(self) -> int:
        """The number of outcomes: the number of alternatives or, if `k` is set, of their subsets of size `k`."""
        return len(self.alternatives) if self.k is None else subset_count(len(self.alternatives), self.k)

    @cached_property
    def subsets(self) -> tuple[tuple[int, ...], ...]:
        """For each outcome, the indices of the alternatives that it picks."""
        return tuple(combinations(range(len(self.alternatives)), 1 if self.k is None else self.k))

    def label(self, outcome: int) -> Label | list[Label]:
        """Return an outcome as architecture files write it: a label, or a list of `k` labels."""
        picked = [self.alternatives[i] for i in self.subsets[outcome]]
        return picked[0] if self.k is None else picked

    def outcome(self, label: object) -> int | None:
        """Return the outcome with a label (or list of labels) of an architecture file; None if there is none."""
        names = {str(name): i for i, name in enumerate(self.alternatives)}
        labels = label if isinstance(label, list) else [label]
        picked = tuple(sorted(names.get(str(item), -1) for item in labels))
        return self._outcome_by_subset.get(picked)

    @cached_property
    def _outcome_by_subset(self) -> dict[tuple[int, ...], int]:
        return {subset: i for i, subset in enumerate(self.subsets)}

    def __str__(self) -> str:
        return self.path


_MAX_SHOWN = 4
"""Maximum depth of a diagram that `str` shows in full.

The depth is limited because a diagram is shown as a tree, which can be exponentially larger than the diagram.
"""


class Diagram:
    """A decision diagram, given by its root node: a choice, and a branch for each of its outcomes.

    A branch is a value: a diagram, or a plain value as a leaf. Only `make_diagram` creates diagrams; this ensures that
    equal diagrams are identical.
    """

    __slots__ = ("__weakref__", "branches", "choice", "depth", "support")

    def __init__(self, choice: Choice, branches: tuple[Value, ...], depth: int) -> None:
        self.choice, self.branches, self.depth = choice, branches, depth
        self.support: tuple[Choice, ...] = ()
        """Cached set of the choices that the diagram depends on; empty until the function `support` fills it."""

    def __str__(self) -> str:
        if self.depth > _MAX_SHOWN:
            return f"case({self.choice.path}: ...)"
        return f"case({self.choice.path}: {', '.join(map(str, self.branches))})"

    __repr__ = __str__


class _Reference(ref[Diagram]):
    """Weak reference to a hash-consed diagram, with the diagram's key in `_interned`."""

    __slots__ = ("key",)
    key: Hashable


_interned: dict[Hashable, _Reference] = {}
"""Hash-consing table: maps a choice and the keys of the branches to the live diagram with these branches.

A WeakValueDictionary would do the same, but take twice the time.
"""


def _remove_interned(reference: _Reference) -> None:
    if _interned.get(reference.key) is reference:
        del _interned[reference.key]


def varies(value: Value) -> TypeGuard[Diagram]:
    """Return whether a value depends on choices, i.e. is a diagram."""
    return type(value) is Diagram


SELF_KEYED = {Diagram, int, str}
"""Types whose values can serve as their own `value_key`."""
_SIMPLE_TYPES = SELF_KEYED | {bool, type(None)}
"""Types for which two values of the same type are identical if and only if `==` holds."""
_TRUE_KEY, _FALSE_KEY = object(), object()


def value_key(value: Value) -> Hashable:
    """Return a hashable key of a value that, unlike `==`, distinguishes `1`, `1.0` and `True`, and 0.0 and -0.0."""
    if type(value) in SELF_KEYED:
        itself: Hashable = value
        return itself
    if type(value) is bool:
        return _TRUE_KEY if value else _FALSE_KEY
    if isinstance(value, tuple):
        spend(len(value) / 2)
        return (type(value), *map(value_key, value))
    if type(value) is float:
        return (float, value, copysign(1.0, value))
    return (type(value), value)


def tuple_key(values: tuple[Value, ...]) -> Hashable:
    """Return a hashable key of a tuple of values, which distinguishes the same values as `value_key`."""
    kinds = set(map(type, values))
    if kinds <= _SIMPLE_TYPES:
        return values, bool in kinds and (int not in kinds or tuple(map(type, values)))
    return tuple(map(value_key, values))


def same(left: Value, right: Value) -> bool:
    """Return whether two values are identical: the same diagram, or plain values of equal type and value."""
    if left is right or type(left) is not type(right):
        return left is right
    if type(left) in _SIMPLE_TYPES:
        return bool(left == right)
    return value_key(left) == value_key(right)


def make_diagram(choice: Choice, branches: Iterable[Value]) -> Value:
    """Return the diagram with `branches` for the outcomes of `choice`.

    If all branches are the same, return that branch. Branches may only depend on choices later in the variable order.
    Raises DiagramSizeError (A0605) if the diagram would be deeper than `MAX_CHOICES`.
    """
    branches = tuple(branches)
    first = branches[0]
    kind = type(first)
    for branch in branches:
        if branch is not first and (kind is Diagram or type(branch) is not kind or not same(first, branch)):
            break
    else:
        return first
    work = budget_or_none()
    if work is not None:
        work.left -= len(branches)
        if work.left < 0:
            raise WorkError
    kinds = set(map(type, branches))
    table_key: Hashable
    if kinds <= _SIMPLE_TYPES:  # across these types, only integers and booleans can compare equal
        kinds_key = bool in kinds and (int not in kinds or tuple(map(type, branches)))
        table_key = choice, branches, kinds_key
    else:
        table_key = (choice, *map(value_key, branches))
    reference = _interned.get(table_key)
    node = None if reference is None else reference()
    if node is None:
        depth = 1 + (max([branch.depth for branch in branches if type(branch) is Diagram]) if Diagram in kinds else 0)
        if depth > MAX_CHOICES:
            raise DiagramSizeError(f"more than {MAX_CHOICES}")
        node = Diagram(choice, branches, depth)
        reference = _interned[table_key] = _Reference(node, _remove_interned)
        reference.key = table_key
    return node


def outcome_in(choice: Choice, outcomes: Iterable[int]) -> Value:
    """Return the condition that `choice` has one of the outcomes `outcomes`."""
    branches = [False] * choice.outcome_count
    for outcome in outcomes:
        branches[outcome] = True
    return make_diagram(choice, branches)


class _Unreachable:
    """Type of `UNREACHABLE`."""


UNREACHABLE = _Unreachable()
"""Placeholder leaf for combinations of outcomes that cannot occur."""


def fill_unreachable(choice: Choice, branches: list[Value], filler: Value = UNREACHABLE) -> Value:
    """Return the diagram with these branches, in which unreachable branches are replaced.

    The replacement is `filler` or, if `filler` is unreachable itself, the first reachable branch.
    """
    if UNREACHABLE not in branches:
        return make_diagram(choice, branches)
    if filler is UNREACHABLE:
        filler = next((branch for branch in branches if branch is not UNREACHABLE), UNREACHABLE)
    return (
        filler
        if filler is UNREACHABLE
        else make_diagram(choice, [filler if branch is UNREACHABLE else branch for branch in branches])
    )


class DiagramSizeError(RuleError):
    """Error (A0605): a diagram exceeds a size limit.

    The diagram has more than `MAX_CHOICES` choices on a path, or the operation needs more than `MAX_STEPS` states.
    """

    def __init__(self, count: str = "too many") -> None:
        hint = "let it depend on fewer choices, such as a sum over fewer layers"
        super().__init__(f"a value depends on {count} choices at once: its diagram is too large", hint, "A0605")


def cofactors(values: Iterable[Value], choice: Choice) -> Iterator[tuple[Value, ...]]:
    """Yield, for each outcome of `choice`, the cofactors: each value with `choice` fixed to this outcome.

    The values must not depend on choices before `choice` in the variable order.
    """
    return zip(*[v.branches if type(v) is Diagram and v.choice is choice else repeat(v) for v in values], strict=False)


def choice_order(choice: Choice) -> int:
    """Return the rank of a choice in the variable order of diagrams."""
    return choice.order


def cofactor(value: Value, choice: Choice, outcome: int) -> Value:
    """Return the cofactor of a value for one outcome of `choice`: the value with `choice` fixed to the outcome.

    The value must not depend on choices before `choice` in the variable order.
    """
    return value.branches[outcome] if type(value) is Diagram and value.choice is choice else value


def fold(value: Value, leaf: Callable[[Value], Result], node: Callable[[Diagram, list[Result]], Result]) -> Result:
    """Compute a result for a value bottom-up: `leaf(plain value)`, and `node(diagram, results of its branches)`.

    `node` is called once for each distinct diagram. The recursion is at most `MAX_CHOICES` deep.
    """
    memo: dict[Diagram, Result] = {}

    def walk(value: Value) -> Result:
        if type(value) is not Diagram:
            return leaf(value)
        if value not in memo:
            memo[value] = node(value, [walk(branch) for branch in value.branches])
        return memo[value]

    return walk(value)


def smallest_assignment(value: Value, predicate: Callable[[Value], bool]) -> dict[Choice, int] | None:
    """Return the assignment of the fewest choices that leads to a leaf satisfying `predicate`; None if no leaf does."""

    def extend(diagram: Diagram, below: list[dict[Choice, int] | None]) -> dict[Choice, int] | None:
        candidates = [(outcome, rest) for outcome, rest in enumerate(below) if rest is not None]
        if not candidates:
            return None
        outcome, rest = min(candidates, key=lambda item: len(item[1]))
        return {diagram.choice: outcome, **rest}

    return fold(value, lambda leaf: {} if predicate(leaf) else None, extend)


def leaves(value: Value) -> Iterator[Value]:
    """Yield each distinct leaf of a value once."""
    if type(value) is not Diagram:
        yield value
        return
    seen: set[Hashable] = set()
    stack = [value]
    while stack:
        node = stack.pop()
        kind = type(node)
        node_key = node if kind in SELF_KEYED else value_key(node)
        if node_key in seen:
            continue
        seen.add(node_key)
        if kind is Diagram:
            spend(len(node.branches) / 2)
            stack.extend(node.branches[::-1])
        else:
            yield node


def first_leaf(value: Value) -> Value:
    """Return the leaf that is reached if every choice has its first outcome."""
    while type(value) is Diagram:
        value = value.branches[0]
    return value


def leaf_conditions(value: Value) -> list[tuple[Value, Value]]:
    """Return each distinct leaf of a value, with the condition under which the value equals that leaf."""

    def join(diagram: Diagram, below: list[dict[Hashable, Value]]) -> dict[Hashable, Value]:
        leaf_keys = dict.fromkeys(leaf_key for conditions in below for leaf_key in conditions)
        spend(len(leaf_keys))
        return {key: make_diagram(diagram.choice, [c.get(key, False) for c in below]) for key in leaf_keys}

    conditions = fold(value, lambda leaf: {value_key(leaf): True}, join)
    return [(leaf, conditions[value_key(leaf)]) for leaf in leaves(value)]


def diagram_size(value: Value) -> int:
    """Return the number of distinct inner nodes of a diagram."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        node = stack.pop()
        if type(node) is Diagram and id(node) not in seen:
            seen.add(id(node))
            stack.extend(node.branches)
    return len(seen)


def describe_leaves(value: Value, show: Callable[[Value], str] = str) -> str:
    """Return the leaves of a value as text for a message: `16`, `16 or 32`, `16, 32, 48 or others`."""
    words = list(dict.fromkeys(show(leaf) for leaf in islice(leaves(value), _MAX_SHOWN + 1)))
    if len(words) > _MAX_SHOWN:
        words = [*words[: _MAX_SHOWN - 1], "others"]
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def support(*values: Value) -> list[Choice]:
    """Return the choices that the values depend on, in variable order."""
    choices: dict[Choice, None] = {}
    for value in values:
        if type(value) is Diagram:
            choices.update(dict.fromkeys(value.support or _compute_support(value)))
    return sorted(choices, key=choice_order)


def _compute_support(value: Diagram) -> tuple[Choice, ...]:
    """Compute and store the support of a diagram."""
    choices: dict[Choice, None] = {}
    seen: set[Diagram] = set()
    stack = [value]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            choices[node.choice] = None
            stack.extend([branch for branch in node.branches if type(branch) is Diagram])
    spend(len(seen))
    value.support = tuple(choices)
    return value.support


def value_at(value: Value, outcomes: Mapping[str, int]) -> Value:
    """Return the leaf for an architecture, which is given as outcomes by the paths of its active choices.

    For an inactive choice, which has no outcome, the first branch is taken; it cannot affect the leaf.
    """
    while type(value) is Diagram:
        value = value.branches[outcomes.get(value.choice.path, 0)]
    return value


def fix_choice(value: Value, choice: Choice, outcome: int) -> Value:
    """Return the value with one choice fixed to an outcome."""
    memo: dict[int, Value] = {}

    def walk(value: Value) -> Value:
        if type(value) is not Diagram or value.choice.order > choice.order:
            return value
        if value.choice is choice:
            return value.branches[outcome]
        if id(value) not in memo:
            memo[id(value)] = make_diagram(value.choice, [walk(branch) for branch in value.branches])
        return memo[id(value)]

    return walk(value)
