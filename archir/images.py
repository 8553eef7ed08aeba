"""Labelled images as arrays: what one backend hands to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

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
