"""Values, choices and diagrams in the text and JSON forms of graphs.

As a tree, a diagram may be exponentially larger. So a `Writer` writes small diagrams in place and numbers
large ones: each is defined once, after those it refers to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from archir.diagnostics.errors import NO_SPAN, RuleError, Span, require
from archir.diagrams.mdd import MAX_OUTCOMES, Choice, Diagram, Label, Value, make_diagram, varies

MAX_NESTING = 100
"""Maximum nesting of brackets in a value that is read."""
MAX_DEPTH = 160
"""Maximum nesting of diagrams and tuples in a value that is read, references included."""
MAX_INLINE = 16
"""Maximum number of leaves (of the diagram as a tree) that are written in place."""
MAX_BITS = 4096
"""Maximum size of an integer that is read, in bits; the same as in `.arch` files."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Definition:
    """A block or operation that was the value of a net's parameter; text and JSON keep only its name."""

    name: str


class Writer(ABC, Generic[T]):
    """Base class of writers of values; `definitions` are the large diagrams written so far, by number."""

    def __init__(self) -> None:
        self.definitions: list[T] = []
        self._numbers: dict[Diagram, int] = {}
        self._sizes: dict[Diagram, int] = {}

    @abstractmethod
    def plain(self, value: Value) -> T:
        """Write a value that is not a diagram."""

    @abstractmethod
    def inline(self, path: str, branches: list[T]) -> T:
        """Write a diagram in place, given its choice's path and its written branches."""

    @abstractmethod
    def reference(self, number: int) -> T:
        """Write a reference to a diagram that was defined before."""

    def write(self, value: Value) -> T:
        """Write a value; a large diagram is added to `definitions` and written as a reference."""
        if not varies(value):
            return self.plain(value)
        if self._size(value) <= MAX_INLINE:
            return self._write_diagram(value)
        if value not in self._numbers:
            definition = self._write_diagram(value)  # first, so that its subdiagrams get smaller numbers
            self._numbers[value] = len(self.definitions)
            self.definitions.append(definition)
        return self.reference(self._numbers[value])

    def _write_diagram(self, value: Diagram) -> T:
        return self.inline(value.choice.path, [self.write(branch) for branch in value.branches])

    def _size(self, value: Value) -> int:
        if isinstance(value, tuple):
            return 1 + sum(self._size(item) for item in value)
        if not varies(value):
            return 1
        if value not in self._sizes:
            self._sizes[value] = sum(self._size(branch) for branch in value.branches)
        return self._sizes[value]


def new_choice(
    path: str, alternatives: Sequence[Label], order: int, k: int | None, tags: Sequence[str], span: Span = NO_SPAN
) -> Choice:
    """Create a choice that was read from outside. Raises RuleError unless `.arch` programs could declare it."""
    count = len(alternatives)
    require(0 < count <= MAX_OUTCOMES, f"a choice has 1 to {MAX_OUTCOMES} alternatives, not {count}")
    require(len({str(label) for label in alternatives}) == count, f"`{path}` has an alternative twice")
    require(k is None or 1 <= k <= count, f"cannot take {k} of {count}")
    choice = Choice(path, tuple(alternatives), order, k, frozenset(tags), span)
    require(choice.outcome_count <= MAX_OUTCOMES, f"a choice of more than {MAX_OUTCOMES} outcomes is too large")
    return choice


def new_diagram(choice: Choice, branches: Sequence[Value]) -> Value:
    """Create a diagram that was read from outside.

    Raises RuleError unless it has a branch per outcome, its branches depend on later choices only, and it nests
    no deeper than `MAX_DEPTH`.
    """
    depth = 1 + max(map(_depth, branches), default=0)
    require(depth <= MAX_DEPTH, f"cases and tuples nest deeper than {MAX_DEPTH} levels")
    count = choice.outcome_count
    require(len(branches) == count, f"`{choice}` has {count} outcomes, but {len(branches)} branches are given")
    for branch in branches:
        if varies(branch) and branch.choice.order <= choice.order:
            raise RuleError(f"`{branch.choice}` is tested below `{choice}`", "choices are tested in their order")
    node = make_diagram(choice, branches)
    if varies(node):
        _depths[node] = depth
    return node


_depths: WeakKeyDictionary[Diagram, int] = WeakKeyDictionary()
"""Nesting of each diagram that was read, tuples included."""


def _depth(value: Value) -> int:
    if varies(value):
        return _depths.get(value, value.depth)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, tuple) else 0
