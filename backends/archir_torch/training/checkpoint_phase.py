"""States of what is trained, kept as checkpoints of a run's phase: tensors as safetensors, facts as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from archir.diagnostics.errors import fail
from archir.runs import Phase
from archir_torch.training.checkpoint_state import State

_SUFFIX = "safetensors"


class PhaseKeeper:
    """Keeps the states and figures of one phase; of a run that is open to be read, only `last` serves.

    What `beside` says after an epoch is shown by TensorBoard, too.
    """

    def __init__(self, phase: Phase, beside: Callable[[], Mapping[str, float]] = dict) -> None:
        self.phase, self._beside = phase, beside

    def last(self) -> State | None:
        """The last state that was saved. Raises ArchError: A1803 (changed since), A0905 (no tensors in it)."""
        found = self.phase.last()
        if found is None:
            return None
        try:
            return State(load(found.read(_SUFFIX)), found.facts)
        except (SafetensorError, ValueError) as error:
            place = f"checkpoint {found.number} of phase `{self.phase.name}`"
            raise fail("A0905", f"cannot read the tensors of {place}: {error}") from None

    def save(self, state: State) -> None:
        """Keep a state, whole or not at all; the one before it stays, to fall back to."""
        self.phase.save(state.facts, {_SUFFIX: save(_separate(state.tensors))})

    def record(self, row: Mapping[str, float | int | str]) -> None:
        """Keep an epoch's figures, instead of those of the same epoch if there are any."""
        self.phase.record(row, self._beside())


def _separate(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors on the CPU without memory in common, which safetensors refuses."""
    seen: set[int] = set()
    found = {}
    for name, tensor in tensors.items():
        one = tensor.detach().cpu().contiguous()
        storage = one.untyped_storage().data_ptr()
        found[name] = one.clone() if storage in seen else one
        seen.add(storage)
    return found
