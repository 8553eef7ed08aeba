"""Strategies of `archir.search` as recipe phases, which evaluate candidates one by one or in batches."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from archir.diagnostics.errors import Interrupted, fail
from archir.ir.serial import to_json
from archir.recipes import results
from archir.recipes.open_choices import fix_choices
from archir.recipes.trials import TrialOptions
from archir.runs import Trial
from archir.runs.folder import FRONT
from archir.runs.trial_report import front_plot
from archir.search.ask_tell import Search
from archir.search.candidate import Candidate, Scores
from archir.search.executors import Done, Executor, device_of
from archir.search.executors import Outcome as Found
from archir.search.fronts import rows
from archir.search.registry import STRATEGIES, StrategyKind
from archir.search.signals import interruptions
from archir.search.trial_progress import TrialCallback, TrialProgress
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.seeds import derive_seed
from archir_torch.search.comparison import comparison_source, with_default_objectives
from archir_torch.search.job import Job, Outcome, Strategy, strategy
from archir_torch.search.measured_latency import latency_bounds, measure_finalists
from archir_torch.search.predictor import cross_validate
from archir_torch.search.scoring import Scoring, ScoringRequest, weight_arrays
from archir_torch.strategies.untrained import Untrained
from archir_torch.training import distributed
from archir_torch.training.checkpoint_state import State


class RandomArchitecture(Untrained):
    """Strategy that samples uniformly from the architectures that satisfy all constraints; nothing is trained or
    scored."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def outcome(self) -> Outcome:
        """Return the sampled architecture."""
        phase = self.job.phase
        opened = fix_choices(self.job.space, phase.open, phase.fixed, self.job.architecture)
        sampled = opened.space.sample(random.Random(derive_seed(self.job.seed, "random")))
        return Outcome(architecture=opened.completed(sampled))


GIVES = ("architecture", "trials")
"""Kinds of results that later phases can start from."""


