"""Cheapest and most expensive architectures of a chain, overall and for each outcome of each choice.

Results are exact, and come with architectures that attain them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from archir.costs.chain import Chain, State, Step


@dataclass(frozen=True)
class Extreme:
    """Minimum or maximum of a cost, and the outcomes of an architecture that attains it (-1 for inactive choices).

    If the exact extreme is unknown, `value` and `codes` are those of the best architecture found, and `proved_bound` is
    a bound that no architecture passes. If no architecture was found, `codes` is None and `value` is the bound.
    """

    value: int
    codes: tuple[int, ...] | None
    proved_bound: int | None = None

    @property
    def bound(self) -> int:
        """Proved bound: no architecture costs less than the bound of a minimum, or more than that of a maximum."""
        return self.value if self.proved_bound is None else self.proved_bound

    @property
    def exact(self) -> bool:
        """Whether `value` is proved to be the extreme."""
        return self.codes is not None and self.bound == self.value


class Transition(Protocol):
    """Interface of steps of a chain and of merged steps: costs, and the next state."""

    @property
    def costs(self) -> tuple[int, ...]:
        """What the step adds to each cost."""

    @property
    def after(self) -> State:
        """State after the step."""


Levels = Sequence[Mapping[State, Sequence[Transition]]]
Marginals = list[dict[int, tuple[int, int]]]
"""For each choice, the minimum and maximum total of the architectures with each of its outcomes."""


def extreme(chain: Chain, cost: int, sign: int, fixed: Mapping[int, int] | None = None) -> Extreme | None:
    """Return the minimum (`sign` 1) or maximum (`sign` -1) total; None if the conditions are unsatisfiable.

    `fixed` maps positions of choices to outcomes, which are required wherever these choices are active. Among
    architectures of equal cost, the minimum has the first outcomes, and the maximum the last.
    """
    levels: list[dict[State, list[Step]]] = chain.levels
    if fixed:
        levels = [_fix_outcome(level, fixed[i]) if i in fixed else level for i, level in enumerate(chain.levels)]
    best = cost_to_go(levels, cost, sign)
    if () not in best[0]:
        return None
    state: State = ()
    codes = []
    for i, level in enumerate(levels):
        value = best[i][state]
        for step in level[state] if sign == 1 else reversed(level[state]):
            if step.after in best[i + 1] and sign * step.costs[cost] + best[i + 1][step.after] == value:
                codes.append(step.outcome)
                state = step.after
                break
    return Extreme(sign * best[0][()] + chain.constant[cost], tuple(codes))


def _fix_outcome(level: Mapping[State, Sequence[Step]], outcome: int) -> dict[State, list[Step]]:
    """Return a level of the chain with only the steps where the choice has one given outcome or is inactive."""
    return {state: [step for step in steps if step.outcome in (outcome, -1)] for state, steps in level.items()}


def marginals(chain: Chain, cost: int) -> Marginals:
    """Return, for each outcome of each choice, the minimum and maximum total of the architectures with this outcome.

    Outcome -1 means that the choice is inactive.
    """
    sides = [_outcome_extremes(chain, cost, sign) for sign in (1, -1)]
    return [
        {outcome: (least[outcome], greatest[outcome]) for outcome in sorted(least)}
        for least, greatest in zip(*sides, strict=True)
    ]


def _outcome_extremes(chain: Chain, cost: int, sign: int) -> list[dict[int, int]]:
    """Return the minimum (`sign` 1) or maximum (`sign` -1) total with each outcome of each choice."""
    after, before = cost_to_go(chain.levels, cost, sign), cost_so_far(chain.levels, cost, sign)
    extremes: list[dict[int, int]] = [{} for _ in chain.levels]
    for i, level in enumerate(chain.levels):
        for state, steps in level.items():
            for step in steps:
                if state in before[i] and step.after in after[i + 1]:
                    total = before[i][state] + sign * step.costs[cost] + after[i + 1][step.after]
                    best = extremes[i].get(step.outcome, total)
                    extremes[i][step.outcome] = min(best, total)
    constant = chain.constant[cost]
    return [{outcome: sign * total + constant for outcome, total in level.items()} for level in extremes]


def cost_to_go(levels: Levels, cost: int, sign: int) -> list[dict[State, int]]:
    """Return, for each level and state, the minimum cost from the state to the end; dead ends are missing.

    With `sign` -1, costs are negated.
    """
    costs_to_end: list[dict[State, int]] = [{} for _ in levels] + [{(): 0}]
    for i in reversed(range(len(levels))):
        after = costs_to_end[i + 1]
        for state, steps in levels[i].items():
            values = [sign * step.costs[cost] + after[step.after] for step in steps if step.after in after]
            if values:
                costs_to_end[i][state] = min(values)
    return costs_to_end


def cost_so_far(levels: Levels, cost: int, sign: int) -> list[dict[State, int]]:
    """Return, for each level and state, the minimum cost from the start to the state.

    With `sign` -1, costs are negated.
    """
    costs_from_start: list[dict[State, int]] = [{(): 0}, *({} for _ in levels)]
    for i, level in enumerate(levels):
        for state, steps in level.items():
            if state in costs_from_start[i]:
                for step in steps:
                    value = costs_from_start[i][state] + sign * step.costs[cost]
                    costs_from_start[i + 1][step.after] = min(value, costs_from_start[i + 1].get(step.after, value))
    return costs_from_start
