"""Work budget: a fuel counter that bounds the work done for untrusted programs.

The budget covers parsing, elaboration, proving, counting and drawing. One unit is about a microsecond on one processor,
and stands for at most a few hundred bytes of memory. Loops whose length the program controls spend units of the current
budget (a context variable). Without a current budget, work is unbounded.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import replace
from math import inf, isinf
from typing import Any

from archir.diagnostics.errors import LimitError, RuleError, Span

MAX_WORK = 1_600_000
"""Maximum work of one request to a service, in units: 20% more than the largest example needs.

A command of the command line gets ten times as much.
"""
WORK_CODE = "A0602"
"""Diagnostic code that reports an exhausted work budget."""
MAX_HINTS = 100
"""Maximum number of misspelled names per budget that get a "did you mean" hint.

Finding the closest name is slow.
"""
MAX_COUNT = 10**6
"""Maximum value of a setting that is a count; anything larger is a mistake or a denial-of-service attempt."""
MAX_SEED = 2**62
"""Maximum seed: the sum of two seeds fits in 64 bits."""
MAX_THREADS = 1024
"""Maximum number of threads that a setting may ask for."""


class WorkError(RuleError, LimitError):
    """The work budget is exhausted. Every later `spend` on the same budget raises this error again."""

    def __init__(self) -> None:
        super().__init__("this exceeds the work limit", "raise the limit with --max-work UNITS", WORK_CODE)

    def with_span(self, span: Span) -> LimitError:
        """Return this error as a LimitError located at `span`."""
        return LimitError(replace(self.diagnostics[0], span=span))


class WorkBudget:
    """A work budget: the units left, and a cache of results that were computed within it."""

    __slots__ = ("cache", "hints_left", "left", "limit", "outer")

    def __init__(self, limit: float, outer: WorkBudget | None = None) -> None:
        self.limit = self.left = limit
        self.hints_left = MAX_HINTS
        self.cache: dict[Hashable, Any] = {} if outer is None else outer.cache
        self.outer = outer
        """The enclosing budget that this one replaces for the duration of a block, or None; both share one `cache`."""

    @property
    def spent(self) -> float:
        """Units spent so far."""
        return self.limit - self.left

    def spend(self, amount: float) -> None:
        """Subtract `amount` units. Raises WorkError if fewer were left."""
        self.left -= amount
        if self.left < 0:
            raise WorkError


_current: ContextVar[WorkBudget | None] = ContextVar("work", default=None)
budget_or_none = _current.get
"""Return the current budget, or None if there is none.

Inner loops use this function to subtract units themselves, because calling `spend` would cost more than the work it
counts.
"""


def current_budget() -> WorkBudget:
    """Return the current budget, or a new unlimited one if none is set."""
    return _current.get() or WorkBudget(inf)


def spend(amount: float) -> None:
    """Subtract `amount` units from the current budget. Raises WorkError if fewer were left."""
    budget = _current.get()
    if budget is not None:
        budget.left -= amount
        if budget.left < 0:
            raise WorkError


def spend_up_to(amount: float) -> None:
    """Subtract `amount` units, or all remaining units if there are fewer; never raise WorkError.

    For callers that check on their own how much work is left.
    """
    budget = _current.get()
    if budget is not None:
        budget.left = max(min(budget.left, 0), budget.left - amount)


def require_work(amount: float) -> None:
    """Raise WorkError if fewer than `amount` units are left, without subtracting any."""
    if current_budget().left < amount:
        raise WorkError


@contextmanager
def budget_share(fraction: float) -> Iterator[None]:
    """Limit the work in the `with` block to a fraction of the units left.

    The remainder is reserved for the code after the block. Raises WorkError if the block exceeds its fraction.
    """
    budget = current_budget()
    reserved = 0.0 if isinf(budget.left) else budget.left * (1 - fraction)
    budget.left -= reserved
    try:
        yield
    finally:
        budget.left += reserved


@contextmanager
def fresh_budget(factor: float = 1) -> Iterator[None]:
    """Run the `with` block with a separate budget, whose limit is `factor` times that of the current budget."""
    outer = current_budget()
    budget = WorkBudget(outer.limit * factor, outer)
    token = _current.set(budget)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def work_budget(max_work: float = MAX_WORK) -> Iterator[WorkBudget]:
    """Run the `with` block within a work budget: the current one if there is one, else a new one of `max_work`
    units."""
    budget = _current.get()
    if budget is not None:
        yield budget
        return
    token = _current.set(WorkBudget(max_work))
    try:
        yield current_budget()
    finally:
        _current.reset(token)


_EXHAUSTED = -1e300
"""Number of units left in an exhausted budget.

It is negative, finite, and so large in magnitude that every fraction of it is still negative.
"""


def exhaust_budget(context: Context) -> None:
    """Exhaust all budgets of another thread's context; that thread raises WorkError at its next `spend`."""
    budget = context.get(_current)
    while budget is not None:
        budget.limit = budget.left = _EXHAUSTED
        budget = budget.outer
