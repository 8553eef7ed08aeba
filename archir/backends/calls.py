"""A network of another format as a list of calls: what one backend reads from a file, another one can follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.diagnostics.errors import Diagnostic
from archir.ir.types import TensorType


@dataclass(frozen=True)
class Call:
    """An operator of a file on tensors by name, empty for one that is left out. `place` is its path: `layer1.0`."""

    operator: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
    named: str = ""
    """What messages call it."""


@dataclass(frozen=True)
class Calls:
    """A network: calls in an order in which what they read comes first, and the tensors that are stored."""

    name: str
    inputs: Mapping[str, TensorType]
    """Without the axis of samples, by what the calls name them."""
    outputs: Mapping[str, str]
    """What calls name them, by label."""
    calls: Sequence[Call]
    tensors: Mapping[str, NDArray[np.generic]]
    version: int = 0
    """Of the operators."""
    refused: Mapping[str, Diagnostic] = field(default_factory=dict)
    """What the reader says of operators that are no functions of tensors, such as control flow, by operator."""
    types: Mapping[str, TensorType] = field(default_factory=dict)
    """Of what other calls give, without the axis of samples, as far as it is known where a part is wanted."""
    lost: Sequence[Diagnostic] = ()
    """What is said of inputs that nothing can take: they are left out."""
