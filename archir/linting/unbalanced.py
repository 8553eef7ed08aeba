"""Alternatives of one choice that cost hardly comparable amounts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from archir.diagnostics.errors import Diagnostic
from archir.diagnostics.work import spend
from archir.diagrams.cases import Case, Choice, Value, support, varies
from archir.diagrams.conditions import outcomes
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.ir.typing import lifted
from archir.linting.subject import Owner, Subject, others

WIDEST = 20
"""How many times as much as another alternative one may cost."""
COSTS = ("parameters", "multiply-accumulates")

Pair = tuple[int, int]
Ends = tuple[Pair, Pair]
"""The least and the most of both costs."""


@dataclass
class _Total:
    """The least and the most of both costs of an alternative, over what else may be chosen."""

    least: list[int] = field(default_factory=lambda: [0, 0])
    most: list[int] = field(default_factory=lambda: [0, 0])
    scopes: set[str] = field(default_factory=set)

    def add(self, share: _Share, scope: str) -> None:
        """Take in a node. Weights of a scope are there once."""
        for cost in range(len(COSTS)):
            if cost == 0 and share.most[cost] > 0:
                if scope in self.scopes:
                    continue
                self.scopes.add(scope)
            self.least[cost] += share.least[cost] if share.always else 0
            self.most[cost] += share.most[cost]


@dataclass(frozen=True)
class _Gap:
    """Two alternatives of a choice, and what both cost: at most the cheap one, at least the dear one."""

    choice: Choice
    cost: str
    cheap: int
    dear: int
    least: int
    most: int

    @property
    def ratio(self) -> float:
        """How many times as much, at least."""
        return self.least / self.most


def spread(subject: Subject) -> Iterator[Diagnostic]:
    """A1401: one alternative costs more than 20 times as much as another, whatever else is chosen.

    The cost of an alternative is that of what is needed only where it is chosen, and of what depends on it. Those that
    cost nothing are left out: they are skip connections, pools and the like. Of numbers only what depends on them
    counts: depths and counts say themselves how many times as much there is.
    """
    totals = _totals(subject)
    for choices in subject.written:
        gaps = [gap for choice in choices if (gap := _widest(choice, totals)) is not None]
        if not gaps:
            continue
        worst = max(gaps, key=lambda gap: gap.ratio)
        cheap, dear = (worst.choice.alternatives[i] for i in (worst.cheap, worst.dear))
        yield Diagnostic(
            "A1401",
            f"`{worst.choice.path}`: `{dear}` costs {worst.ratio:,.0f} times as many {worst.cost} as `{cheap}`, "
            f"{worst.least:,} and {worst.most:,}",
            worst.choice.span,
            "let a first choice decide between what is small and what is large, or bring the alternatives closer",
            others(len(gaps) - 1),
            "warning",
        )


def _widest(choice: Choice, totals: dict[Owner, _Total]) -> _Gap | None:
    known = [(i, totals[choice.path, i]) for i in range(len(choice.alternatives)) if (choice.path, i) in totals]
    gaps = []
    for cost, name in enumerate(COSTS):
        costly = [(i, total) for i, total in known if total.most[cost] > 0]
        if len(costly) > 1:
            cheap, small = min(costly, key=lambda each: each[1].most[cost])
            dear, large = max(costly, key=lambda each: each[1].least[cost])
            gaps.append(_Gap(choice, name, cheap, dear, large.least[cost], small.most[cost]))
    widest = max(gaps, key=lambda gap: gap.ratio, default=None)
    return widest if widest is not None and widest.ratio > WIDEST else None


def _totals(subject: Subject) -> dict[Owner, _Total]:
    totals: dict[Owner, _Total] = defaultdict(_Total)
    known: dict[tuple[Op, tuple[TensorType, ...], int], list[_Share]] = {}
    for number, condition in subject.needed.items():
        node, types = subject.graph[number], subject.operand_types(number)
        question = node.op, types, id(condition)
        if question not in known:
            costs = lifted(_costs, node.op, types, condition, subject.graph.given)
            known[question] = list(_shares(subject, costs, condition))
        for share in known[question]:
            totals[share.owner].add(share, node.scope)
    return totals


@dataclass(frozen=True)
class _Share:
    """An alternative that a node's cost is part of, its ends there, and whether the node always is there."""

    owner: Owner
    least: Pair
    most: Pair
    always: bool


def _shares(subject: Subject, value: Value, condition: Value) -> Iterator[_Share]:
    """The shares of a node of this cost that is needed under this condition."""
    if value == (0, 0):
        return
    owners = subject.owners[id(condition)]
    whole, parts = _ends(value)
    found = [(owner, whole) for owner in owners if not _counts(subject.graph.decisions[owner[0]].choice)]
    owning = {path for path, _ in owners}
    for choice, ends in parts.items():
        if choice.take is None and choice.path not in owning:
            found += [((choice.path, outcome), ends[outcome]) for outcome in sorted(outcomes(choice, condition))]
    for owner, (least, most) in found:
        choice = subject.graph.decisions[owner[0]].choice
        yield _Share(owner, least, most, subject.always(condition, choice, owner[1]))


def _ends(value: Value) -> tuple[Ends, dict[Choice, list[Ends]]]:
    """The least and the most of both costs, and so for each outcome of each choice that they depend on."""
    choices = support(value)
    level = {choice: i for i, choice in enumerate(choices)}
    below: dict[Case, Ends] = {}
    found: list[list[Ends | None]] = [[None] * choice.outcomes for choice in choices]
    passing: list[Ends | None] = [None] * len(choices)
    """Of the paths that do not ask a choice."""

    def walk(value: Value) -> Ends:
        if not varies(value):
            return value, value
        if value not in below:
            own, here = found[level[value.choice]], level[value.choice]
            ends = None
            for outcome, branch in enumerate(value.branches):
                part = walk(branch)
                own[outcome], ends = _both(own[outcome], part), _both(ends, part)
                for i in range(here + 1, level[branch.choice] if varies(branch) else len(choices)):
                    passing[i] = _both(passing[i], part)
            assert ends is not None
            below[value] = ends
        return below[value]

    whole = walk(value)
    spend(len(below))
    return whole, {
        choice: [_both(past, part) for part in parts]
        for choice, parts, past in zip(choices, found, passing, strict=True)
    }


def _both(one: Ends | None, other: Ends | None) -> Any:
    """The ends of what lies between these or those."""
    if one is None or other is None:
        return one or other
    (a, b), (c, d) = one
    (e, f), (g, h) = other
    return (min(a, e), min(b, f)), (max(c, g), max(d, h))


def _counts(choice: Choice) -> bool:
    """Whether what is chosen is a number: how often something is there is what such a choice says."""
    return choice.take is None and all(isinstance(label, int) for label in choice.alternatives)


def _costs(op: Op, *types: TensorType) -> Pair:
    return sum(weight.elements for weight in op.weights(*types).values() if not weight.buffer), op.macs(*types)
