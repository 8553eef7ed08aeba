"""How candidates are scored: with a supernet's weights, by a short training, proxies, a prediction or a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from archir.data.inputs import sizes_of
from archir.data.selection import limited
from archir.diagnostics.errors import fail
from archir.ir.serial import from_json
from archir.passes.resize import taking
from archir.plugins import loading
from archir.recipes.recipe import Phase
from archir.recipes.supernet import SupernetRecord
from archir.recipes.training import Augment
from archir.recipes.trials import Scorer, scorer
from archir.runs import Trial
from archir.search.signals import left_to_others
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.tabular.table import Results
from archir.utils.seeds import mixed
from archir.utils.settings import Settings, parsed
from archir_torch.data import Data, Split
from archir_torch.lowering.precision import autocast
from archir_torch.objectives.supervised import Supervised
from archir_torch.proxies import PROXIES
from archir_torch.proxies.untrained import trial
from archir_torch.reuse.start import merging
from archir_torch.search.inheritance import restored, take_over
from archir_torch.search.job import Job
from archir_torch.search.predictor import Predictor, fitted, require_enough
from archir_torch.search.task import Task, objective_of
from archir_torch.strategies.train import Train, TrainOptions
from archir_torch.supernet.network import extract
from archir_torch.training import loop
from archir_torch.training.feed import Batch, Feed
from archir_torch.training.recalibration import recalibrate


@dataclass(frozen=True)
class Request:
    """A candidate as executors pass it on."""

    codes: tuple[int, ...]
    budget: float


@dataclass(frozen=True)
class Scoring:
    """The work of scoring (see `archir.search.executors.Work`): everything that a worker needs, and nothing that
    depends on which one it is. `graph` is the whole space's, as JSON."""

    scorer: Scorer
    phase: Phase
    graph: Mapping[str, Any]
    data: Data
    seed: int
    device: str
    threads: int
    weights: Mapping[str, NDArray[Any]]
    supernet: SupernetRecord | None
    earlier: Sequence[Trial]
    results: Results | None = None
    plugins: Mapping[str, Path | None] = field(default_factory=loading.homes)
    """What workers import, and where each may lie."""

    def check(self) -> None:
        """Raise ArchError if no candidate could be scored: A1110 (no such proxy), A2210 (no supernet), A2211 (too few
        trials)."""
        if self.scorer.kind == "inherited" and self.supernet is None:
            hint = 'start.weights = "..." names a phase that trains a supernet: spos, sandwich or fair'
            raise fail("A2210", f"phase `{self.phase.name}` has no supernet to score with", None, hint)
        if self.scorer.kind == "predictor":
            require_enough(self.earlier, self.scorer.score)
        for name in self.scorer.proxies if self.scorer.kind == "proxies" else ():
            if name not in PROXIES:
                raise fail("A1110", f"there is no proxy `{name}`", None, PROXIES.hint(name))

    def prepare(self) -> Callable[[Request], Mapping[str, float]]:
        """The function that scores; called in the worker."""
        torch.set_num_threads(self.threads)
        for name, folder in self.plugins.items():
            loading.load(name, () if folder is None else (folder,))
        space = Space(from_json(self.graph))
        kind = self.scorer.registered
        score = kind.make(self, space, parsed(kind.options, self.scorer.options))
        return lambda task: score(space.decode(task.codes), task.budget)

    def job(self, space: Space) -> Job:
        """What a phase would be given that trains on the weights' half alone, and tests on what is for validation."""
        weights, validation = self.data.halves()
        data = replace(self.data, train=weights, held_out=some(self.data, validation, self.scorer.images, self.seed))
        return Job(self.phase, space, data, self.seed, self.device)


Score = Callable[[Architecture, float], Mapping[str, float]]


@scorer("inherited", prefix="validation_")
def _inherited(work: Scoring, space: Space, options: Settings) -> Score:
    assert work.supernet is not None
    record, job = work.supernet, work.job(space)
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in work.weights.items()}
    model = restored(record, tensors)
    merged = merging(job, model)
    model = model.to(work.device)
    task = Task(job, model.graph)
    training, order = work.phase.training, mixed(work.seed, "recalibrate")
    feed = Feed(job.data.train, training.batch, seed=order, augment=Augment(), device=work.device)
    count = min(work.scorer.recalibrate, feed.steps)
    batches = [task.given(feed.batch(index)) for index in range(count)]

    def score(architecture: Architecture, budget: float) -> Mapping[str, float]:
        own = record.own(model.graph, architecture)
        network = extract(model, own)
        if merged is not None:
            take_over(network, merged.weights(model.parts(own)))
        with torch.no_grad(), autocast(training.precision, work.device):
            recalibrate(network, batches)
            return task.measured(network, job.data.held_out, 0)

    return score


@scorer("training", prefix="validation_")
def _training(work: Scoring, space: Space, options: Settings) -> Score:
    job = work.job(space)

    def score(architecture: Architecture, budget: float) -> Mapping[str, float]:
        epochs = max(1, round(budget * work.phase.training.epochs))
        phase = work.phase.model_copy(update={"training": work.phase.training.model_copy(update={"epochs": epochs})})
        train = Train(replace(job, phase=phase, architecture=dict(architecture)), TrainOptions(evaluate_every=epochs))
        with left_to_others():
            rows = loop.run(train, epochs=train.epochs, steps=train.steps, seed=work.seed, phase=work.phase.name)
        left_out = ("epoch", "seconds", "loss")  # the last is that of training
        measured = {name: float(value) for name, value in rows[-1].items() if name not in left_out}
        return {name.removeprefix("held_out_"): value for name, value in measured.items()}

    return score


@scorer("proxies")
def _proxies(work: Scoring, space: Space, options: Settings) -> Score:
    images = some(work.data, work.job(space).data.train, work.phase.training.batch, work.seed).to(work.device)
    objective, sizes = objective_of(work.phase, Path()), sizes_of(space.graph)
    criterion = _loss(objective) if isinstance(objective, Supervised) else None

    def score(architecture: Architecture, budget: float) -> Mapping[str, float]:
        untrained = trial(taking(space.specialize(architecture), sizes), images, work.seed, criterion)
        return {name: PROXIES[name](untrained) for name in work.scorer.proxies}

    return score


def _loss(objective: Supervised) -> Callable[[torch.Tensor, Split], torch.Tensor]:
    def loss(output: torch.Tensor, batch: Split) -> torch.Tensor:
        inputs = {name: one[torch.arange(len(batch))] for name, one in batch.inputs.items()}
        name = objective.settings.output or "output"
        return objective.loss({name: output}, Batch(inputs, batch.targets), 0)

    return loss


@scorer("predictor", prefix="predicted_")
def _predictor(work: Scoring, space: Space, options: Settings) -> Score:
    predictor: Predictor = fitted(space, work.earlier, work.scorer.score, work.seed)
    return lambda architecture, budget: {work.scorer.score: predictor(architecture)}


@scorer("table", prefix="validation_")
def _table(work: Scoring, space: Space, options: Settings) -> Score:
    assert work.results is not None
    return work.results


def some(data: Data, split: Split, count: int | None, seed: int) -> Split:
    """At most so many samples of a split, of every class the same part: sources may be ordered by their classes."""
    return split.chosen(torch.from_numpy(limited(data.strata(split).numpy(), count, seed)))


def arrays(weights: Mapping[str, torch.Tensor] | None) -> dict[str, NDArray[Any]]:
    """Weights as arrays, which executors share between workers where they can."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in (weights or {}).items()}
