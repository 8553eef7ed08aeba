"""Spaces without deduplication.

Architectures with different choices count as different, even if they compute the same function.
"""

from __future__ import annotations

from archir.spaces.architecture import Architecture
from archir.spaces.space import Space


class NoDedupSpace(Space):
    """Space without deduplication of equivalent architectures: the canonical hash is the list of outcomes.

    Benchmark tables need this: they have one entry per architecture, and equivalent networks in them were trained and
    timed separately. For other scorers, it would be wasted work to score several equivalent architectures.
    """

    def canonical(self, architecture: Architecture) -> str:
        """Return the outcomes as text, instead of a hash of the computed function."""
        return " ".join(map(str, architecture.codes))


def without_dedup(space: Space) -> Space:
    """Return the space without deduplication; architectures and bounds stay the same."""
    return NoDedupSpace(space.graph)
