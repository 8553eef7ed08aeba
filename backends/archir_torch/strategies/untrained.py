"""What strategies have in common that train nothing: they are at their end as they begin."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from archir_torch.training.checkpoint_state import State


class Untrained:
    """No epochs, and nothing to go on from."""

    epochs = 0
    steps = 1

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """Never called: there are no epochs."""
        return {}

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """Nothing to measure."""
        return {}

    def state(self) -> State:
        """Nothing."""
        return State({}, {})

    def restore(self, state: State) -> None:
        """Nothing."""

    def finished(self) -> str | None:
        """At once."""
        return None
