"""Labelled images as arrays: what one backend hands to another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Labelled = tuple[NDArray[Any], NDArray[Any]]
"""Images [n, C, H, W] and their labels [n]."""


@dataclass(frozen=True, eq=False)
class Images:
    """Images [n, C, H, W], float32 and normalised by `mean` and `std` of each channel: (pixels / 255 - mean) / std.

    `training` are some of those that networks are trained on; `held_out` goes through the others, a batch at a time, as
    often as it is called. Labels are below `classes`.
    """

    training: NDArray[Any]
    held_out: Callable[[], Iterable[Labelled]] | None
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def halves(self) -> tuple[Images, Images]:
        """The same with each half of what is held out: of every class, every other image."""
        assert self.held_out is not None
        return replace(self, held_out=partial(self._every_other, 0)), replace(
            self, held_out=partial(self._every_other, 1)
        )

    def _every_other(self, first: int) -> Iterator[Labelled]:
        assert self.held_out is not None
        met: Counter[int] = Counter()
        for images, labels in self.held_out():
            turns = []
            for label in labels.tolist():
                turns.append((met[label] + label) % 2)  # classes begin in turns, too: some have one image
                met[label] += 1
            taken = np.array(turns, int) == first
            yield images[taken], labels[taken]