class TrialStrategy:
    """Strategy that scores batches of candidates; a batch is a step.

    Trials are stored in the journal of the run. A resumed search proposes the same candidates again, and scores only
    those
    that are not in the journal.
    """

    steps = 1

    def __init__(self, job: Job, options: TrialOptions, make: Callable[[Space, int], Search]) -> None:
        """Create the search; `make` creates it from a space and a seed."""
        self.job, self.options = job, options
        self.opened = fix_choices(job.space, job.phase.open, job.phase.fixed, job.architecture)
        space = options.within(self.opened.space)
        self.search = make(space, derive_seed(job.seed, "trials"))
        self.epochs, self.unit = self.search.batches, self.search.batch_name
        self.batches = 0
        self.scores_by_id: dict[int, Scores | None] = {}
        """Scores of the candidates tried so far, by id; None for failed candidates."""
        self._executor_name = job.executor or options.executor
        self._all_ranks_score = self._executor_name == "local" and distributed.world().size > 1
        """True if there are several processes and each scores candidates itself."""
        self._workers: Executor | None = None
        self._scoring_work = self._create_scoring()
        self._exhausted = False
        self._callback: TrialCallback | None = None
        self._best_key: tuple[float, ...] = ()
        """Negated budget and objective values of the best candidate so far; smaller is better."""

    def restrict(self, architecture: Architecture) -> Architecture:
        """Convert an architecture of the full space to the space of open choices."""
        return self.opened.restricted(architecture)

    def _create_scoring(self) -> Scoring:
        """Create the scoring work for the executors."""
        job, threads = self.job, torch.get_num_threads()
        executor_name = self._executor_name
        device = device_of(executor_name, job.device, self.options.gpus)
        weights = weight_arrays(job.weights)
        return Scoring(
            self.options.scorer, job.phase, to_json(job.space.graph), job.data, job.seed, device,
            threads if executor_name == "local" else max(1, int(self.options.cores)), weights, job.supernet,
            job.earlier,
            job.results,
        )  # fmt: skip

    def __enter__(self) -> TrialStrategy:
        self._scoring_work.check()
        with distributed.barrier_with_error(f"phase `{self.job.phase.name}`") as is_first:
            if is_first or self._all_ranks_score:
                self._workers = self.options.workers(self.job.executor).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._workers is not None:
            self._workers.__exit__(kind, error, trace)
            self._workers = None

    # scoring of batches

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """Get the next batch of candidates from the search, score it, and report the scores to the search."""
        while self.batches <= index:
            batch = self.search.ask()
            scores_by_candidate = self._score_batch(batch)
            if self._callback is not None:
                for candidate in batch:  # also those that were scored before an interruption
                    self._note_scores(candidate, scores_by_candidate[candidate.id])
            self.search.tell([(candidate, scores_by_candidate[candidate.id]) for candidate in batch])
            self.scores_by_id |= scores_by_candidate
            self.batches += 1
            self._exhausted = not self.search.ask()
        return {"failed": float(sum(scores is None for scores in scores_by_candidate.values()))}

    def _score_batch(self, batch: Sequence[Candidate]) -> dict[int, Scores | None]:
        """Return the scores of a batch, None for failed candidates.

        Candidates that are not in the journal are scored and stored. With several processes, each process scores one
        candidate at a time, unless an executor of the first process scores all candidates. Raises Interrupted in all
        processes if one process is interrupted.
        """
        stored = self.job.trials.by_id
        missing = [
            candidate
            for candidate in batch
            if candidate.id not in stored or not _is_trial_of(stored[candidate.id], candidate)
        ]
        missing = [candidate for candidate in missing if not self._reuse_superseded(candidate)]
        rank, size = distributed.world()
        if self._all_ranks_score:
            for begin in range(0, len(missing), size):
                self._score_and_share(missing[begin + rank : begin + rank + 1])
        else:
            self._score_and_share(missing if rank == 0 else [])
        return {candidate.id: self._scores_of(candidate) for candidate in batch}

    def _reuse_superseded(self, candidate: Candidate) -> bool:
        """Reuse the scores from a trial of the same candidate before the phase was restarted.

        Returns False if there is no such trial.
        """
        trial = self.job.trials.before(dict(self.opened.completed(candidate.architecture)), candidate.budget)
        if trial is not None:
            self.job.trials.put(replace(trial, id=candidate.id, hash=candidate.hash))
        return trial is not None

    def _score_and_share(self, own_candidates: Sequence[Candidate]) -> None:
        """Score the candidates of this process, then exchange trials between all processes.

        Raises Interrupted in all processes if one process is interrupted.
        """
        label, trials = f"phase `{self.job.phase.name}`", self.job.trials
        own_trials: list[Trial] = []
        with distributed.barrier_with_error(label) as is_first:
            stopped = self._score_candidates(own_candidates, own_trials)
        texts = distributed.gather_texts(_dump_trials(own_trials))
        with distributed.barrier_with_error(label):
            for text in texts[1:] if is_first else texts:  # the first process has stored its own trials already
                for fields in json.loads(text):
                    trials.put(Trial(**fields))
        if distributed.any_reduce(stopped)[0]:
            raise Interrupted(f"{self.job.phase.name} was stopped after {len(trials.by_id)} trials")

    def _scores_of(self, candidate: Candidate) -> Scores | None:
        """Return the stored scores of a candidate; None if it failed."""
        trial = self.job.trials.by_id.get(candidate.id)
        if trial is None or trial.status != "done":
            return None
        return {name: value for name, value in trial.scores.items() if value is not None}

    def _score_candidates(self, own_candidates: Sequence[Candidate], tried: list[Trial]) -> bool:
        """Score candidates, and return True if an interrupt stopped the scoring.

        The first process stores each trial at once.
        """
        if not own_candidates:
            return False
        assert self._workers is not None
        is_first = distributed.world().rank == 0
        candidates = {str(candidate.id): candidate for candidate in own_candidates}
        architectures = {key: self.opened.completed(candidate.architecture) for key, candidate in candidates.items()}
        tasks = [
            (key, ScoringRequest(architectures[key].codes, candidate.budget)) for key, candidate in candidates.items()
        ]
        with (
            distributed.detached(),
            interruptions() as interrupted,
            closing(self._workers.run(self._scoring_work, tasks)) as results,
        ):
            try:
                for result in results:
                    tried.append(_trial(candidates[result.key], architectures[result.key], result))
                    if is_first:
                        self.job.trials.put(tried[-1])
                        self._report_trial(candidates[result.key])
                    if interrupted():
                        return True
            except Interrupted:  # while a candidate was being scored
                return True
        return False

    # reports of progress

    def report_trials(self, callback: TrialCallback) -> None:
        """Call `callback` now, and from now on after each trial that this process scores or collects."""
        self._callback = callback
        for entry in self.search.scored_at_max_budget():
            self._note_best(entry.candidate, entry.values)
        callback(self._progress())

    def _report_trial(self, candidate: Candidate) -> None:
        if self._callback is not None:
            values = self._note_scores(candidate, self._scores_of(candidate))
            self._callback(self._progress(None if values is None else self._unsigned(values[0])))

    def _note_scores(self, candidate: Candidate, scores: Scores | None) -> tuple[float, ...] | None:
        """Return a candidate's objective values (smaller is better), and note them if they are the best so far."""
        if scores is None:
            return None
        objectives = self.search.objectives
        values = objectives.values(objectives.complete(candidate.architecture, scores))
        if values is not None:
            self._note_best(candidate, values)
        return values

    def _note_best(self, candidate: Candidate, values: tuple[float, ...]) -> None:
        key = (-candidate.budget, *values)
        self._best_key = min(self._best_key or key, key)

    def _unsigned(self, value: float) -> float:
        return -value if self.search.objectives.each[0].maximize else value

    def _progress(self, last: float | None = None) -> TrialProgress:
        trials, plan = self.job.trials.by_id.values(), self.search.plan
        return TrialProgress(
            done=len(trials), total=sum(count for count, _ in plan),
            failed=sum(trial.status != "done" for trial in trials),
            work_done=sum(trial.budget for trial in trials), work_total=sum(count * budget for count, budget in plan),
            objective=self.search.objectives.each[0].name, last=last,
            best=self._unsigned(self._best_key[1]) if self._best_key else None,
        )  # fmt: skip

    # after an epoch

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """Return the scores of the best candidate so far, and the number of trials."""
        failed = sum(scores is None for scores in self.scores_by_id.values())
        metrics: dict[str, float] = {"trials": len(self.scores_by_id), "failed": failed}
        best = self.search.best()
        if best is not None:
            scores = self.scores_by_id[best.id] or {}
            metrics |= {f"{self.options.scorer.prefix}{name}": value for name, value in scores.items()}
        if self.options.scorer.kind == "predictor" and epoch == 0:
            scorer = self.options.scorer
            rank = cross_validate(self.job.space, self.job.earlier, scorer.score, self.job.seed)
            metrics |= {"predictor_rank": rank} if rank is not None else {}
        return metrics

    def finished(self) -> str | None:
        """Return the reason to stop, once the search proposes no more candidates; None to continue."""
        return "all planned candidates were tried" if self._exhausted else None

    def state(self) -> State:
        """Return the number of batches tried so far."""
        return State({}, {"batches": self.batches})

    def restore(self, state: State) -> None:
        """Replay the batches tried before the interruption; their scores are read from the journal."""
        if state.facts["batches"]:
            self.step(int(state.facts["batches"]) - 1)

    def outcome(self) -> Outcome:
        """Return the best architecture, and the Pareto front if there are several objectives.

        Raises ArchError (A2212) if all candidates failed.
        """
        best = self.search.best()
        if best is None:
            errors = [trial.error for trial in self.job.trials.by_id.values() if trial.error]
            hint = f"the first one: {errors[0]}" if errors else None
            raise fail("A2212", f"phase `{self.job.phase.name}`: all {len(errors)} candidates failed", None, hint)
        return Outcome(
            architecture=self._measured_best() or self.opened.completed(best.architecture), files=self._front()
        )

    def _measured_best(self) -> Architecture | None:
        """Measure the best candidates if their latency was bounded by a prediction; return the first within the bounds.

        Returns None if nothing was measured, or if no measured candidate is within the bounds.
        """
        bounds = latency_bounds(self.search.space)
        if not bounds:
            return None
        ranked = sorted(self.search.scored_at_max_budget(), key=lambda entry: entry.values)
        finalists = [self.opened.completed(entry.candidate.architecture) for entry in ranked]
        measured = self.job.decide_once(results.MEASURED, lambda: measure_finalists(self.job.space, finalists, bounds))
        return None if measured["chosen"] is None else finalists[measured["chosen"]]

    def _front(self) -> dict[str, str]:
        """Return the Pareto front as files: a table, a picture and the architectures.

        Returns no files if there is only one objective.
        """
        objectives = self.search.objectives.each
        if len(objectives) < 2:
            return {}
        front = [(self._full_candidate(item), scores) for item, scores in self.search.front()]
        everything = [(item.candidate, item.scores) for item in self.search.scored_at_max_budget()]
        picture = front_plot(everything, {item.id for item, _ in front}, objectives, self.job.phase.name)
        table = {"objectives": [str(item) for item in objectives], "front": rows(front)}
        files = {f"front/{item.id}.json": item.architecture.to_json() for item, _ in front}
        return {FRONT: json.dumps(table, indent=1) + "\n", "front.svg": picture, **files}

    def _full_candidate(self, candidate: Candidate) -> Candidate:
        """Return a candidate with its architecture converted to the full space."""
        architecture: Architecture = self.opened.completed(candidate.architecture)
        return replace(candidate, architecture=architecture, canonical=lambda _: candidate.hash)


