"""All architectures of a space."""

from __future__ import annotations

from math import ceil
from typing import Annotated

from archir.diagnostics.errors import fail
from archir.search.ask_tell import Search
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.spaces.space import MOST_LISTED, Space
from archir.utils.settings import Count, Many, Settings


class ExhaustiveOptions(Settings):
    """How many architectures a space may have, and how many are asked at a time."""

    objectives: Annotated[tuple[str, ...], Many] = ("accuracy:max",)
    most: Count = MOST_LISTED
    batch: Count = 16


@strategy("exhaustive", ExhaustiveOptions)
class Exhaustive(Search):
    """Every architecture that satisfies all constraints, in order; of those that compute the same, the first.

    Raises ArchError (A2505) if there are more than `most`, before bounds on costs.
    """

    def __init__(self, space: Space, options: ExhaustiveOptions, seed: int = 0) -> None:
        super().__init__(space, options.objectives, seed)
        if space.satisfying > options.most:
            text = f"`{space.name}` has {space.satisfying:,} architectures, more than {options.most:,}"
            raise fail("A2505", f"{text}: trying all of them has no end", None, "search it with evolution, or nsga2")
        self.batch = options.batch
        self._all = space.enumerate(options.most)

    def propose(self) -> list[Candidate]:
        """The next ones."""
        return self.proposals.first(self._all, self.batch)

    @property
    def batches(self) -> int:
        """All architectures, a batch at a time."""
        return ceil(self.space.satisfying / self.batch)
