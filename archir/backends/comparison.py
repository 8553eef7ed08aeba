"""Compares two implementations of a network: random inputs, and the largest difference between outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from archir.diagnostics.errors import fail
from archir.ir.types import TensorType

_DTYPES = {"f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32, "bool": np.bool_}
"""Maps archir's element types to numpy's."""
_MIN_SCALE = 1e-12
"""Minimum scale for relative differences, which prevents division by zero for an output of zeros."""


@dataclass(frozen=True)
class Difference:
    """Largest absolute difference between outputs, and largest difference relative to the output's magnitude.

    The magnitude is the largest absolute value of the output.

    Values that are NaN on both sides, or the same infinity, count as equal: for example, the logarithm of a negative
    number is NaN in both implementations. If a value is finite on one side only, or if an output has no finite value at
    all, so that nothing was compared, both differences are NaN. A NaN difference counts as exceeding every tolerance.
    """

    absolute: float = 0.0
    relative: float = 0.0

    @staticmethod
    def of(actual: ArrayLike, expected: ArrayLike) -> Difference:
        """Return the difference for one output; infinity if the shapes differ."""
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
        """Return the elementwise maximum of two differences; unlike with `max`, NaN propagates."""
        return Difference(
            float(np.maximum(self.absolute, other.absolute)), float(np.maximum(self.relative, other.relative))
        )

    def __str__(self) -> str:
        return f"{self.relative:.2e} relative ({self.absolute:.2e} absolute)"


def random_input(rng: np.random.Generator, batch: int, kind: TensorType) -> NDArray[Any]:
    """Return a random batch [batch, ...] for an input type: normally distributed numbers, or integers.

    Integers are below the type's limit, or 0 and 1 if it has none. Raises ArchError (A0907) for element types
    unknown to numpy.
    """
    if kind.dtype not in _DTYPES:
        raise fail("A0907", f"an input has type {kind}, for which numpy cannot generate values to test the network")
    shape = (batch, *kind.shape)
    numbers = (
        rng.standard_normal(shape) if kind.dtype.startswith("f") else rng.integers(0, kind.integer_limit or 2, shape)
    )
    return numbers.astype(_DTYPES[kind.dtype])


def random_inputs(inputs: Mapping[str, TensorType], batch: int, seed: int) -> dict[str, NDArray[Any]]:
    """Return a random batch for each input, by name. Raises ArchError (A0907)."""
    rng = np.random.default_rng(seed)
    return {name: random_input(rng, batch, kind) for name, kind in inputs.items()}
