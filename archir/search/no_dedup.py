"""Spaces that treat architectures as different if their choices differ, even if they compute the same function."""

from __future__ import annotations

from archir.spaces.architecture import Architecture
from archir.spaces.space import Space


class NoDedupSpace(Space):
    """Space whose canonical hash is the row of outcomes, so that equivalent architectures are not deduplicated.

    Tables of results need this: they have a row for each architecture, and networks that compute the same were trained
    and timed separately. Everywhere else, trying both is a waste.
    """

    def canonical(self, architecture: Architecture) -> str:
        """Return the row of outcomes as text, instead of a hash of what the network computes."""
        return " ".join(map(str, architecture.codes))


def without_dedup(space: Space) -> Space:
    """Return a space with the same architectures and bounds, in which no two architectures count as equivalent."""
    return NoDedupSpace(space.graph)
