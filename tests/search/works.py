"""Tasks for executors that fail in many ways. A folder counts the attempts."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


class OutOfMemoryError(RuntimeError):
    """An error with the name of torch's own."""


def end_process(code: int) -> None:
    os._exit(code)


class Poison:
    """An object that cannot be unpickled."""

    def __reduce__(self) -> tuple[Callable[[int], float], tuple[int]]:
        return divide, (0,)


def divide(number: int) -> float:
    return 1 / number


@dataclass(frozen=True)
class Obedient:
    """Work whose tasks name a method and its arguments."""

    folder: Path

    def prepare(self) -> Callable[[Any], Mapping[str, float]]:
        self.note("prepared")
        return self.score

    def score(self, task: tuple[Any, ...]) -> Mapping[str, float]:
        name, *arguments = task
        measures: Mapping[str, float] = getattr(self, name)(*arguments)
        return measures

    def note(self, what: str) -> None:
        (self.folder / f"{what}.{os.getpid()}.{uuid.uuid4().hex}").touch()

    def noted(self, what: str) -> list[int]:
        return [int(path.name.split(".")[1]) for path in self.folder.glob(f"{what}.*")]

    def value(self, number: float) -> Mapping[str, float]:
        return {"value": number, "double": np.float32(2 * number)}

    def busy(self, seconds: float, number: float) -> Mapping[str, float]:
        time.sleep(seconds)
        return {"value": number}

    def meet(self, number: int) -> Mapping[str, float]:
        """Wait until `number` workers are prepared."""
        while len(self.noted("prepared")) < number:
            time.sleep(0.01)
        return {"value": 1.0}

    def fail(self, error: BaseException) -> Mapping[str, float]:
        raise error

    def allocate(self) -> Mapping[str, float]:
        import torch

        return {"value": float(torch.empty(2**60, dtype=torch.uint8)[0])}

    def end(self, code: int) -> Mapping[str, float]:
        self.note(f"end{code}")
        end_process(code)
        return {}

    def killed(self, name: str, times: int) -> Mapping[str, float]:
        """Kill this process the first `times` times; then score."""
        self.note(name)
        if len(self.noted(name)) <= times:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"value": 1.0}


@dataclass(frozen=True)
class Unprepared(Obedient):
    """Work that fails to prepare."""

    how: str

    def prepare(self) -> Callable[[Any], Mapping[str, float]]:
        if self.how == "raises":
            raise FileNotFoundError("no data")
        end_process(3)
        return self.score


@dataclass(frozen=True)
class Slow(Obedient):
    """Work of which all workers but one take a minute to prepare."""

    def prepare(self) -> Callable[[Any], Mapping[str, float]]:
        try:
            (self.folder / "first").mkdir()
        except FileExistsError:
            time.sleep(60)
        return self.score


@dataclass(frozen=True, eq=False)
class Large:
    """Work that reads an array, and scores by how many MiB the worker's own memory grows."""

    array: np.ndarray[Any, np.dtype[np.float32]]

    def prepare(self) -> Callable[[Any], Mapping[str, float]]:
        return self.score

    def score(self, task: object) -> Mapping[str, float]:
        total = float(self.array.sum())
        return {"total": total, "own": own_memory(), "writeable": float(self.array.flags.writeable)}


def own_memory() -> float:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024
