"""What steps measured, on its way to the host: a GPU is never waited for in the middle of its work."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from archir_torch.training import distributed

WINDOW = 25
"""Steps whose measures leave a GPU together."""

Step = tuple[int, dict[str, float]]
"""The index of a step and what was measured in it, the mean over all processes."""


class Measured:
    """Takes in what steps measured and gives it back as numbers: on the CPU at once, from a GPU some steps later."""

    def __init__(self) -> None:
        self._steps: list[tuple[int, Mapping[str, float | Tensor]]] = []
        self._leaving: _Window | None = None

    def add(self, index: int, values: Mapping[str, float | Tensor]) -> None:
        """A step was done."""
        self._steps.append((index, values))

    def read(self, wait: bool = False) -> list[Step]:
        """Steps in order that were not read before: all of them with `wait`, else those that need no waiting."""
        on_host = self._leaving is None and not any(_on_gpu(values) for _, values in self._steps)
        if not on_host and not wait and len(self._steps) < WINDOW:
            return []
        before, self._leaving = self._leaving, _Window(self._steps) if self._steps else None
        self._steps = []
        found = before.arrived() if before is not None else []
        if (wait or on_host) and self._leaving is not None:
            found += self._leaving.arrived()
            self._leaving = None
        return found


class _Window:
    """Steps whose measures are copied to the host."""

    def __init__(self, steps: list[tuple[int, Mapping[str, float | Tensor]]]) -> None:
        self._names = [(index, list(values)) for index, values in steps]
        flat = [value for _, values in steps for value in values.values()]
        device = next((v.device for v in flat if isinstance(v, Tensor)), torch.device("cpu"))
        there = [v.detach().double().to(device) if isinstance(v, Tensor) else _number(v, device) for v in flat]
        values = torch.stack([value.reshape(()) for value in there])
        distributed.average([values])
        self._values = values.to("cpu", non_blocking=True)
        self._copied = torch.cuda.Event() if device.type == "cuda" else None
        if self._copied is not None:
            self._copied.record()

    def arrived(self) -> list[Step]:
        """The steps, once the copy is there."""
        if self._copied is not None:
            self._copied.synchronize()
        numbers = iter(self._values.tolist())
        return [(index, {name: next(numbers) for name in names}) for index, names in self._names]


def _number(value: float, device: torch.device) -> Tensor:
    return torch.tensor(value, dtype=torch.float64).to(device, non_blocking=True)


def _on_gpu(values: Mapping[str, float | Tensor]) -> bool:
    return any(isinstance(value, Tensor) and value.is_cuda for value in values.values())
