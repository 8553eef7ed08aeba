"""A small search with every kind of trial strategy, shared by tests."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

import archir
from archir.ir.graph import Graph, NodeId
from archir.runs import Run, Trial
from archir.spaces.space import Space
from archir_torch.objectives import Batch, Outputs
from archir_torch.objectives.classification import Classification, ClassificationSettings
from archir_torch.search.job import Job, create_strategy
from archir_torch.strategies.trials import TrialStrategy
from archir_torch.training.loop import Row
from archir_torch.training.loop import run as through
from tests.torch_backend import searches

ELASTIC = """
net elastic() {
    input x: f32[1, 8, 8]
    width = choose width(4, 6, 8)
    x = x |> conv(width, kernel=choose kernel(1, 3), bias=false) |> batch_norm |> relu
    x = x |> choose op @op {
        skip: identity
        pool: max_pool(3, stride=1)
        conv: conv(width, kernel=choose inner(1, 3, 5), bias=false) |> batch_norm |> relu
    }
    y = x |> choose last {
        skip: identity
        conv: conv(width, kernel=3, bias=false) |> batch_norm |> relu
    }
    output logits = y |> global_avg_pool |> linear(10)
}
"""
"""60 architectures; `inner` is there with `op` = conv alone."""

RECIPE = """
space = "elastic.arch"
threads = 1

[data]
source = "digits"
limit = 190

[[phase]]
name = "supernet"
strategy = "sandwich"
training = { epochs = 2, batch = 32 }
weights = { lr = 0.1 }
options = { drawn = 1 }

[[phase]]
name = "evolve"
strategy = "evolution"
start = { weights = "supernet" }
training = { batch = 32 }

[phase.options]
preset = "spos"
population = 8
parents = 4
mutations = 3
crossovers = 3
generations = 4
scorer = { recalibrate = 2 }

[[phase]]
name = "plane"
strategy = "nsga2"
start = { weights = "supernet" }
training = { batch = 32 }
options = { objectives = ["accuracy:max", "macs:min"], population = 6, generations = 3, where = "params <= 600" }

[[phase]]
name = "halve"
strategy = "successive_halving"
training = { epochs = 2, batch = 32 }
options = { population = 4, eta = 2, rungs = 2, scorer = { kind = "training" } }

[[phase]]
name = "finals"
strategy = "finalists"
start = { trials = "evolve" }
training = { epochs = 1, batch = 32 }
options = { count = 3 }

[[phase]]
name = "retrain"
strategy = "train"
start = { architecture = "evolve", weights = "supernet" }
training = { epochs = 2, batch = 32 }
"""
"""Phases: a supernet, trials with and without its weights, and the training of a network."""
COUNTS = {"evolve": 8 + 3 * 6, "plane": 18, "halve": 4 + 2, "finals": 3}
"""Trials of each phase that tries candidates."""
PHASES = ("supernet", "evolve", "plane", "halve", "finals", "retrain")
MODULE = "tests.torch_backend.tried"
_SLOW = f'objective = {{ kind = "{MODULE}:Moody", mood = "slow", everywhere = true }}'
_WEIGHTS = 'start = { weights = "supernet" }\n'
SLOW = RECIPE.replace(_WEIGHTS, f"{_WEIGHTS}{_SLOW}\n").replace("[data]", "export = false\n\n[data]", 1)
"""`RECIPE` with `evolve` and `plane` taking most of the time."""
SHORT = SLOW[: SLOW.index('[[phase]]\nname = "plane"')]
"""The first two phases of `SLOW`."""
QUICK = ("ARCHIR_TEST_QUICK", "1")
"""The environment of a search that is not interrupted, in which slow tasks are fast."""


class MoodyOptions(ClassificationSettings):
    """Outcome of networks that pool, or of all networks. If they hang, networks with 5x5 kernels are killed."""

    mood: Literal["raise", "memory", "nan", "hang", "slow"] = "raise"
    everywhere: bool = False


class Moody(Classification):
    """Classification that fails for some networks."""

    model = MoodyOptions

    def __init__(self, settings: MoodyOptions | None = None, folder: Path | None = None) -> None:
        super().__init__()
        self.options = settings or MoodyOptions()
        self.ill = False

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        pools = any(type(graph[number].op).__name__ == "MaxPool" for number in graph)
        self.ill = pools or self.options.everywhere
        if self.options.mood == "hang" and any(getattr(graph[number].op, "kernel", 0) == 5 for number in graph):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.ill:
            match self.options.mood:
                case "raise":
                    raise ValueError("pools are closed")
                case "memory":
                    raise MemoryError("pools are full")
                case "hang":
                    time.sleep(60)
        return super().reads(graph)

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        measures = super().measure(outputs, batch, seed)
        if self.ill and self.options.mood == "slow" and QUICK[0] not in os.environ:
            time.sleep(0.08)
        return (
            {n: value * math.nan for n, value in measures.items()}
            if self.ill and self.options.mood == "nan"
            else measures
        )


def elastic() -> Space:
    """Return the space `ELASTIC`."""
    return archir.loads(ELASTIC)


def recipe(folder: Path, text: str = RECIPE) -> Path:
    """Write a recipe of the space, and the space, as files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "elastic.arch").write_text(ELASTIC)
    path = folder / "recipe.toml"
    path.write_text(text)
    return path


def trials_of(run: Run, phase: str) -> list[Trial]:
    """Return the trials of a phase, without their durations and workers."""
    return [replace(trial, seconds=None, worker=None) for trial in run.phase(phase).trials()]


def job(strategy: str, options: Mapping[str, Any] | None = None, **more: Any) -> Job:
    """Return a phase on noise of ten classes, by default in `elastic`."""
    settings = {"space": elastic(), "epochs": 2, "batch": 16} | more
    return replace(searches.job(strategy, options, **settings), data=searches.data(100, 8, 10))


def gone_through(phase_job: Job) -> tuple[TrialStrategy, list[Row]]:
    """Run a phase of trials to its end."""
    phase = create_strategy(phase_job)
    assert isinstance(phase, TrialStrategy)
    with phase:
        return phase, through(phase, epochs=phase.epochs, steps=phase.steps, seed=phase_job.seed)
