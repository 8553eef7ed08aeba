"""Lint rule for choices whose alternatives differ greatly in cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from archir.diagnostics.errors import Diagnostic
from archir.diagnostics.work import spend
from archir.diagrams.conditions import possible_outcomes
from archir.diagrams.diagram import Choice, Diagram, Value, fold, support, varies
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.ir.typing import lift_rule
from archir.linting.subject import Owner, Subject, more_note

MAX_RATIO = 20
"""Largest ratio between the costs of two alternatives that causes no warning."""
COSTS = ("parameters", "multiply-accumulates")
"""The compared costs, as named in messages."""

Pair = tuple[int, int]
"""Both costs: (number of trainable weights, multiply-accumulates)."""
CostRange = tuple[Pair, Pair]
"""(minimum, maximum) of both costs."""


@dataclass
class _Total:
    """Minimum and maximum of both costs of an alternative, over all combinations of other choices."""

    minimum: list[int] = field(default_factory=lambda: [0, 0])
    maximum: list[int] = field(default_factory=lambda: [0, 0])
    scopes: set[str] = field(default_factory=set)

    def add(self, share: _Share, scope: str) -> None:
        """Add the contribution of a node; weights of a scope count once."""
        for cost in range(len(COSTS)):
            if cost == 0 and share.maximum[cost] > 0:
                if scope in self.scopes:
                    continue
                self.scopes.add(scope)
            self.minimum[cost] += share.minimum[cost] if share.always else 0
            self.maximum[cost] += share.maximum[cost]


@dataclass(frozen=True)
class _Gap:
    """Two alternatives of a choice with very different costs: the maximum of the cheap one, the minimum of the
    expensive one."""

    choice: Choice
    cost: str
    cheap: int
    expensive: int
    expensive_min: int
    cheap_max: int

    @property
    def ratio(self) -> float:
        """Lower bound on the ratio between the two costs."""
        return self.expensive_min / self.cheap_max


def unbalanced_costs(subject: Subject) -> Iterator[Diagnostic]:
    """A1401: warn if an alternative costs more than 20 times as much as another, whatever the other choices are.

    The cost of an alternative includes all nodes that are reachable only if it is chosen, and all nodes whose
    sizes depend on it. Alternatives without cost, such as skip connections and pools, are left out. For choices
    between integers, only sizes that depend on them count: it is obvious that depths and counts multiply the
    cost.
    """
    totals = _totals(subject)
    for choices in subject.choices_by_place:
        gaps = [gap for choice in choices if (gap := _widest_gap(choice, totals)) is not None]
        if not gaps:
            continue
        worst = max(gaps, key=lambda gap: gap.ratio)
        cheap, expensive = (worst.choice.alternatives[i] for i in (worst.cheap, worst.expensive))
        yield Diagnostic(
            "A1401",
            f"`{worst.choice.path}`: `{expensive}` costs {worst.ratio:,.0f} times as many {worst.cost} as `{cheap}`, "
            f"{worst.expensive_min:,} and {worst.cheap_max:,}",
            worst.choice.span,
            "let a first choice decide between small and large alternatives, or make their costs more similar",
            more_note(len(gaps) - 1),
            "warning",
        )


def _widest_gap(choice: Choice, totals: dict[Owner, _Total]) -> _Gap | None:
    """Return the pair of alternatives with the largest cost ratio; None if that is at most `MAX_RATIO`."""
    totals_by_position = [
        (i, totals[choice.path, i]) for i in range(len(choice.alternatives)) if (choice.path, i) in totals
    ]
    gaps = []
    for cost, name in enumerate(COSTS):
        costly = [(i, total) for i, total in totals_by_position if total.maximum[cost] > 0]
        if len(costly) > 1:
            cheap, cheap_total = min(costly, key=lambda each: each[1].maximum[cost])
            expensive, expensive_total = max(costly, key=lambda each: each[1].minimum[cost])
            gaps.append(_Gap(choice, name, cheap, expensive, expensive_total.minimum[cost], cheap_total.maximum[cost]))
    widest = max(gaps, key=lambda gap: gap.ratio, default=None)
    return widest if widest is not None and widest.ratio > MAX_RATIO else None


def _totals(subject: Subject) -> dict[Owner, _Total]:
    """Return the costs of each alternative that has any."""
    totals: dict[Owner, _Total] = defaultdict(_Total)
    shares: dict[tuple[Op, tuple[TensorType, ...], int], list[_Share]] = {}
    for node_id, condition in subject.needed.items():
        node, types = subject.graph[node_id], subject.operand_types(node_id)
        key = node.op, types, id(condition)
        if key not in shares:
            costs = lift_rule(_node_costs, node.op, types, condition, subject.graph.assumptions)
            shares[key] = list(_shares(subject, costs, condition))
        for share in shares[key]:
            totals[share.owner].add(share, node.scope)
    return totals


@dataclass(frozen=True)
class _Share:
    """Contribution of a node to the costs of an alternative: minimum and maximum; `always` is True if the node is
    always reachable when the alternative is chosen."""

    owner: Owner
    minimum: Pair
    maximum: Pair
    always: bool


def _shares(subject: Subject, value: Value, condition: Value) -> Iterator[_Share]:
    """Yield a node's contributions to the costs of alternatives, given its costs and its reachability condition."""
    if value == (0, 0):
        return
    owners = subject.owners[id(condition)]
    total, parts = _cost_ranges(value)
    owned = [(owner, total) for owner in owners if not _is_integer_choice(subject.graph.decisions[owner[0]].choice)]
    owning = {path for path, _ in owners}
    for choice, ranges in parts.items():
        if choice.k is None and choice.path not in owning:
            owned += [
                ((choice.path, outcome), ranges[outcome]) for outcome in sorted(possible_outcomes(choice, condition))
            ]
    for owner, (minimum, maximum) in owned:
        choice = subject.graph.decisions[owner[0]].choice
        yield _Share(owner, minimum, maximum, subject.holds_for(condition, choice, owner[1]))