def _trial(candidate: Candidate, architecture: Architecture, result: Found) -> Trial:
    """Convert the scoring result of a candidate to a trial for the journal."""
    done = isinstance(result, Done)
    return Trial(
        id=candidate.id, hash=candidate.hash, architecture=dict(architecture), status="done" if done else "failed",
        scores=dict(result.scores) if isinstance(result, Done) else {}, seconds=result.seconds,
        error=None if isinstance(result, Done) else f"{result.reason}: {result.message}", worker=result.worker,
        budget=candidate.budget,
    )  # fmt: skip


def _is_trial_of(trial: Trial, candidate: Candidate) -> bool:
    """Return True if a stored trial has the hash and the budget of a candidate."""
    return (trial.hash, trial.budget) == (candidate.hash, candidate.budget)


def _dump_trials(trials: Sequence[Trial]) -> str:
    """Return trials as JSON, to be sent to other processes."""
    return json.dumps([asdict(trial) for trial in trials])


def _register(name: str, kind: StrategyKind) -> None:
    """Register a strategy of `archir.search` as a strategy for phases, with the options of both."""
    options: Any = type(f"{kind.options.__name__}OfTrials", (TrialOptions, kind.options), {"__module__": __name__})

    def scores(settings: TrialOptions) -> bool:
        return name != "random" or bool(settings.model_fields_set)

    @strategy(name, options, refits=True, gives=GIVES, scores=scores, defined_by=kind.make)
    def make(job: Job, settings: TrialOptions) -> Strategy:
        if not scores(settings) and job.results is None:
            return RandomArchitecture(job)
        settings = with_default_objectives(settings, comparison_source(job))
        return TrialStrategy(job, settings, lambda space, seed: kind.make(space, settings, seed))


STRATEGIES.subscribe(_register)
