"""Values, choices and diagrams in the text and JSON forms of graphs.

A diagram written as a tree may be exponentially larger than the diagram. A `Writer` therefore writes only small
diagrams in place. Large diagrams get numbered definitions, each of which comes after the definitions that it refers to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from archir.diagnostics.errors import NO_SPAN, RuleError, Span, require
from archir.diagrams.diagram import MAX_OUTCOMES, Choice, Diagram, Label, Value, make_diagram, varies

MAX_NESTING = 100
"""Maximum nesting of brackets in a value that is read."""
MAX_DEPTH = 160
"""Maximum nesting of diagrams and tuples in a value that is read, including definitions it refers to."""
MAX_INLINE = 16
"""Maximum number of leaves of a diagram that is written in place; leaves are counted in the tree form."""
MAX_BITS = 4096
"""Maximum size of an integer in the input, in bits; the same as in `.arch` files."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Definition:
    """The value of a net's parameter that is a block or an operation; the text and JSON forms keep only its name."""

    name: str


class Writer(ABC, Generic[T]):
    """Base class of value writers.

    `definitions` are the large diagrams written so far, in the order of their numbers.
    """

    def __init__(self) -> None:
        self.definitions: list[T] = []
        self._numbers: dict[Diagram, int] = {}
        self._sizes: dict[Diagram, int] = {}

    @abstractmethod
    def plain(self, value: Value) -> T:
        """Write a value that is not a diagram."""

    @abstractmethod
    def inline(self, path: str, branches: list[T]) -> T:
        """Write a diagram in place, given the path of its choice and its branches as already written."""

    @abstractmethod
    def reference(self, number: int) -> T:
        """Write a reference to the diagram with this number in `definitions`."""

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
    """Create a choice from untrusted input. Raises RuleError unless a `.arch` program could declare it."""
    count = len(alternatives)
    require(0 < count <= MAX_OUTCOMES, f"a choice has 1 to {MAX_OUTCOMES} alternatives, not {count}")
    require(len({str(label) for label in alternatives}) == count, f"`{path}` has an alternative twice")
    require(k is None or 1 <= k <= count, f"cannot take {k} of {count}")
    choice = Choice(path, tuple(alternatives), order, k, frozenset(tags), span)
    require(choice.outcome_count <= MAX_OUTCOMES, f"a choice of more than {MAX_OUTCOMES} outcomes is too large")
    return choice


def new_diagram(choice: Choice, branches: Sequence[Value]) -> Value:
    """Create a diagram from untrusted input.

    Raises RuleError unless the diagram has one branch per outcome, the branches depend only on choices later in the
    variable order, and the nesting is at most `MAX_DEPTH`.
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
"""Nesting depth of each diagram that was read, counting tuples."""


def _depth(value: Value) -> int:
    if varies(value):
        return _depths.get(value, value.depth)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, tuple) else 0
