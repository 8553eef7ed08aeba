"""Sources of scores: parameters learned by a differentiable search, trials of a phase, a cost, a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import exp, fsum, inf, log
from typing import Any

import numpy as np

from archir.diagnostics.errors import fail, join_names
from archir.language.elaboration.cost_names import is_cost
from archir.recipes.parsing import open_run, recipe_of_run
from archir.runs import Run, Trial
from archir.runs.folder import ALPHAS, OBJECTIVE
from archir.scoring.fitting import DIGITS, fit_scores
from archir.scoring.replacement import replacement_scores, replacements
from archir.spaces.architecture import Architecture
from archir.spaces.completion import largest
from archir.spaces.derive import MIN_STRENGTH
from archir.spaces.scores import AdditiveScores, Term
from archir.spaces.space import Space
from archir.utils.ranks import spearman

COMPARED_SAMPLES = 200
"""Number of sampled architectures on which scores from a cost are compared with the cost itself."""
REPLACE_STRATEGY = "replace_one"
"""Name of the strategy whose first trial is a reference, and whose other trials replace one of its outcomes."""


def scores_from_logits(source: str, space: Space) -> AdditiveScores:
    """Return the log probabilities learned by a differentiable search as scores.

    The architecture with the greatest score is the most likely one. `source` is a run, or `RUN:PHASE`. The score of a
    subset of alternatives is the sum of their log probabilities. Raises ArchError (A3324).
    """
    run, phase_name = open_run(source)
    phases = [phase for phase in run.phases() if f"phases/{phase.name}/{ALPHAS}" in run.entries]
    names = [phase.name for phase in phases if phase_name in ("", phase.name)]
    if not names:
        hint = "such parameters are learned by `darts`, `gdas` and other differentiable strategies"
        if phases:
            hint = f"phases with architecture parameters: {join_names([phase.name for phase in phases])}"
        raise fail("A3324", f"{run.folder} has no architecture parameters{_phase_text(phase_name)}", None, hint)
    logits = json.loads(run.content(f"phases/{names[-1]}/{ALPHAS}"))["logits"]
    scores = log_probability_scores(space, logits, str(run.folder))
    return replace(scores, made={**scores.made, "run": run.title, "phase": names[-1]})


def log_probability_scores(space: Space, logits: Mapping[str, Sequence[float]], where: str) -> AdditiveScores:
    """Return the log probabilities of logits as scores; the score of a subset of alternatives is the sum over them.

    `where` names the origin of the logits in messages. Raises ArchError (A3324) if they belong to another space, or are
    not numbers.
    """
    choices = {choice.path: choice for choice in space.choices}
    if unknown := [path for path in logits if path not in choices]:
        raise fail("A3324", f"{where} searched another space: there is no choice `{unknown[0]}` in `{space.name}`")
    terms = []
    for path, row in logits.items():
        if len(row) != len(choices[path].alternatives):
            raise fail("A3324", f"{where} searched another space, in which `{path}` has other alternatives")
        if not all(logit < inf for logit in row):
            raise fail("A3324", f"{where} has learned no numbers for `{path}`: {row}")
        log_probabilities = _log_softmax(row)
        values: dict[tuple[int, ...], Fraction] = {
            (i,): sum((log_probabilities[index] for index in subset), Fraction(0))
            for i, subset in enumerate(choices[path].subsets)
        }
        terms.append(Term((path,), values))
    return AdditiveScores(space.name, tuple(terms), made={"by": "logits"})


def scores_from_run(source: str, space: Space, score: str, pairs: bool = False) -> AdditiveScores:
    """Return scores computed from the trials of one phase of a run.

    If the phase's strategy is `replace_one`, the scores are differences from a reference architecture; otherwise, they
    are the coefficients of a fitted model, which is linear or, with `pairs`, pairwise. Greater values of `score` are
    better; losses and errors are negated. `source` is a run, or `RUN:PHASE`; the default is the last phase with trials.
    Raises ArchError (A3323, A3324).
    """
    run, phase_name = open_run(source)
    phases = [(phase, run.phase(phase.name).trials()) for phase in recipe_of_run(run).recipe.phase]
    matching = [entry for entry in phases if entry[1] and phase_name in ("", entry[0].name)]
    if not matching:
        phases_with_trials = [phase.name for phase, trials in phases if trials]
        hint = f"phases with trials: {join_names(phases_with_trials)}" if phases_with_trials else None
        raise fail("A3324", f"{run.folder} has no trials{_phase_text(phase_name)}", None, hint)
    phase, trials = matching[-1]
    provenance = {"score": score, "run": run.title, "phase": phase.name}
    one_by_one = phase.strategy == REPLACE_STRATEGY and not pairs
    scores = scores_from_trials(space, trials, phase.name, score, _is_maximized(run, space, score), one_by_one, pairs)
    return replace(scores, made={**scores.made, **provenance})


def scores_from_trials(
    space: Space,
    trials: Sequence[Trial],
    phase: str,
    score: str,
    is_maximized: bool,
    one_by_one: bool | None = None,
    pairs: bool = False,
) -> AdditiveScores:
    """Return scores computed from trials.

    If the trials are single replacements in a reference architecture, the scores are differences from this reference;
    otherwise, a model is fitted. `is_maximized` says whether greater values of the score are better. `one_by_one` says
    whether the trials are such replacements; None detects it. Raises ArchError (A3323, A3324).
    """
    completed = [trial for trial in trials if trial.status == "done" and trial.scores.get(score) is not None]
    if not completed:
        names = join_names(sorted({name for trial in trials for name in trial.scores}))
        raise fail("A3324", f"no trial of `{phase}` has the score `{score}`", None, f"scores are: {names or 'none'}")
    if one_by_one is None:
        one_by_one = _are_replacements(space, completed)
    values = [(1 if is_maximized else -1) * float(trial.scores[score] or 0.0) for trial in completed]
    if one_by_one:
        return _replacement_trials(space, completed, values)
    return fit_scores(space, [space.architecture(trial.architecture) for trial in completed], values, pairs)


def scores_from_cost(space: Space, cost: str) -> AdditiveScores:
    """Return negated costs as scores: each outcome is substituted, on its own, into the largest architecture.

    The provenance record `made` of the result contains the rank correlation between scores and cost over sampled
    architectures. Raises ArchError (A1604).
    """

    def scored(samples: Sequence[Architecture]) -> list[float]:
        return [-float(value) for value in space.cost(samples, [cost])[cost]]

    scores = replacement_scores(space, largest(space), scored, {"cost": cost})
    drawn = space.sample_codes(COMPARED_SAMPLES, np.random.default_rng(0))
    samples = [space.decode(tuple(row)) for row in drawn.tolist()]
    correlation = spearman(scored(samples), [float(scores(architecture)) for architecture in samples])
    return replace(scores, made={**scores.made, "rank_correlation": correlation})


def scores_from_function(
    space: Space, function: Callable[[Architecture], float], provenance: Mapping[str, Any]
) -> AdditiveScores:
    """Return scores by a function of architectures.

    Each outcome is substituted, on its own, into the largest architecture, and the result is scored. Raises ArchError
    (A3323) if a score is not finite.
    """
    return replacement_scores(
        space, largest(space), lambda several: [function(architecture) for architecture in several], provenance
    )


def _are_replacements(space: Space, trials: Sequence[Trial]) -> bool:
    """Return whether the trials are exactly one architecture and all of its replacements."""
    first = space.architecture(min(trials, key=lambda trial: trial.id).architecture)
    expected = [first, *(replacement.architecture for replacement in replacements(space, first))]
    return {space.canonical(architecture) for architecture in expected} == {trial.hash for trial in trials}


def _replacement_trials(space: Space, trials: Sequence[Trial], values: Sequence[float]) -> AdditiveScores:
    """Return the differences of replacements from the first trial, as scores.

    Raises ArchError (A3324) if some replacements have not been evaluated.
    """
    value_by_hash = {trial.hash: value for trial, value in zip(trials, values, strict=True)}

    def scored(architectures: Sequence[Architecture]) -> list[float]:
        hashes = [space.canonical(architecture) for architecture in architectures]
        if missing := [name for name in hashes if name not in value_by_hash]:
            raise fail("A3324", f"{len(missing)} replacements have no score yet", None, "resume the search")
        return [value_by_hash[name] for name in hashes]

    first = min(trials, key=lambda trial: trial.id)
    return replacement_scores(space, space.architecture(first.architecture), scored)


def _is_maximized(run: Run, space: Space, score: str) -> bool:
    """Return whether greater values of a score are better, according to the run's objectives.

    Without an objective of this name, smaller values are better for costs and losses only.
    """
    directions: dict[str, bool] = {"loss": False}
    for phase in run.phases():
        path = f"phases/{phase.name}/{OBJECTIVE}"
        if path in run.entries:
            recorded = json.loads(run.content(path))
            directions |= recorded.get("measures", {}) | recorded.get("objectives", {})
    name = score.removeprefix("validation_")
    return directions[name] if name in directions else not is_cost(name) and name not in space.account.names


def _log_softmax(row: Sequence[Any]) -> list[Fraction]:
    """Return the log probabilities of logits as exact fractions; probabilities are at least MIN_STRENGTH."""
    maximum = max(row)
    total = fsum(exp(logit - maximum) for logit in row)
    return [Fraction(f"{log(max(exp(logit - maximum) / total, MIN_STRENGTH)):.{DIGITS}g}") for logit in row]


def _phase_text(phase_name: str) -> str:
    return f" of a phase `{phase_name}`" if phase_name else ""
