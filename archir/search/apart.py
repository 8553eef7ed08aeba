"""Spaces whose architectures are told apart by what is chosen, though they compute the same."""

from __future__ import annotations

from archir.spaces.architecture import Architecture
from archir.spaces.space import Space


class Apart(Space):
    """For tables of results: they have a row for each architecture, and networks that compute the same were trained and
    timed apart. Everywhere else, trying both is a waste."""

    def canonical(self, architecture: Architecture) -> str:
        """What was chosen."""
        return " ".join(map(str, architecture.codes))


def apart(space: Space) -> Space:
    """A space with the same architectures and bounds, each of which differs from all others."""
    return Apart(space.graph)
