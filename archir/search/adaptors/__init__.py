"""Adaptors that let samplers of other libraries make the choices of a space.

Architectures are built from outcomes that the library picks, one choice at a time. The library is not asked for the
outcomes of inactive choices.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from archir.diagrams.diagram import Choice, Label
from archir.search.variation import neighbours
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space

REPLACEMENT_NEIGHBOURS, REPLACEMENT_SAMPLES = 256, 256
"""If the picked architecture breaks a cost bound: maximum number of its neighbours, and number of random
architectures, that are considered as replacement."""

Pick = Callable[[Choice], int]
"""Function that returns the picked outcome of a choice."""


def architecture_from_picks(space: Space, pick: Pick) -> Architecture:
    """Build the architecture with the picked outcomes; `pick` is called for active choices only.

    If a constraint excludes the picked outcome, another outcome is used. If the architecture breaks a cost bound,
    one within all bounds that differs in few choices is returned. The result is a deterministic function of the
    picks.
    """
    picks = _Picks(space.choices, pick)
    architecture = space.repair(picks, random.Random(0))
    return architecture if space.within(architecture) else _replacement(space, architecture)


def _replacement(space: Space, picked: Architecture) -> Architecture:
    """Return an architecture within the bounds that differs from `picked` in few choices.

    It is the closest one among neighbours of `picked` and random architectures.
    """
    rng = random.Random(str(picked.codes))
    near = [neighbour.codes for neighbour in islice(neighbours(space, picked, rng), REPLACEMENT_NEIGHBOURS)]
    samples = space.sample_codes(REPLACEMENT_SAMPLES, np.random.default_rng(rng.getrandbits(64)))
    rows = np.concatenate([np.array(near, np.int16).reshape(len(near), len(picked.codes)), samples])
    rows = rows[space.bounds_mask(rows)]
    return space.decode(rows[np.argmin((rows != np.array(picked.codes)).sum(1))])


class _Picks(dict[int, int]):
    """Outcomes by position of their choice, which `pick` returns when they are read."""

    def __init__(self, choices: Sequence[Choice], pick: Pick) -> None:
        self._choices, self._pick = choices, pick

    def __missing__(self, position: int) -> int:
        self[position] = self._pick(self._choices[position])
        return self[position]


def plain_label(choice: Choice, outcome: int) -> Label:
    """Return the label of an outcome as a scalar; the labels of a k-subset are joined by commas."""
    label = choice.label(outcome)
    return ", ".join(map(str, label)) if isinstance(label, list) else label
