"""How networks in two forms are compared: on random inputs, by the largest difference of what they compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from archir.diagnostics.errors import fail
from archir.ir.types import TensorType

_DTYPES = {"f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32, "bool": np.bool_}
_LEAST = 1e-12
"""The magnitude that an output of zeros counts as."""


@dataclass(frozen=True)
class Difference:
    """The largest difference, and the largest one relative to the largest magnitude of the output it is in.

    Both sides agree where both have no number, or the same infinity: a logarithm of what is negative is none in either
    form. Both differences are NaN, which no tolerance allows for, where one side alone is not finite, and where
    nothing of an output is: nothing was compared, then.
    """

    absolute: float = 0.0
    relative: float = 0.0

    @staticmethod
    def of(found: ArrayLike, wanted: ArrayLike) -> Difference:
        """Of one output; it is infinite where shapes differ."""
        one, other = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
        if one.shape != other.shape:
            return Difference(np.inf, np.inf)
        finite = np.isfinite(one)
        alike = np.array_equal(one[~finite], other[~finite], equal_nan=True) and bool(np.isfinite(other[finite]).all())
        if not alike or (one.size and not finite.any()):
            return Difference(np.nan, np.nan)
        absolute = float(np.abs(one[finite] - other[finite]).max(initial=0))
        scale = float(np.abs(other[finite]).max(initial=0))
        return Difference(absolute, absolute / max(scale, _LEAST))

    def __or__(self, other: Difference) -> Difference:
        """The larger ones of two; `max` would lose a NaN."""
        return Difference(
            float(np.maximum(self.absolute, other.absolute)), float(np.maximum(self.relative, other.relative))
        )

    def __str__(self) -> str:
        return f"{self.relative:.2e} relative ({self.absolute:.2e} absolute)"


def random_input(rng: np.random.Generator, batch: int, kind: TensorType) -> NDArray[Any]:
    """A batch of normal numbers; of integers, those below what the type says, or else zeros and ones. Raises ArchError
    (A0907)."""
    if kind.dtype not in _DTYPES:
        raise fail("A0907", f"an input is {kind}, of which numpy has no numbers to try the network on")
    shape = (batch, *kind.shape)
    numbers = rng.standard_normal(shape) if kind.dtype.startswith("f") else rng.integers(0, kind.below or 2, shape)
    return numbers.astype(_DTYPES[kind.dtype])


def random_inputs(inputs: Mapping[str, TensorType], batch: int, seed: int) -> dict[str, NDArray[Any]]:
    """Random inputs by name. Raises ArchError (A0907)."""
    rng = np.random.default_rng(seed)
    return {name: random_input(rng, batch, kind) for name, kind in inputs.items()}
