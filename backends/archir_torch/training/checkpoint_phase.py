"""Checkpoints in a phase of a run: tensors as safetensors, metadata as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from safetensors import SafetensorError
from safetensors.torch import load, save

from archir.diagnostics.errors import fail
from archir.runs import Phase
from archir_torch.training.checkpoint_state import State
from archir_torch.training.tensors import separate

_SUFFIX = "safetensors"


class PhaseCheckpointer:
    """Checkpointer that stores states and metrics in a phase of a run.

    If the run is open read-only, only `last` can be used. `extra_metrics` is called after each epoch and returns
    numbers that the journal holds, and TensorBoard shows, in addition to the epoch's metrics.
    """

    def __init__(self, phase: Phase, extra_metrics: Callable[[], Mapping[str, float]] = dict) -> None:
        self.phase, self._extra_metrics = phase, extra_metrics

    def last(self) -> State | None:
        """Return the last saved state; None if no state was saved.

        Raises ArchError: A1803 (the checkpoint was changed after it was written), A0905 (its tensors cannot be read).
        """
        checkpoint = self.phase.last()
        if checkpoint is None:
            return None
        try:
            return State(load(checkpoint.read(_SUFFIX)), checkpoint.facts)
        except (SafetensorError, ValueError) as error:
            label = f"checkpoint {checkpoint.number} of phase `{self.phase.name}`"
            raise fail("A0905", f"cannot read the tensors of {label}: {error}") from None

    def save(self, state: State) -> None:
        """Save a state atomically; the previous checkpoint is kept as a fallback."""
        self.phase.save(state.facts, {_SUFFIX: save(separate(state.tensors))})

    def record(self, row: Mapping[str, float | int | str]) -> None:
        """Store the metrics of an epoch; they replace earlier metrics of the same epoch."""
        self.phase.record(row, self._extra_metrics())
