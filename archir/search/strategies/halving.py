"""Successive halving: many candidates with a small budget, the best of them with a larger one, and so on.

Jamieson and Talwalkar 2016; its brackets are those of Li et al. 2018, Hyperband, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from pydantic import Field, model_validator

from archir.diagnostics.work import MOST
from archir.search.ask_tell import Scored, Search
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.spaces.space import Space
from archir.utils.settings import Count, Settings


class HalvingOptions(Settings):
    """How many begin, and how many rungs there are."""

    objective: str = "accuracy:max"
    population: Count = 27
    """Drawn for the first rung."""
    eta: int = Field(default=3, ge=2, le=MOST)
    """One in so many goes on to the next rung, with so many times the budget."""
    rungs: int = Field(default=4, ge=1, le=64)
    """The last one has the full budget."""
    brackets: bool = False
    """Whether, after this one, others follow that have a rung less each, and for about the same budget fewer
    candidates (Hyperband)."""

    @model_validator(mode="after")
    def _comes_to_an_end(self) -> HalvingOptions:
        least = self.eta ** (self.rungs - 1)
        if self.population < least:
            raise ValueError(f"`population` must be {least:,} or more: of fewer, none would have the full budget")
        return self


@strategy("successive_halving", HalvingOptions)
class Halving(Search):
    """One objective. What failed does not go on; `best` is among those with the largest budget."""

    batch_name = "rung"

    def __init__(self, space: Space, options: HalvingOptions, seed: int = 0) -> None:
        super().__init__(space, [options.objective], seed)
        self.options = options
        self._batches = self._brackets()
        self._rung: list[Scored] = []

    def propose(self) -> list[Candidate]:
        """The next rung that anything is on."""
        return next((batch for batch in self._batches if batch), [])

    def learn(self, scored: Sequence[Scored]) -> None:
        """They are what the next rung is chosen of."""
        super().learn(scored)
        self._rung = sorted(scored, key=lambda one: one.values)

    @property
    def batches(self) -> int:
        """The rungs of all brackets."""
        rungs = self.options.rungs
        return rungs * (rungs + 1) // 2 if self.options.brackets else rungs

    def begun(self, count: int, part: float) -> list[Candidate]:
        """So many new candidates with a part of the full budget."""
        return self.proposals.drawn(count, part)

    def _brackets(self) -> Iterator[list[Candidate]]:
        options = self.options
        for rungs in range(options.rungs, 0, -1) if options.brackets else [options.rungs]:
            share = options.rungs / (rungs * options.eta ** (options.rungs - rungs))
            count = ceil(options.population * share)
            yield self.begun(count, budget(options.eta, rungs, 0))
            for rung in range(1, rungs):
                kept = self._rung[: count // options.eta**rung]
                self._rung = []
                yield [self.proposals.again(one.candidate, budget(options.eta, rungs, rung)) for one in kept]
            self._rung = []


def budget(eta: int, rungs: int, rung: int) -> float:
    """The part of the full budget that a rung has; the last one has all of it."""
    return float(eta) ** (rung + 1 - rungs)
