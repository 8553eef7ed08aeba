"""The loop that everything is trained in: steps, rows of figures, checkpoints, stops."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from typing import Protocol

import torch
from torch import Tensor

from archir.diagnostics.errors import Interrupted, fail
from archir.search.signals import interruptions
from archir.utils.seeds import mixed
from archir_torch.training.checkpoint_state import State
from archir_torch.training.distributed import agreed, world
from archir_torch.training.metrics import WINDOW, Measured

Figures = Mapping[str, float | int | str]
Row = dict[str, float | int | str]
"""What was measured in an epoch: `epoch` from 0, means of what steps measured, what evaluation measured, `seconds`."""

DIVERGED = 1e3
"""A loss so many times the first one (or 1, if that is less) is not going to come back."""


class Trainee(Protocol):
    """What is trained. Everything it does is a function of the step's index, its state and the global generators.

    In a step, these are others in every process: what all processes must draw alike is not drawn from them. If there is
    an attribute `steady`, and it is true, steps run operations of the same shapes; if there is one `unit`, it is what
    an epoch is called, such as a generation.
    """

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """One update, with batches of its own feeds; what was measured, the loss first."""

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """Held-out measures after an epoch; all processes come to the same."""

    def state(self) -> State:
        """Everything that is needed to go on; not necessarily copies."""

    def restore(self, state: State) -> None:
        """Go on from a state."""

    def finished(self) -> str | None:
        """A reason to stop after this epoch."""


class Keeper(Protocol):
    """Where a phase is kept. Of several processes the first one saves and records, and gives it whole tensors.

    If there is an attribute `together`, and it is true, all processes save and record, each with its part.
    """

    def last(self) -> State | None:
        """The last state that was saved, on every process."""

    def save(self, state: State) -> None:
        """Keep a state instead of the one before; what is kept in memory must be copied."""

    def record(self, row: Figures) -> None:
        """Keep an epoch's figures, instead of those of the same epoch if there are any."""


class Watch(Protocol):
    """Who looks on. If there is a method `counts`, it is told before a phase begins what its epochs are called."""

    def start(self, phase: str, epochs: int, steps: int, done: int) -> None:
        """A phase begins: epochs, steps in each, and how many steps were done before in all."""

    def step(self, index: int, measured: Mapping[str, float]) -> None:
        """A step was done; on a GPU, some time ago."""

    def epoch(self, row: Figures) -> None:
        """An epoch was done."""


class Nowhere:
    """A keeper that keeps nothing."""

    def last(self) -> State | None:
        """Nothing."""
        return None

    def save(self, state: State) -> None:
        """Nothing."""

    def record(self, row: Figures) -> None:
        """Nothing."""


class Silent:
    """A watch that says nothing."""

    def start(self, phase: str, epochs: int, steps: int, done: int) -> None:
        """Nothing."""

    def step(self, index: int, measured: Mapping[str, float]) -> None:
        """Nothing."""

    def epoch(self, row: Figures) -> None:
        """Nothing."""


def run(
    trainee: Trainee,
    *,
    epochs: int,
    steps: int,
    keeper: Keeper | None = None,
    watch: Watch | None = None,
    seed: int = 0,
    every: float | None = None,
    phase: str = "training",
) -> list[Row]:
    """Train for so many epochs of so many steps, from where the keeper's last state left off; a row for each epoch.

    A state is saved after every epoch and, inside one, after `every` minutes. What is drawn from torch's global
    generators in a step is a function of (seed, index, rank): each process drops paths of its own, and a run that was
    stopped anywhere and goes on ends as one that was not, to the bit on the CPU. Raises ArchError (A1107) if the loss
    is no number or has left all bounds; `Interrupted` after SIGINT or SIGTERM, when a step is done and its state saved.
    """
    return _Loop(trainee, epochs, steps, keeper or Nowhere(), watch or Silent(), seed, every, phase).run()


