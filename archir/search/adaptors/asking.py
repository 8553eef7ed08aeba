"""Architectures decided from elsewhere, choice by choice, each after those it is conditional on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import overload

import numpy as np

from archir.diagrams.cases import Choice
from archir.search.variation import neighbours
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space

NEAR, DRAWN = 256, 256
"""Neighbours and draws that are looked at, where a bound on costs is broken."""

Pick = Callable[[Choice], int]
"""The outcome that somebody wishes for."""


def asked(space: Space, pick: Pick) -> Architecture:
    """The architecture of what is picked; only choices that are active are asked for.

    Where a constraint rules out what is picked, another outcome is taken; where a bound on costs is broken, an
    architecture within all bounds that differs in few choices. The same picks lead to the same architecture.
    """
    wishes = _Wishes(space.choices, pick)
    found = space.near(wishes, random.Random(0))
    return found if space.within(found) else _within(space, found)


def _within(space: Space, wished: Architecture) -> Architecture:
    rng = random.Random(str(wished.codes))
    near = [one.codes for one in islice(neighbours(space, wished, rng), NEAR)]
    drawn = space.sample_codes(DRAWN, np.random.default_rng(rng.getrandbits(64)))
    rows = np.concatenate([np.array(near, np.int16).reshape(len(near), len(wished.codes)), drawn])
    rows = rows[space.keeping(rows)]
    return space.decode(rows[np.argmin((rows != np.array(wished.codes)).sum(1))])


class _Wishes(Sequence[int]):
    """Wishes that are asked for when they are needed, once each."""

    def __init__(self, choices: Sequence[Choice], pick: Pick) -> None:
        self._choices, self._pick = choices, pick
        self._known: dict[int, int] = {}

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        if place >= len(self):
            raise IndexError(place)
        if place not in self._known:
            self._known[place] = self._pick(self._choices[place])
        return self._known[place]

    def __len__(self) -> int:
        return len(self._choices)

    def __iter__(self) -> Iterator[int]:
        return (self[place] for place in range(len(self)))


def written(choice: Choice, outcome: int) -> str | int | float | bool:
    """An outcome as other libraries keep it: its label, or the labels of several with commas between."""
    label = choice.label(outcome)
    if isinstance(label, list):
        return ", ".join(map(str, label))
    return label if isinstance(label, str | int | float | bool) else str(label)
