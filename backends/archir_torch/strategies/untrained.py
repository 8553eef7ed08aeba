"""Base class of strategies that do not train."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from archir_torch.training.checkpoint_state import State


class Untrained:
    """Base class of strategies without epochs and without state."""

    epochs = 0
    steps = 1

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """Required by the protocol, but never called, because there are no epochs."""
        return {}

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """Return no measures."""
        return {}

    def state(self) -> State:
        """Return an empty state."""
        return State({}, {})

    def restore(self, state: State) -> None:
        """Do nothing, because there is no state."""

    def finished(self) -> str | None:
        """Return None: there are no epochs after which to stop."""
        return None
