"""The cheapest and the dearest architecture, of all and with each alternative: exact, with witnesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from archir.costs.dynamic import Chain, State, Step


@dataclass(frozen=True)
class Extreme:
    """A least or greatest cost, and the outcomes of an architecture that has it (-1 for inactive choices).

    Where it could not be told exactly, it is that of the best architecture that was found, and `proved` is what no
    architecture is beyond. Where none was found, there are no outcomes, and `value` is that bound.
    """

    value: int
    codes: tuple[int, ...] | None
    proved: int | None = None

    @property
    def bound(self) -> int:
        """What no architecture is beyond."""
        return self.value if self.proved is None else self.proved

    @property
    def exact(self) -> bool:
        """Whether there is no better one."""
        return self.codes is not None and self.bound == self.value


class Move(Protocol):
    """What is added to each cost, and the state after it."""

    @property
    def costs(self) -> tuple[int, ...]:
        """What is added, cost by cost."""

    @property
    def after(self) -> State:
        """Where it leads."""


Levels = Sequence[Mapping[State, Sequence[Move]]]
Marginals = list[dict[int, tuple[int, int]]]
"""For each choice, the least and the greatest total with each of its outcomes."""


def extreme(chain: Chain, cost: int, sign: int, fixed: Mapping[int, int] | None = None) -> Extreme | None:
    """The least (sign 1) or greatest (-1) total of a cost; None if no architecture satisfies the conditions.

    `fixed` has the outcomes of some choices, by position, for where they are active. Of architectures that cost the
    same, the least has the first outcomes, the greatest the last.
    """
    levels: list[dict[State, list[Step]]] = chain.levels
    if fixed:
        levels = [_only(level, fixed[i]) if i in fixed else level for i, level in enumerate(chain.levels)]
    best = ahead(levels, cost, sign)
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


def _only(level: Mapping[State, Sequence[Step]], outcome: int) -> dict[State, list[Step]]:
    return {state: [step for step in steps if step.outcome in (outcome, -1)] for state, steps in level.items()}


def marginals(chain: Chain, cost: int) -> Marginals:
    """The least and the greatest total with each outcome of each choice, -1 standing for its being inactive."""
    sides = [_totals(chain, cost, sign) for sign in (1, -1)]
    return [
        {outcome: (least[outcome], greatest[outcome]) for outcome in sorted(least)}
        for least, greatest in zip(*sides, strict=True)
    ]


def _totals(chain: Chain, cost: int, sign: int) -> list[dict[int, int]]:
    """For each choice, the least (sign 1) or greatest total with each of its outcomes."""
    after, before = ahead(chain.levels, cost, sign), behind(chain.levels, cost, sign)
    found: list[dict[int, int]] = [{} for _ in chain.levels]
    for i, level in enumerate(chain.levels):
        for state, steps in level.items():
            for step in steps:
                if state in before[i] and step.after in after[i + 1]:
                    total = before[i][state] + sign * step.costs[cost] + after[i + 1][step.after]
                    known = found[i].get(step.outcome, total)
                    found[i][step.outcome] = min(known, total)
    constant = chain.constant[cost]
    return [{outcome: sign * total + constant for outcome, total in level.items()} for level in found]


def ahead(levels: Levels, cost: int, sign: int) -> list[dict[State, int]]:
    """For each level and state, the least that is still to come; states that lead nowhere are missing."""
    found: list[dict[State, int]] = [{} for _ in levels] + [{(): 0}]
    for i in reversed(range(len(levels))):
        after = found[i + 1]
        for state, steps in levels[i].items():
            values = [sign * step.costs[cost] + after[step.after] for step in steps if step.after in after]
            if values:
                found[i][state] = min(values)
    return found


def behind(levels: Levels, cost: int, sign: int) -> list[dict[State, int]]:
    """For each level and state, the least that led to it."""
    found: list[dict[State, int]] = [{(): 0}, *({} for _ in levels)]
    for i, level in enumerate(levels):
        for state, steps in level.items():
            if state in found[i]:
                for step in steps:
                    value = found[i][state] + sign * step.costs[cost]
                    found[i + 1][step.after] = min(value, found[i + 1].get(step.after, value))
    return found
