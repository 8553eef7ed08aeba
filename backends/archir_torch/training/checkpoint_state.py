"""What a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from archir_torch.training.tensors import whole


@dataclass(frozen=True)
class State:
    """Named tensors, and facts that JSON can hold."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def joined(**parts: State) -> State:
        """One state of several: tensors named `part/name`, facts by part."""
        tensors = {f"{part}/{name}": t for part, state in parts.items() for name, t in state.tensors.items()}
        return State(tensors, {part: state.facts for part, state in parts.items()})

    def part(self, name: str) -> State:
        """A state that was joined in."""
        prefix = f"{name}/"
        tensors = {key.removeprefix(prefix): t for key, t in self.tensors.items() if key.startswith(prefix)}
        return State(tensors, self.facts.get(name, {}))

    def whole(self) -> State:
        """The state with tensors that are divided between processes put together: all of them must ask."""
        tensors = {name: whole(t) for name, t in self.tensors.items()}
        return State(tensors, self.facts)
