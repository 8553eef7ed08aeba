"""The least and the greatest costs where choices are too entangled for a chain: a bound, and the best that is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import TypeAlias

from archir.costs.extremes import elimination, forward
from archir.costs.extremes.elimination import Least
from archir.costs.extremes.witnesses import Extreme
from archir.costs.rows import Followed
from archir.costs.sums import Product, Term, weaker
from archir.costs.tables import Codes, Numbers
from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import TOO_MUCH, WorkError, portion
from archir.diagrams.cases import Choice, EntangledError, Value, varies
from archir.ir.graph import Decision
from archir.utils.arrays import NDArray, np

DRAWN, ROUNDS = 512, 12
"""Architectures that are looked at to begin with, and rounds in which the best is changed in one choice."""
MOST_NEIGHBOURS = 4_096
A_TRY = 1 / 4
"""Of the work that is left, what may be spent on finding out that too many architectures are worth going on with."""
A_ROUND = 1 / 8
"""Of the work that is left, what looking at the neighbours of an architecture may take."""
A_DRAW = 1 / 2
"""Of the work that is left, what finding out how to draw may take."""

Draw: TypeAlias = "Callable[[int, np.random.Generator], Codes]"


class Ends:
    """Searches the ends of costs. `draw` draws architectures."""

    def __init__(self, order: Sequence[Decision], conditions: Sequence[Value], draw: Draw) -> None:
        self.order, self.conditions, self.draw = order, conditions, draw
        self._index = {decision.choice.path: i for i, decision in enumerate(order)}
        self._too_many: float = inf  # terms, for which going forward takes too much work

    def extreme(
        self, terms: Mapping[Term, int], sign: int, exact: bool, costs: Callable[[Codes], Numbers]
    ) -> Extreme | None:
        """The least (sign 1) or greatest (-1) cost; None if no architecture satisfies the conditions.

        `terms` add up to the cost; if not `exact`, to at most (sign 1) or at least (-1) the cost.
        """
        exact = exact and not any(type(term) is Product for term in terms)
        values = [weaker(term, times * sign) for term, times in terms.items()]
        proved = self._proved(values)
        if proved is None:
            return None
        led = [[proved.outcomes[d.choice.path] for d in self.order]] if proved.outcomes is not None else []
        codes = self._settled(np.array(led, np.int16).reshape(len(led), len(self.order)))
        known: int | None = None
        if not (proved.exact and exact and len(codes)):
            codes, known = self._improved(np.concatenate([codes, self._drawn]), lambda rows: costs(rows) * sign)
        if not len(codes):
            return Extreme(sign * proved.proved, None)
        value = int(costs(codes[:1])[0]) if known is None else sign * known
        assert proved.proved <= sign * value, "an architecture is beyond what was proved"
        return Extreme(value, tuple(codes[0].tolist()), sign * proved.proved)

    def _proved(self, terms: Sequence[Value]) -> Least | None:
        if len(terms) < self._too_many:
            try:
                with portion(A_TRY):
                    return forward.least(terms, self.conditions, self.order)
            except EntangledError:
                pass
            except WorkError:
                self._too_many = len(terms)
        return elimination.least(terms, self.conditions, self.order)

    @cached_property
    def _drawn(self) -> Codes:
        try:
            with portion(A_DRAW):
                return self.draw(DRAWN, np.random.default_rng(0))
        except ArchError as error:
            if error.diagnostics[0].code != TOO_MUCH:
                raise
            return np.zeros((0, len(self.order)), np.int16)

    def _improved(self, codes: Codes, costs: Callable[[Codes], Numbers]) -> tuple[Codes, int | None]:
        """One architecture: the cheapest of these, changed in one choice at a time for as long as that helps, and is no
        more work than a share of what is left; and what it costs, if that was worked out."""
        best: Codes = codes[:0]
        known: int | None = None
        for _ in range(ROUNDS if len(codes) else 0):
            found = _afforded(costs, codes)
            if found is None and known is None:
                return codes[:1], None
            if found is None:
                break
            place = int(np.argmin(found))
            if known is not None and found[place] >= known:
                break
            best, known = codes[place : place + 1], int(found[place])
            codes = self._settled(self._neighbours(best[0]))
            if not len(codes):
                break
        return best, known

    def _neighbours(self, codes: NDArray[np.int16]) -> Codes:
        """Rows that differ in one choice."""
        changes = [
            (position, outcome)
            for position, decision in enumerate(self.order)
            if codes[position] >= 0
            for outcome in _some(decision.choice)
        ][:MOST_NEIGHBOURS]
        rows = np.repeat(np.maximum(codes, 0)[None], len(changes), axis=0)
        for row, (position, outcome) in zip(rows, changes, strict=True):
            row[position] = outcome
        return rows

    def _settled(self, rows: Codes) -> Codes:
        """The rows that are architectures, with -1 for the choices that are not there."""
        rows = rows.copy()
        for position, active in enumerate(self._actives):
            if active is not None:
                rows[active.at(rows) == 0, position] = -1
        fine = np.ones(len(rows), bool)
        for condition in self._followed:
            fine &= condition.at(rows) == 1
        return rows[fine]

    @cached_property
    def _actives(self) -> list[Followed | None]:
        return [None if d.active is True else Followed(d.active, self._index) for d in self.order]

    @cached_property
    def _followed(self) -> list[Followed]:
        return [Followed(condition, self._index) for condition in self.conditions if varies(condition)]


def _afforded(costs: Callable[[Codes], Numbers], codes: Codes) -> Numbers | None:
    """What rows cost; None where working that out takes too much of what is left."""
    try:
        with portion(A_ROUND):
            return costs(codes)
    except WorkError:
        return None


def _some(choice: Choice) -> Sequence[int]:
    """The outcomes of a choice; of many, those at its ends."""
    outcomes = range(choice.outcomes)
    return outcomes if len(outcomes) <= 64 else [*outcomes[:8], *outcomes[-8:]]