@contextmanager
def _tried(trainee: Trainee) -> Iterator[None]:
    """Inside, cuDNN times its convolutions for each shape that it meets, where these are the same in every step."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = before or bool(getattr(trainee, "steady", False))
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


class _Loop:
    def __init__(
        self, trainee: Trainee, epochs: int, steps: int, keeper: Keeper, watch: Watch, seed: int,
        every: float | None, phase: str,
    ) -> None:  # fmt: skip
        self.trainee, self.epochs, self.steps, self.keeper, self.watch = trainee, epochs, steps, keeper, watch
        self.seed, self.every, self.phase = seed, every, phase
        self.together = bool(getattr(keeper, "together", False))
        self.index = 0
        self.rows: list[Row] = []
        self.finished: str | None = None
        self.first: float | None = None
        self.totals: dict[str, tuple[float, int]] = {}
        self.seconds = 0.0
        self.measured = Measured()
        self.saved = "there is no checkpoint"
        self.saved_at = time.monotonic()
        self.pace = 1 if world().size == 1 else WINDOW
        # torch.manual_seed writes the whole stack down for each accelerator that might be there later
        accelerated = torch.accelerator.is_available()
        self._draw_from = torch.manual_seed if accelerated else torch.default_generator.manual_seed

    def run(self) -> list[Row]:
        """All epochs that are left."""
        self._restore()
        if (counts := getattr(self.watch, "counts", None)) is not None:
            counts(getattr(self.trainee, "unit", "epoch"))
        self.watch.start(self.phase, self.epochs, self.steps, self.index)
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        with torch.random.fork_rng(devices), interruptions() as interrupted, _tried(self.trainee):
            while len(self.rows) < self.epochs and self.finished is None:
                self._epoch(len(self.rows), interrupted)
        return self.rows

    def _epoch(self, epoch: int, interrupted: Callable[[], bool]) -> None:
        """The steps that are left of an epoch, and a look at what was held out."""
        began = time.perf_counter() - self.seconds
        end = (epoch + 1) * self.steps
        while self.index < end:
            self._draw_from(mixed(self.seed, "step", self.index, world().rank))
            self.measured.add(self.index, self.trainee.step(self.index))
            self.index += 1
            self._look()
            if self.index < end and self.index % self.pace == 0:
                self.seconds = time.perf_counter() - began
                self._pause(interrupted())
        self._look(wait=True)
        self._draw_from(mixed(self.seed, "evaluate", epoch))
        held_out = self.trainee.evaluate(epoch)
        means = {name: total / count for name, (total, count) in self.totals.items()}
        row: Row = {"epoch": epoch, **means, **held_out, "seconds": time.perf_counter() - began}
        self.rows.append(row)
        self.totals, self.seconds, self.finished = {}, 0.0, self.trainee.finished()
        if self.finished is not None:
            row["finished"] = self.finished
        if world().rank == 0 or self.together:
            self.keeper.record(row)
        self._save()
        self.watch.epoch(row)
        if agreed(interrupted())[0] and len(self.rows) < self.epochs and self.finished is None:
            self._stop()

    def _look(self, wait: bool = False) -> None:
        """Add up what was measured, and see that the loss is a number."""
        for index, values in self.measured.read(wait):
            loss = next(iter(values.values()))
            self.first = loss if self.first is None else self.first
            if not isfinite(loss) or abs(loss) > DIVERGED * max(1.0, abs(self.first)):
                hint = f"lower the learning rate, or clip gradients; {self.saved}"
                raise fail("A1107", f"{self.phase}: the loss became {loss:.4g} in {self._place(index)}", None, hint)
            for name, value in values.items():
                total, count = self.totals.get(name, (0.0, 0))
                self.totals[name] = total + value, count + 1
            self.watch.step(index, values)

    def _pause(self, interrupted: bool) -> None:
        """Save what was done if it is time, and stop if somebody wants that."""
        due = self.every is not None and time.monotonic() - self.saved_at >= 60 * self.every
        stop, due = agreed(interrupted, due)
        if stop or due:
            self._look(wait=True)
            self._save()
        if stop:
            self._stop()

    def _stop(self) -> None:
        raise Interrupted(f"{self.phase} was stopped after {self._place(self.index - 1)}")

    def _place(self, index: int) -> str:
        return f"epoch {index // self.steps + 1}, step {index % self.steps + 1}"

    def _save(self) -> None:
        if isinstance(self.keeper, Nowhere):
            return
        state = self.trainee.state()
        facts = {
            "index": self.index, "rows": self.rows, "finished": self.finished, "first": self.first,
            "totals": self.totals, "seconds": self.seconds,
        }  # fmt: skip
        state = State(state.tensors, {"trainee": state.facts, "loop": facts})
        if self.together:
            self.keeper.save(state)
        else:
            whole = state.whole()
            if world().rank == 0:
                self.keeper.save(whole)
        self.saved = f"the last good checkpoint is of {self._place(self.index - 1)}"
        self.saved_at = time.monotonic()

    def _restore(self) -> None:
        state = self.keeper.last()
        if state is None:
            return
        self.trainee.restore(State(state.tensors, state.facts["trainee"]))
        facts = state.facts["loop"]
        self.index, self.rows, self.finished = facts["index"], [dict(row) for row in facts["rows"]], facts["finished"]
        self.first, self.seconds = facts["first"], facts["seconds"]
        self.totals = {name: (total, count) for name, (total, count) in facts["totals"].items()}
        self.saved = f"the last good checkpoint is of {self._place(self.index - 1)}"
