"""Base class of strategies that train nothing."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from archir_torch.training.checkpoint_state import State


class Untrained:
    """Strategy without epochs and without state."""

    epochs = 0
    steps = 1

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """Never called, because there are no epochs."""
        return {}

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """Return no measures."""
        return {}

    def state(self) -> State:
        """Return an empty state."""
        return State({}, {})

    def restore(self, state: State) -> None:
        """Do nothing."""

    def finished(self) -> str | None:
        """Return None."""
        return None
