"""Training loop: steps, rows of metrics, checkpoints, early stopping."""

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
from archir.utils.seeds import derive_seed
from archir_torch.training.checkpoint_state import State
from archir_torch.training.distributed import any_reduce, world
from archir_torch.training.metrics import WINDOW, MetricsQueue

Figures = Mapping[str, float | int | str]
"""Metrics of an epoch, by name."""
Row = dict[str, float | int | str]
"""Metrics of an epoch: `epoch` (from 0), means of the steps' metrics, evaluation results, `seconds`."""

MAX_LOSS_RATIO = 1e3
"""Ratio of the loss to the first loss (or to 1, if that is larger) above which training has diverged."""


class Trainable(Protocol):
    """Protocol of an object that the loop trains.

    A step depends on its index, the object's state and torch's global generators. Within a step, the global
    generators differ between processes: random numbers that must be equal in all processes must come from elsewhere.
    Optional attributes: `steady` is True if all steps run operations on the same shapes; `unit` is what an epoch is
    called, such as "generation"; `report_trials` receives a callback that is called after each trial of a step.
    """

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """Make one update, with batches from the object's own feeds. Return metrics, the loss first."""

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """Return held-out metrics after an epoch. They must be the same in all processes."""

    def state(self) -> State:
        """Return the complete state, from which training can continue; the tensors need not be copies."""

    def restore(self, state: State) -> None:
        """Continue from a saved state."""

    def finished(self) -> str | None:
        """Return the reason to stop after this epoch; None to continue."""


class Checkpointer(Protocol):
    """Protocol of storage for checkpoints and metrics.

    With several processes, only the first process calls `save` and `record`, with full tensors.
    """

    def last(self) -> State | None:
        """Return the last saved state; called in every process."""

    def save(self, state: State) -> None:
        """Replace the saved state. An implementation that keeps the state in memory must copy it."""

    def record(self, row: Figures) -> None:
        """Store the metrics of an epoch; they replace earlier metrics of the same epoch."""


class Callback(Protocol):
    """Protocol of observers of training.

    An optional method `counts` is called before a phase begins, with the word for an epoch, such as "generation"; an
    optional method `trial` is called with a `TrialProgress` before a phase that tries candidates begins, and after each
    trial.
    """

    def start(self, phase: str, epochs: int, steps: int, steps_done: int) -> None:
        """Called when a phase begins, with the number of epochs, the steps per epoch and the total number of completed
        steps."""

    def step(self, index: int, measured: Mapping[str, float]) -> None:
        """Called after a step with its metrics; on a GPU, some steps later."""

    def epoch(self, row: Figures) -> None:
        """Called after an epoch with its metrics."""


class NullCheckpointer:
    """Checkpointer that stores nothing."""

    def last(self) -> State | None:
        """Return None: nothing was saved."""
        return None

    def save(self, state: State) -> None:
        """Discard the state."""

    def record(self, row: Figures) -> None:
        """Discard the metrics."""


class NullCallback:
    """Callback that ignores all events."""

    def start(self, phase: str, epochs: int, steps: int, steps_done: int) -> None:
        """Ignore the start of a phase."""

    def step(self, index: int, measured: Mapping[str, float]) -> None:
        """Ignore a step."""

    def epoch(self, row: Figures) -> None:
        """Ignore an epoch."""


def run(
    trainable: Trainable,
    *,
    epochs: int,
    steps: int,
    checkpointer: Checkpointer | None = None,
    callback: Callback | None = None,
    seed: int = 0,
    checkpoint_minutes: float | None = None,
    phase: str = "training",
) -> list[Row]:
    """Train for `epochs` epochs of `steps` steps each, starting from the checkpointer's last state. Return a row
    per epoch.

    The state is saved after every epoch and, within one, every `checkpoint_minutes`. In each step, torch's global
    generators are seeded by (seed, index, rank): every process has its own drop-path masks, and a run that was
    interrupted and resumed ends like an uninterrupted one, bit for bit on the CPU. Raises ArchError (A1107) if the loss
    is not finite or has diverged, and `Interrupted` after SIGINT or SIGTERM, once the current step is done and its
    state is saved.
    """
    return _Loop(
        trainable,
        epochs,
        steps,
        checkpointer or NullCheckpointer(),
        callback or NullCallback(),
        seed,
        checkpoint_minutes,
        phase,
    ).run()


@contextmanager
def _cudnn_benchmark(trainable: Trainable) -> Iterator[None]:
    """Context manager that enables cuDNN's algorithm benchmark if all steps have the same shapes."""
    previous = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = previous or bool(getattr(trainable, "steady", False))
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = previous


