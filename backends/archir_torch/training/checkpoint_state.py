"""State that a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from archir_torch.training.distributed import world
from archir_torch.training.tensors import full_tensor, is_sharded


@dataclass(frozen=True)
class State:
    """Training state: tensors by name, and metadata that is serialisable as JSON."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def merge(**parts: State) -> State:
        """Merge several states into one: tensors are named `part/name`, metadata is grouped by part."""
        tensors = {f"{part}/{name}": t for part, state in parts.items() for name, t in state.tensors.items()}
        return State(tensors, {part: state.facts for part, state in parts.items()})

    def part(self, name: str) -> State:
        """Return the state that `merge` stored under this name."""
        prefix = f"{name}/"
        tensors = {key.removeprefix(prefix): t for key, t in self.tensors.items() if key.startswith(prefix)}
        return State(tensors, self.facts.get(name, {}))

    def unsharded(self) -> State:
        """Return the state with full tensors in place of shards in the first process, and no tensors in the others.

        Shards are gathered one tensor at a time, and moved to the CPU. Collective operation: all processes must call
        it.
        """
        tensors: dict[str, Tensor] = {}
        for name, tensor in self.tensors.items():
            full = full_tensor(tensor)
            if world().rank == 0:
                tensors[name] = full.cpu() if is_sharded(tensor) else full
        return State(tensors, self.facts)
