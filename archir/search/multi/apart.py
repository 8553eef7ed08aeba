"""Spaces whose architectures are told apart by what is chosen, though they compute the same."""

from __future__ import annotations

from functools import cached_property

from archir.search.spaces.architecture import Architecture
from archir.search.spaces.likeness.likeness import Likeness, Mark
from archir.search.spaces.space import Space


class Apart(Space):
    """For tables of results: they have a row for each architecture, and networks that compute the same were trained and
    timed apart. Everywhere else, trying both is a waste."""

    def canonical(self, architecture: Architecture) -> str:
        """What was chosen."""
        return " ".join(map(str, architecture.codes))

    @cached_property
    def likeness(self) -> Likeness:
        """Each architecture is like itself alone."""
        return _Chosen(self)


class _Chosen(Likeness):
    """Marks are codes, which no other architecture has: nothing else is ever asked for."""

    def __init__(self, space: Space) -> None:
        self._hashed = space.canonical

    def mark(self, architecture: Architecture) -> Mark:
        """What was chosen."""
        return architecture.codes


def apart(space: Space) -> Space:
    """A space with the same architectures and bounds, each of which differs from all others."""
    return Apart(space.graph)
