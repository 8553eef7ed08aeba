"""Asynchronous transfer of step metrics to the host, so that the host does not wait for a GPU after every step."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from archir_torch.training import distributed

WINDOW = 25
"""Number of steps whose metrics are copied from a GPU in one transfer."""

Step = tuple[int, dict[str, float]]
"""Index of a step and its metrics, averaged over all processes."""


class MetricsQueue:
    """Queue of step metrics.

    Metrics on the CPU can be read as numbers at once, metrics on a GPU some steps later.
    """

    def __init__(self) -> None:
        self._steps: list[tuple[int, Mapping[str, float | Tensor]]] = []
        self._in_transfer: _Transfer | None = None

    def add(self, index: int, values: Mapping[str, float | Tensor]) -> None:
        """Append the metrics of a step."""
        self._steps.append((index, values))

    def read(self, wait: bool = False) -> list[Step]:
        """Return the unread steps in order: all of them with `wait`, otherwise only those that are already on the
        host."""
        on_host = self._in_transfer is None and not any(_on_gpu(values) for _, values in self._steps)
        if not on_host and not wait and len(self._steps) < WINDOW:
            return []
        transfer, self._in_transfer = self._in_transfer, _Transfer(self._steps) if self._steps else None
        self._steps = []
        steps = transfer.wait() if transfer is not None else []
        if (wait or on_host) and self._in_transfer is not None:
            steps += self._in_transfer.wait()
            self._in_transfer = None
        return steps


class _Transfer:
    """Transfer in progress: metrics of several steps, averaged over processes, on their way to the host."""

    def __init__(self, steps: list[tuple[int, Mapping[str, float | Tensor]]]) -> None:
        self._names = [(index, list(values)) for index, values in steps]
        flat = [value for _, values in steps for value in values.values()]
        device = next((v.device for v in flat if isinstance(v, Tensor)), torch.device("cpu"))
        on_device = [v.detach().double().to(device) if isinstance(v, Tensor) else _number(v, device) for v in flat]
        values = torch.stack([value.reshape(()) for value in on_device])
        distributed.average([values])
        self._values = values.to("cpu", non_blocking=True)
        self._copied = torch.cuda.Event() if device.type == "cuda" else None
        if self._copied is not None:
            self._copied.record()

    def wait(self) -> list[Step]:
        """Wait for the copy and return the steps."""
        if self._copied is not None:
            self._copied.synchronize()
        numbers = iter(self._values.tolist())
        return [(index, {name: next(numbers) for name in names}) for index, names in self._names]


def _number(value: float, device: torch.device) -> Tensor:
    return torch.tensor(value, dtype=torch.float64).to(device, non_blocking=True)


def _on_gpu(values: Mapping[str, float | Tensor]) -> bool:
    return any(isinstance(value, Tensor) and value.is_cuda for value in values.values())
