"""One budget of work for all that a program makes happen: reading, elaborating, proving, counting, drawing, showing.

A unit is about a microsecond of one processor, and at most a few hundred bytes. Whatever repeats something as often as
a program says draws on the budget at hand; where nobody set one, work is not bounded.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from math import inf, isinf
from typing import Any

from archir.diagnostics.errors import RuleError

MOST_WORK = 1_600_000
"""The budget of a request to a service: a fifth more than the largest example takes. A command has ten times that."""
TOO_MUCH = "A0602"
"""What a spent budget is called."""
MOST_HINTS = 100
"""Names that are compared with all that are known; finding the nearest takes long."""
MOST = 10**6
"""Of what is counted. What asks for more is a mistake, or was written to waste somebody's time."""
MOST_SEED = 2**62
"""Two of them can be added in 64 bits."""
MOST_THREADS = 1024


class WorkError(RuleError):
    """The budget is spent. What is tried after that is refused, too."""

    def __init__(self) -> None:
        super().__init__("this takes too much work", "raise the limit with --limit NODES", TOO_MUCH)


class Work:
    """What may still be done, and what was done that need not be done again."""

    __slots__ = ("hints", "known", "left", "most", "outer")

    def __init__(self, most: float, outer: Work | None = None) -> None:
        self.most = self.left = most
        self.hints = MOST_HINTS
        self.known: dict[Hashable, Any] = {} if outer is None else outer.known
        self.outer = outer
        """The budget in whose place this one is."""

    @property
    def spent(self) -> float:
        """What was done."""
        return self.most - self.left

    def spend(self, amount: float) -> None:
        """Raise WorkError if so much is not left."""
        self.left -= amount
        if self.left < 0:
            raise WorkError


_current: ContextVar[Work | None] = ContextVar("work", default=None)
at_hand = _current.get
"""The budget at hand, if there is one: for what draws so often that calling `spend` would take longer than it does."""


def current() -> Work:
    """The budget at hand."""
    return _current.get() or Work(inf)


def spend(amount: float) -> None:
    """Draw on the budget at hand. Raises WorkError if that is too much."""
    work = _current.get()
    if work is not None:
        work.left -= amount
        if work.left < 0:
            raise WorkError


def charge(amount: float) -> None:
    """Draw on the budget at hand what is left of it at most: for what looks itself whether anything is left."""
    work = _current.get()
    if work is not None:
        work.left = max(min(work.left, 0), work.left - amount)


def afford(amount: float) -> None:
    """Raise WorkError if so much is not left; nothing is drawn."""
    if current().left < amount:
        raise WorkError


@contextmanager
def portion(share: float) -> Iterator[None]:
    """Work that may take a share of what is left; what comes after has the rest. Raises WorkError beyond it."""
    work = current()
    kept = 0.0 if isinf(work.left) else work.left * (1 - share)
    work.left -= kept
    try:
        yield
    finally:
        work.left += kept


@contextmanager
def anew(times: float = 1) -> Iterator[None]:
    """Work within a budget of its own, as large as the one at hand was, or so many times as large."""
    before = current()
    work = Work(before.most * times, before)
    token = _current.set(work)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def bounded(most: float = MOST_WORK) -> Iterator[Work]:
    """Work within a budget: the one at hand, or else a new one of so many units."""
    work = _current.get()
    if work is not None:
        yield work
        return
    token = _current.set(Work(most))
    try:
        yield current()
    finally:
        _current.reset(token)


_NOTHING = -1e300
"""Less than nothing, and still a number: shares of it are less than nothing, too."""


def stop(context: Context) -> None:
    """Spend all budgets of work that another thread does in a context: it ends at its next unit."""
    work = context.get(_current)
    while work is not None:
        work.most = work.left = _NOTHING
        work = work.outer
