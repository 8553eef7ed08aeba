"""Strategies that try candidates, one after the other or many at once: those of `archir.search`, in phases."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from archir.diagnostics.errors import Interrupted, fail
from archir.ir.serial import to_json
from archir.recipes.open_choices import settle
from archir.recipes.trials import TrialOptions
from archir.runs import Trial
from archir.runs.report.scatter import scatter
from archir.search.ask_tell import Search
from archir.search.candidate import Candidate, Scores
from archir.search.executors import Done, Executor, device_of
from archir.search.executors import Outcome as Found
from archir.search.fronts.listing import rows
from archir.search.registry import Kind, strategies
from archir.search.signals import interruptions
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.seeds import mixed
from archir_torch.search.aims import aimed, compared
from archir_torch.search.job import Job, Outcome, Strategy, strategy
from archir_torch.search.predictor import agreement
from archir_torch.search.scoring import Request, Scoring, arrays
from archir_torch.strategies.random_baseline import Drawn
from archir_torch.training import distributed
from archir_torch.training.checkpoint_state import State

GIVES = ("architecture", "trials")
"""What later phases can start from."""


class Trials:
    """A trainee whose steps are batches of candidates. What was tried is in the journal: a search that goes on asks the
    same again, and scores only what is not there."""

    steps = 1

    def __init__(self, job: Job, options: TrialOptions, make: Callable[[Space, int], Any]) -> None:
        """`make` makes the search, of a space and with a seed."""
        self.job, self.options = job, options
        self.opened = settle(job.space, job.phase.open, job.phase.fixed, job.architecture)
        space = options.within(self.opened.space)
        search = make(space, mixed(job.seed, "trials"))
        assert isinstance(search, Search)
        self.search = search
        self.epochs, self.unit = search.batches, search.batch_name
        self.batches = 0
        self.tried: dict[int, Scores | None] = {}
        """What was told, by id."""
        self._who = job.executor or options.executor
        self._shared = self._who == "local" and distributed.world().size > 1
        """Whether each of several processes scores in itself."""
        self._workers: Executor | None = None
        self._work = self._scoring()
        self._over = False

    def restricted(self, architecture: Architecture) -> Architecture:
        """An architecture of the whole space as one of what is open."""
        return self.opened.restricted(architecture)

    def _scoring(self) -> Scoring:
        job, threads = self.job, torch.get_num_threads()
        who = self._who
        device = device_of(who, job.device, self.options.gpus)
        weights = arrays(job.weights)
        return Scoring(
            self.options.scorer, job.phase, to_json(job.space.graph), job.data, job.seed, device,
            threads if who == "local" else max(1, int(self.options.cores)), weights, job.supernet, job.earlier,
            job.results,
        )  # fmt: skip

    def __enter__(self) -> Trials:
        self._work.check()
        with distributed.jointly(f"phase `{self.job.phase.name}`") as leads:
            if leads or self._shared:
                self._workers = self.options.workers(self.job.executor).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._workers is not None:
            self._workers.__exit__(kind, error, trace)
            self._workers = None

    # a batch

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """The next batch of candidates: asked, scored, told."""
        while self.batches <= index:
            batch = self.search.ask()
            found = self._scored(batch)
            self.search.tell([(candidate, found[candidate.id]) for candidate in batch])
            self.tried |= found
            self.batches += 1
            self._over = not self.search.ask()
        return {"failed": float(sum(scores is None for scores in found.values()))}

    def _scored(self, batch: Sequence[Candidate]) -> dict[int, Scores | None]:
        """The scores of a batch; None for what failed. What is not in the journal is scored, and written there.

        Of several processes each scores one candidate at a time, unless workers of the first one score all of them.
        Raises Interrupted, in all of them.
        """
        known = self.job.trials.known
        left = [one for one in batch if one.id not in known or not _same(known[one.id], one)]
        left = [one for one in left if not self._taken_over(one)]
        rank, size = distributed.world()
        if self._shared:
            for begin in range(0, len(left), size):
                self._round(left[begin + rank : begin + rank + 1])
        else:
            self._round(left if rank == 0 else [])
        return {one.id: self._result(one) for one in batch}

    def _taken_over(self, candidate: Candidate) -> bool:
        """Whether a candidate was tried before the phase began anew; its scores count, then."""
        before = self.job.trials.before(dict(self.opened.completed(candidate.architecture)), candidate.budget)
        if before is not None:
            self.job.trials.put(replace(before, id=candidate.id, hash=candidate.hash))
        return before is not None

    def _round(self, own: Sequence[Candidate]) -> None:
        """Score candidates, in each process its own; then all know the trials of all. Raises Interrupted in all."""
        what, trials = f"phase `{self.job.phase.name}`", self.job.trials
        found: list[Trial] = []
        with distributed.jointly(what) as leads:
            stopped = self._try(own, found)
        together = distributed.gathered(_texts(found))
        with distributed.jointly(what):
            for text in together[1:] if leads else together:  # what the first process found is in its journal
                for one in json.loads(text):
                    trials.put(Trial(**one))
        if distributed.agreed(stopped)[0]:
            raise Interrupted(f"{self.job.phase.name} was stopped after {len(trials.known)} trials")

    def _result(self, candidate: Candidate) -> Scores | None:
        trial = self.job.trials.known.get(candidate.id)
        if trial is None or trial.status != "done":
            return None
        return {name: value for name, value in trial.scores.items() if value is not None}

    def _try(self, own: Sequence[Candidate], tried: list[Trial]) -> bool:
        """Score candidates, in the first process into the journal one by one; whether somebody stopped it."""
        if not own:
            return False
        assert self._workers is not None
        leads = distributed.world().rank == 0
        left = {str(candidate.id): candidate for candidate in own}
        whole = {key: self.opened.completed(candidate.architecture) for key, candidate in left.items()}
        tasks = [(key, Request(whole[key].codes, candidate.budget)) for key, candidate in left.items()]
        with (
            distributed.alone(),
            interruptions() as interrupted,
            closing(self._workers.run(self._work, tasks)) as found,
        ):
            try:
                for one in found:
                    tried.append(_trial(left[one.key], whole[one.key], one))
                    if leads:
                        self.job.trials.put(tried[-1])
                    if interrupted():
                        return True
            except Interrupted:  # in the midst of a candidate
                return True
        return False

    # an epoch

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """The best scores until now, and how many were tried."""
        failed = sum(scores is None for scores in self.tried.values())
        found: dict[str, float] = {"trials": len(self.tried), "failed": failed}
        best = self.search.best()
        if best is not None:
            scores = self.tried[best.id] or {}
            found |= {f"{self.options.scorer.prefix}{name}": value for name, value in scores.items()}
        if self.options.scorer.kind == "predictor" and epoch == 0:
            scorer = self.options.scorer
            rank = agreement(self.job.space, self.job.earlier, scorer.score, self.job.seed)
            found |= {"predictor_rank": rank} if rank is not None else {}
        return found

    def finished(self) -> str | None:
        """When nothing is asked any more."""
        return "all candidates were tried" if self._over else None

    def state(self) -> State:
        """How many batches were tried."""
        return State({}, {"batches": self.batches})

    def restore(self, state: State) -> None:
        """Ask and tell as often as before."""
        if state.facts["batches"]:
            self.step(int(state.facts["batches"]) - 1)

    def outcome(self) -> Outcome:
        """The best architecture, and the front. Raises ArchError (A2212) if nothing could be scored."""
        best = self.search.best()
        if best is None:
            errors = [trial.error for trial in self.job.trials.known.values() if trial.error]
            hint = f"the first one: {errors[0]}" if errors else None
            raise fail("A2212", f"phase `{self.job.phase.name}`: all {len(errors)} candidates failed", None, hint)
        return Outcome(architecture=self.opened.completed(best.architecture), files=self._front())

    def _front(self) -> dict[str, str]:
        """The architectures that are not dominated, as a table, a picture, and files; of one objective, nothing."""
        objectives = self.search.objectives.each
        if len(objectives) < 2:
            return {}
        front = [(self._whole(one), scores) for one, scores in self.search.front()]
        everything = [(one.candidate, one.scores) for one in self.search.finished()]
        picture = scatter(everything, {one.id for one, _ in front}, objectives, self.job.phase.name)
        table = {"objectives": [str(one) for one in objectives], "front": rows(front)}
        files = {f"front/{one.id}.json": one.architecture.to_json() for one, _ in front}
        return {"front.json": json.dumps(table, indent=1) + "\n", "front.svg": picture, **files}

    def _whole(self, candidate: Candidate) -> Candidate:
        architecture: Architecture = self.opened.completed(candidate.architecture)
        return replace(candidate, architecture=architecture, canonical=lambda _: candidate.hash)


def _trial(candidate: Candidate, whole: Architecture, found: Found) -> Trial:
    """What came of a candidate, as the journal has it."""
    done = isinstance(found, Done)
    return Trial(
        id=candidate.id, hash=candidate.hash, architecture=dict(whole), status="done" if done else "failed",
        scores=dict(found.scores) if isinstance(found, Done) else {}, seconds=found.seconds,
        error=None if isinstance(found, Done) else f"{found.reason}: {found.message}", worker=found.worker,
        budget=candidate.budget,
    )  # fmt: skip


def _same(trial: Trial, candidate: Candidate) -> bool:
    return (trial.hash, trial.budget) == (candidate.hash, candidate.budget)


def _texts(trials: Sequence[Trial]) -> str:
    """Trials for other processes to read."""
    return json.dumps([asdict(trial) for trial in trials])


def _register(name: str, kind: Kind) -> None:
    options: Any = type(f"{kind.options.__name__}OfTrials", (TrialOptions, kind.options), {"__module__": __name__})

    def scores(given: TrialOptions) -> bool:
        return name != "random" or bool(given.model_fields_set)

    @strategy(name, options, refits=True, gives=GIVES, scores=scores, by=kind.make)
    def make(job: Job, given: TrialOptions) -> Strategy:
        if not scores(given) and job.results is None:
            return Drawn(job)
        given = aimed(given, compared(job))
        return Trials(job, given, lambda space, seed: kind.make(space, given, seed))


strategies().each(_register)
