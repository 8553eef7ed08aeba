"""Candidates: architectures to be scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from archir.spaces.architecture import Architecture

Scores = Mapping[str, float]
"""Scores by name, such as `accuracy` or `macs`."""


@dataclass(frozen=True)
class Candidate:
    """Architecture to be scored.

    `id` counts proposals from 0. `budget` is the fraction of the full training budget with which to score it.
    """

    id: int
    architecture: Architecture
    canonical: Callable[[Architecture], str] = field(repr=False, compare=False)
    """Computes the canonical hash of an architecture in the space."""
    budget: float = 1.0

    @cached_property
    def hash(self) -> str:
        """Canonical hash of the architecture; computing it takes milliseconds unless cached."""
        return self.canonical(self.architecture)