class _Loop:
    """State of one call of `run`."""

    def __init__(
        self, trainable: Trainable, epochs: int, steps: int, checkpointer: Checkpointer, callback: Callback, seed: int,
        checkpoint_minutes: float | None, phase: str,
    ) -> None:  # fmt: skip
        self.trainable, self.epochs, self.steps, self.checkpointer, self.callback = (
            trainable,
            epochs,
            steps,
            checkpointer,
            callback,
        )
        self.seed, self.checkpoint_minutes, self.phase = seed, checkpoint_minutes, phase
        self.index = 0
        self.rows: list[Row] = []
        self.finished: str | None = None
        self.first_loss: float | None = None
        self.totals: dict[str, tuple[float, int]] = {}
        self.seconds = 0.0
        self.measured = MetricsQueue()
        self.checkpoint_note = "there is no checkpoint"
        self.saved_at = time.monotonic()
        self.poll_interval = 1 if world().size == 1 else WINDOW
        # torch.manual_seed records the call stack for each accelerator that may be initialised later, which is slow
        accelerated = torch.accelerator.is_available()
        self._seed_generators = torch.manual_seed if accelerated else torch.default_generator.manual_seed

    def run(self) -> list[Row]:
        """Train the remaining epochs."""
        self._restore()
        if (counts := getattr(self.callback, "counts", None)) is not None:
            counts(getattr(self.trainable, "unit", "epoch"))
        report_trials = getattr(self.trainable, "report_trials", None)
        if report_trials is not None and hasattr(self.callback, "trial"):
            report_trials(self.callback.trial)
        self.callback.start(self.phase, self.epochs, self.steps, self.index)
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        with torch.random.fork_rng(devices), interruptions() as interrupted, _cudnn_benchmark(self.trainable):
            while len(self.rows) < self.epochs and self.finished is None:
                self._epoch(len(self.rows), interrupted)
        return self.rows

    def _epoch(self, epoch: int, interrupted: Callable[[], bool]) -> None:
        """Run the remaining steps of an epoch, evaluate, record the metrics and save the state."""
        began = time.perf_counter() - self.seconds
        end = (epoch + 1) * self.steps
        while self.index < end:
            self._seed_generators(derive_seed(self.seed, "step", self.index, world().rank))
            self.measured.add(self.index, self.trainable.step(self.index))
            self.index += 1
            self._read_metrics()
            if self.index < end and self.index % self.poll_interval == 0:
                self.seconds = time.perf_counter() - began
                self._save_if_due(interrupted())
        self._read_metrics(wait=True)
        self._seed_generators(derive_seed(self.seed, "evaluate", epoch))
        held_out = self.trainable.evaluate(epoch)
        means = {name: total / count for name, (total, count) in self.totals.items()}
        row: Row = {"epoch": epoch, **means, **held_out, "seconds": time.perf_counter() - began}
        self.rows.append(row)
        self.totals, self.seconds, self.finished = {}, 0.0, self.trainable.finished()
        if self.finished is not None:
            row["finished"] = self.finished
        if world().rank == 0:
            self.checkpointer.record(row)
        self._save()
        self.callback.epoch(row)
        if any_reduce(interrupted())[0] and len(self.rows) < self.epochs and self.finished is None:
            self._stop()

    def _read_metrics(self, wait: bool = False) -> None:
        """Add up the metrics that have arrived from the device; check that the loss is finite and has not diverged."""
        for index, values in self.measured.read(wait):
            loss = next(iter(values.values()))
            self.first_loss = loss if self.first_loss is None else self.first_loss
            if not isfinite(loss) or abs(loss) > MAX_LOSS_RATIO * max(1.0, abs(self.first_loss)):
                hint = f"lower the learning rate, or clip gradients; {self.checkpoint_note}"
                raise fail("A1107", f"{self.phase}: the loss became {loss:.4g} in {self._position(index)}", None, hint)
            for name, value in values.items():
                total, count = self.totals.get(name, (0.0, 0))
                self.totals[name] = total + value, count + 1
            self.callback.step(index, values)

    def _save_if_due(self, interrupted: bool) -> None:
        """Save a checkpoint if it is due, and stop if an interrupt was requested in any process."""
        due = self.checkpoint_minutes is not None and time.monotonic() - self.saved_at >= 60 * self.checkpoint_minutes
        stop, due = any_reduce(interrupted, due)
        if stop or due:
            self._read_metrics(wait=True)
            self._save()
        if stop:
            self._stop()

    def _stop(self) -> None:
        raise Interrupted(f"{self.phase} was stopped after {self._position(self.index - 1)}")

    def _position(self, index: int) -> str:
        """Return the epoch and step of a step index as text for messages, counted from 1."""
        return f"epoch {index // self.steps + 1}, step {index % self.steps + 1}"

    def _save(self) -> None:
        if isinstance(self.checkpointer, NullCheckpointer):
            return
        state = self.trainable.state()
        facts = {
            "index": self.index, "rows": self.rows, "finished": self.finished, "first": self.first_loss,
            "totals": self.totals, "seconds": self.seconds,
        }  # fmt: skip
        state = State(state.tensors, {"trainee": state.facts, "loop": facts}).unsharded()
        if world().rank == 0:
            self.checkpointer.save(state)
        self.checkpoint_note = f"the last good checkpoint is of {self._position(self.index - 1)}"
        self.saved_at = time.monotonic()

    def _restore(self) -> None:
        state = self.checkpointer.last()
        if state is None:
            return
        self.trainable.restore(State(state.tensors, state.facts["trainee"]))
        facts = state.facts["loop"]
        self.index, self.rows, self.finished = facts["index"], [dict(row) for row in facts["rows"]], facts["finished"]
        self.first_loss, self.seconds = facts["first"], facts["seconds"]
        self.totals = {name: (total, count) for name, (total, count) in facts["totals"].items()}
        self.checkpoint_note = f"the last good checkpoint is of {self._position(self.index - 1)}"
