"""Exhaustive search: scores every architecture of a space."""

from __future__ import annotations

from math import ceil
from typing import Annotated

from archir.diagnostics.errors import fail
from archir.search.ask_tell import Search
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.spaces.space import MAX_ENUMERATED, Space
from archir.utils.settings import Count, ListAsTuple, Settings


class ExhaustiveOptions(Settings):
    """Options of `exhaustive`."""

    objectives: Annotated[tuple[str, ...], ListAsTuple] = ("accuracy:max",)
    most: Count = MAX_ENUMERATED
    """Maximum number of architectures in the space, not considering cost bounds; larger spaces are rejected."""
    batch: Count = 16
    """Number of candidates in a batch."""


@strategy("exhaustive", ExhaustiveOptions)
class Exhaustive(Search):
    """Scores every architecture that satisfies all constraints, in enumeration order; of equivalent ones, only the
    first.

    Raises ArchError (A2505) if the space, not considering cost bounds, has more than `most` architectures.
    """

    learns = False

    def __init__(self, space: Space, options: ExhaustiveOptions, seed: int = 0) -> None:
        super().__init__(space, options.objectives, seed)
        if space.satisfying > options.most:
            text = f"`{space.name}` has {space.satisfying:,} architectures, more than {options.most:,}"
            hint = "use `evolution` or `nsga2`, or raise `most`"
            raise fail("A2505", f"{text}: too many to try all of them", None, hint)
        self.batch = options.batch
        self._architectures = space.enumerate(options.most)

    def propose(self) -> list[Candidate]:
        """Return the next batch in enumeration order."""
        return self.proposals.take(self._architectures, self.batch)

    @property
    def plan(self) -> list[tuple[int, float]]:
        """Number of architectures of the space, without equivalent ones being left out."""
        return [(self.space.satisfying, 1.0)]

    @property
    def batches(self) -> int:
        """Maximum number of batches needed for all architectures."""
        return ceil(self.space.satisfying / self.batch)
