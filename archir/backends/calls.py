"""List of operator calls that represents a network in another format.

One backend reads such a list from a file; another backend executes it.
"""

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
    """Operator call on named tensors. Omitted optional operands have the name "". `place` is the module path, such
    as `layer1.0`."""

    operator: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
    display_name: str = ""
    """Name of the call for messages."""


@dataclass(frozen=True)
class Calls:
    """Network as operator calls in topological order, with its stored tensors."""

    name: str
    inputs: Mapping[str, TensorType]
    """Types of the inputs without the batch axis, by tensor name."""
    outputs: Mapping[str, str]
    """Tensor name of each output, by output label."""
    calls: Sequence[Call]
    tensors: Mapping[str, NDArray[np.generic]]
    version: int = 0
    """Operator-set version."""
    refused: Mapping[str, Diagnostic] = field(default_factory=dict)
    """Diagnostics, by operator, for operators that are not functions of tensors, such as control flow."""
    types: Mapping[str, TensorType] = field(default_factory=dict)
    """Types of intermediate tensors without the batch axis, as far as known; used for partial imports."""
    input_problems: Sequence[Diagnostic] = ()
    """Diagnostics for inputs that are left out because archir has no equivalent."""
