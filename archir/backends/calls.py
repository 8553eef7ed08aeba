"""A network in another format as a list of operator calls: one backend reads it from a file, another one executes
it."""

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
    """An operator call on named tensors. An omitted optional operand has an empty name. `place` is its path:
    `layer1.0`."""

    operator: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
    display_name: str = ""
    """Name of the call in messages."""


@dataclass(frozen=True)
class Calls:
    """A network: its calls in topological order, and its stored tensors."""

    name: str
    inputs: Mapping[str, TensorType]
    """Input types without the sample axis, by tensor name."""
    outputs: Mapping[str, str]
    """Tensor names of the outputs, by label."""
    calls: Sequence[Call]
    tensors: Mapping[str, NDArray[np.generic]]
    version: int = 0
    """Version of the operator set."""
    refused: Mapping[str, Diagnostic] = field(default_factory=dict)
    """Diagnostics for operators that are not functions of tensors, such as control flow, by operator."""
    types: Mapping[str, TensorType] = field(default_factory=dict)
    """Types of intermediate tensors without the sample axis, so far as known; used for partial imports."""
    input_problems: Sequence[Diagnostic] = ()
    """Diagnostics for inputs that have no equivalent in archir and are left out."""
