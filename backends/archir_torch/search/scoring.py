"""Scorers of candidates: supernet weights, short training, zero-cost proxies, a predictor, or a table of
results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from archir.data.inputs import sample_shapes
from archir.data.splits import limit_rows
from archir.diagnostics.errors import fail
from archir.ir.serial import from_json
from archir.passes.resize import with_input_sizes
from archir.plugins import loading
from archir.recipes.augmentation import Augment
from archir.recipes.job import SupernetRecord
from archir.recipes.recipe import Phase
from archir.recipes.trials import Scorer, scorer
from archir.runs import Trial
from archir.search.signals import keep_outer_handlers
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.seeds import derive_seed
from archir.utils.settings import Settings, SpanOf, no_span, parse_settings
from archir_torch.data import Data, Split
from archir_torch.lowering.precision import autocast
from archir_torch.objectives.supervised import Supervised
from archir_torch.reuse.start import make_merging
from archir_torch.search.inheritance import copy_matching, restore_supernet
from archir_torch.search.job import Job
from archir_torch.search.predictor import Predictor, fit_predictor, require_enough
from archir_torch.search.task import Task, objective_of
from archir_torch.strategies.train import Train, TrainOptions
from archir_torch.supernet.network import extract
from archir_torch.training import loop
from archir_torch.training.feed import Batch, Feed
from archir_torch.training.recalibration import recalibrate

if TYPE_CHECKING:  # few recipes look results up
    from archir.tabular.results import Results


@dataclass(frozen=True)
class ScoringRequest:
    """Candidate in the form that is sent to an executor: the codes of its choices, and its budget."""

    codes: tuple[int, ...]
    budget: float


@dataclass(frozen=True)
class Scoring:
    """Scoring work for executors (see `archir.search.executors.Work`): the data that each worker needs.

    The data are the same for every worker. `graph` is the graph of the full space as JSON.
    """

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
    plugins: Mapping[str, Path | None] = field(default_factory=loading.worker_folders)
    """Modules that workers import, each with the directory from which it may be imported; None for modules on the
    Python path."""

    def check(self) -> None:
        """Check that candidates can be scored at all.

        Raises ArchError: A1110 (there is no such proxy), A2210 (there is no supernet), A2211 (there are too few
        trials).
        """
        if self.scorer.kind == "inherited" and self.supernet is None:
            hint = 'start.weights = "..." names a phase that trains a supernet: spos, sandwich or fair'
            raise fail("A2210", f"phase `{self.phase.name}` has no supernet to score with", None, hint)
        if self.scorer.kind == "predictor":
            require_enough(self.earlier, self.scorer.score)
        check_proxies(self.scorer)

    def prepare(self) -> Callable[[ScoringRequest], Mapping[str, float]]:
        """Return the scoring function. The worker calls this method."""
        torch.set_num_threads(self.threads)
        for name, folder in self.plugins.items():
            loading.load(name, () if folder is None else (folder,))
        space = Space(from_json(self.graph))
        kind = self.scorer.registered
        score = kind.make(self, space, parse_settings(kind.options, self.scorer.options))
        return lambda task: score(space.decode(task.codes), task.budget)

    def job(self, space: Space) -> Job:
        """Return a job that trains on the samples for weights, and tests on a sample of the validation samples.

        Both kinds of samples come from the training part of the data, which a search divides in two.
        """
        weights, validation = self.data.halves()
        data = replace(
            self.data, train=weights, held_out=sample_split(self.data, validation, self.scorer.images, self.seed)
        )
        return Job(self.phase, space, data, self.seed, self.device)


def check_proxies(scorer: Scorer, span_of: SpanOf = no_span) -> None:
    """Raise ArchError (A1110) if a scorer names a proxy that does not exist."""
    if scorer.kind != "proxies":
        return
    from archir_torch.proxies import PROXIES

    for number, name in enumerate(scorer.proxies):
        if PROXIES.find(name) is None:
            raise fail("A1110", f"there is no proxy `{name}`", span_of(("proxies", number)), PROXIES.hint(name))


Score = Callable[[Architecture, float], Mapping[str, float]]
"""Scoring function: from an architecture and a budget to measures by name."""


@scorer("inherited", prefix="validation_")
def _inherited(work: Scoring, space: Space, options: Settings) -> Score:
    """Return a scoring function that evaluates with the weights of a supernet, after recalibrating batch norms."""
    assert work.supernet is not None
    record, job = work.supernet, work.job(space)
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in work.weights.items()}
    model = restore_supernet(record, tensors)
    merged = make_merging(job, model)
    model = model.to(work.device)
    task = Task(job, model.graph)
    training, feed_seed = work.phase.training, derive_seed(work.seed, "recalibrate")
    feed = Feed(job.data.train, training.batch, seed=feed_seed, augment=Augment(), device=work.device)
    count = min(work.scorer.recalibrate, feed.steps)
    batches = [task.network_inputs(feed.batch(index)) for index in range(count)]

    def score(architecture: Architecture, budget: float) -> Mapping[str, float]:
        encoded = record.to_supernet(model.graph, architecture)
        network = extract(model, encoded)
        if merged is not None:
            copy_matching(network, merged.weights(model.weight_slices(encoded)))
        with torch.no_grad(), autocast(training.precision, work.device):
            recalibrate(network, batches)
            return task.measure(network, job.data.held_out)

    return score


@scorer("training", prefix="validation_")
def _training(work: Scoring, space: Space, options: Settings) -> Score:
    """Return a scoring function that trains each candidate for `budget` times the epochs of the phase."""
    job = work.job(space)

    def score(architecture: Architecture, budget: float) -> Mapping[str, float]:
        epochs = max(1, round(budget * work.phase.training.epochs))
        phase = work.phase.model_copy(update={"training": work.phase.training.model_copy(update={"epochs": epochs})})
        train = Train(replace(job, phase=phase, architecture=dict(architecture)), TrainOptions(evaluate_every=epochs))
        with keep_outer_handlers():
            rows = loop.run(train, epochs=train.epochs, steps=train.steps, seed=work.seed, phase=work.phase.name)
        skipped = ("epoch", "seconds", "loss")  # `loss` is the training loss
        measured = {name: float(value) for name, value in rows[-1].items() if name not in skipped}
        return {name.removeprefix("held_out_"): value for name, value in measured.items()}

    return score


@scorer("proxies")
def _proxies(work: Scoring, space: Space, options: Settings) -> Score:
    """Return a scoring function that computes zero-cost proxies on a minibatch."""
    from archir_torch.proxies import PROXIES, make_trial

    images = sample_split(work.data, work.job(space).data.train, work.phase.training.batch, work.seed).to(work.device)
    objective, sizes = objective_of(work.phase, Path()), sample_shapes(space.graph)
    criterion = _loss(objective) if isinstance(objective, Supervised) else None

    def score(architecture: Architecture, budget: float) -> Mapping[str, float]:
        untrained = make_trial(with_input_sizes(space.specialize(architecture), sizes), images, work.seed, criterion)
        return {name: PROXIES[name](untrained) for name in work.scorer.proxies}

    return score


def _loss(objective: Supervised) -> Callable[[torch.Tensor, Split], torch.Tensor]:
    """Return the objective's loss as a function of the first output and a minibatch."""

    def loss(output: torch.Tensor, batch: Split) -> torch.Tensor:
        inputs = {name: column[torch.arange(len(batch))] for name, column in batch.inputs.items()}
        name = objective.settings.output or "output"
        return objective.loss({name: output}, Batch(inputs, batch.targets), 0)

    return loss


@scorer("predictor", prefix="predicted_")
def _predictor(work: Scoring, space: Space, options: Settings) -> Score:
    """Return a scoring function that predicts scores, fitted to earlier trials."""
    predictor: Predictor = fit_predictor(space, work.earlier, work.scorer.score, work.seed)
    return lambda architecture, budget: {work.scorer.score: predictor(architecture)}


@scorer("table", prefix="validation_")
def _table(work: Scoring, space: Space, options: Settings) -> Score:
    """Return a scoring function that looks candidates up in a table of results."""
    assert work.results is not None
    return work.results


def sample_split(data: Data, split: Split, count: int | None, seed: int) -> Split:
    """Sample at most `count` samples of a split, stratified by class.

    Taking the first samples would not suffice, because sources may be sorted by class.
    """
    return split.select(torch.from_numpy(limit_rows(data.strata(split).numpy(), count, seed)))


def weight_arrays(weights: Mapping[str, torch.Tensor] | None) -> dict[str, NDArray[Any]]:
    """Convert weights to arrays, which executors pass to their workers in shared memory where possible."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in (weights or {}).items()}
