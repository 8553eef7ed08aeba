"""Values, choices and cases on their way to and from text and JSON.

A diagram may be exponentially larger as a tree. So a `Writer` writes small cases in place, and gives large ones a
number: they are written once, after the ones they refer to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from archir.diagnostics.errors import NOWHERE, RuleError, Span, require
from archir.diagrams.cases import MOST_OUTCOMES, Case, Choice, Label, Value, case, varies

MOST_NESTING = 100
"""Brackets inside brackets, when values are read."""
MOST_DEPTH = 160
"""Cases and tuples inside each other, when values are read."""
MOST_INLINE = 16
"""Leaves of a case that is written in place."""
MOST_BITS = 4096
"""Of an integer that is read; the same as in `.arch` files."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Definition:
    """A block or operation that a net's parameter stood for; its name is all that text and JSON keep of it."""

    name: str


class Writer(ABC, Generic[T]):
    """Writes values; `definitions` are the large cases met so far, by number."""

    def __init__(self) -> None:
        self.definitions: list[T] = []
        self._numbers: dict[Case, int] = {}
        self._sizes: dict[Case, int] = {}

    @abstractmethod
    def plain(self, value: Value) -> T:
        """A value that is no case."""

    @abstractmethod
    def inline(self, path: str, branches: list[T]) -> T:
        """A case of a choice."""

    @abstractmethod
    def reference(self, number: int) -> T:
        """A case that was defined before."""

    def write(self, value: Value) -> T:
        """Any value."""
        if not varies(value):
            return self.plain(value)
        if self._size(value) <= MOST_INLINE:
            return self._case(value)
        if value not in self._numbers:
            definition = self._case(value)  # numbers its parts first
            self._numbers[value] = len(self.definitions)
            self.definitions.append(definition)
        return self.reference(self._numbers[value])

    def _case(self, value: Case) -> T:
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
    path: str, alternatives: Sequence[Label], order: int, take: int | None, tags: Sequence[str], span: Span = NOWHERE
) -> Choice:
    """A choice from outside. RuleError unless it is one that `.arch` files could make."""
    count = len(alternatives)
    require(0 < count <= MOST_OUTCOMES, f"a choice has 1 to {MOST_OUTCOMES} alternatives, not {count}")
    require(len({str(label) for label in alternatives}) == count, f"`{path}` has an alternative twice")
    require(take is None or 1 <= take <= count, f"cannot take {take} of {count}")
    choice = Choice(path, tuple(alternatives), order, take, frozenset(tags), span)
    require(choice.outcomes <= MOST_OUTCOMES, f"a choice of more than {MOST_OUTCOMES} outcomes is too large")
    return choice


def new_case(choice: Choice, branches: Sequence[Value]) -> Value:
    """A case from outside. RuleError unless it has a branch per outcome and its branches test later choices only."""
    depth = 1 + max(map(_depth, branches), default=0)
    require(depth <= MOST_DEPTH, f"cases and tuples nest deeper than {MOST_DEPTH} levels")
    wanted = choice.outcomes
    require(len(branches) == wanted, f"`{choice}` has {wanted} outcomes, but {len(branches)} branches are given")
    for branch in branches:
        if varies(branch) and branch.choice.order <= choice.order:
            raise RuleError(f"`{branch.choice}` is tested below `{choice}`", "choices are tested in their order")
    made = case(choice, branches)
    if varies(made):
        _depths[made] = depth
    return made


_depths: WeakKeyDictionary[Case, int] = WeakKeyDictionary()


def _depth(value: Value) -> int:
    if varies(value):
        return _depths.get(value, value.depth)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, tuple) else 0
