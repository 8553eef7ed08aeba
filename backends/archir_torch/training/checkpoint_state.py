"""The contents of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from archir_torch.training.tensors import full_tensor


@dataclass(frozen=True)
class State:
    """Training state: named tensors, and metadata that JSON can represent."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def merge(**parts: State) -> State:
        """Merge several states into one: tensors are named `part/name`, metadata is grouped by part."""
        tensors = {f"{part}/{name}": t for part, state in parts.items() for name, t in state.tensors.items()}
        return State(tensors, {part: state.facts for part, state in parts.items()})

    def part(self, name: str) -> State:
        """Return one of the states that `merge` combined."""
        prefix = f"{name}/"
        tensors = {key.removeprefix(prefix): t for key, t in self.tensors.items() if key.startswith(prefix)}
        return State(tensors, self.facts.get(name, {}))

    def unsharded(self) -> State:
        """Return the state with full tensors where they are sharded. A collective operation: all processes must call
        it."""
        tensors = {name: full_tensor(t) for name, t in self.tensors.items()}
        return State(tensors, self.facts)
