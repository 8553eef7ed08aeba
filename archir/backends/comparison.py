"""Comparison of two forms of a network: random inputs, and the largest difference of the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from archir.diagnostics.errors import fail
from archir.ir.types import TensorType

_DTYPES = {"f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32, "bool": np.bool_}
"""numpy types of archir's element types."""
_MIN_SCALE = 1e-12
"""Minimum magnitude of an output for relative differences, so that an output of zeros has a scale."""


@dataclass(frozen=True)
class Difference:
    """Largest absolute difference of outputs, and largest difference relative to the largest magnitude of its output.

    Values that are NaN on both sides, or the same infinity, agree: the logarithm of a negative number is NaN in either
    form. Both differences are NaN, which exceeds every tolerance, if only one side is not finite, and if no value of an
    output is finite, since nothing was compared then.
    """

    absolute: float = 0.0
    relative: float = 0.0

    @staticmethod
    def of(actual: ArrayLike, expected: ArrayLike) -> Difference:
        """Return the difference of one output; infinite if the shapes differ."""
        left, right = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
        if left.shape != right.shape:
            return Difference(np.inf, np.inf)
        finite = np.isfinite(left)
        nonfinite_agree = np.array_equal(left[~finite], right[~finite], equal_nan=True) and bool(
            np.isfinite(right[finite]).all()
        )
        if not nonfinite_agree or (left.size and not finite.any()):
            return Difference(np.nan, np.nan)
        absolute = float(np.abs(left[finite] - right[finite]).max(initial=0))
        scale = float(np.abs(right[finite]).max(initial=0))
        return Difference(absolute, absolute / max(scale, _MIN_SCALE))

    def __or__(self, other: Difference) -> Difference:
        """Return the elementwise maximum of two differences; NaN wins, unlike with `max`."""
        return Difference(
            float(np.maximum(self.absolute, other.absolute)), float(np.maximum(self.relative, other.relative))
        )

    def __str__(self) -> str:
        return f"{self.relative:.2e} relative ({self.absolute:.2e} absolute)"


def random_input(rng: np.random.Generator, batch: int, kind: TensorType) -> NDArray[Any]:
    """Return a random batch [batch, ...] of a type: normal numbers, or integers below the type's limit (by default 0
    and 1).

    Raises ArchError (A0907) for an element type that numpy does not have.
    """
    if kind.dtype not in _DTYPES:
        raise fail("A0907", f"an input has type {kind}, for which numpy cannot generate values to test the network")
    shape = (batch, *kind.shape)
    numbers = (
        rng.standard_normal(shape) if kind.dtype.startswith("f") else rng.integers(0, kind.integer_limit or 2, shape)
    )
    return numbers.astype(_DTYPES[kind.dtype])


def random_inputs(inputs: Mapping[str, TensorType], batch: int, seed: int) -> dict[str, NDArray[Any]]:
    """Return a random batch of each input, by name. Raises ArchError (A0907)."""
    rng = np.random.default_rng(seed)
    return {name: random_input(rng, batch, kind) for name, kind in inputs.items()}