def _cost_ranges(value: Value) -> tuple[CostRange, dict[Choice, list[CostRange]]]:
    """Return the overall range of both costs, and their ranges per outcome of each choice on which they depend."""
    choices = support(value)
    level = {choice: i for i, choice in enumerate(choices)}
    ranges: list[list[CostRange | None]] = [[None] * choice.outcome_count for choice in choices]
    skipping: list[CostRange | None] = [None] * len(choices)
    """For each choice, the range over the paths of the diagram that skip it."""

    def union_of_branches(diagram: Diagram, parts: list[CostRange]) -> CostRange:
        spend(1)
        position = level[diagram.choice]
        outcome_ranges = ranges[position]
        for outcome, (branch, part) in enumerate(zip(diagram.branches, parts, strict=True)):
            outcome_ranges[outcome] = _union(outcome_ranges[outcome], part)
            for i in range(position + 1, level[branch.choice] if varies(branch) else len(choices)):
                skipping[i] = _union(skipping[i], part)
        return reduce(_union, parts)

    total = fold(value, lambda leaf: (leaf, leaf), union_of_branches)
    return total, {
        choice: [_union(skipped, part) for part in parts]
        for choice, parts, skipped in zip(choices, ranges, skipping, strict=True)
    }


def _union(first: CostRange | None, second: CostRange | None) -> Any:
    """Return the smallest range that contains both ranges; None stands for an empty one."""
    if first is None or second is None:
        return first or second
    (a, b), (c, d) = first
    (e, f), (g, h) = second
    return (min(a, e), min(b, f)), (max(c, g), max(d, h))


def _is_integer_choice(choice: Choice) -> bool:
    """Return True if a choice selects one of several integers, such as the number of repetitions of a block."""
    return choice.k is None and all(isinstance(label, int) for label in choice.alternatives)


def _node_costs(op: Op, *types: TensorType) -> Pair:
    """Return the number of trainable weights, and the multiply-accumulates, of an operation."""
    return sum(weight.elements for weight in op.weights(*types).values() if not weight.buffer), op.macs(*types)
