"""Where scores come from: architecture parameters of a differentiable search, what a phase tried, and any function."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from math import exp, fsum, log
from pathlib import Path
from typing import Any

import numpy as np

from archir.costs.latencies.fill import spearman
from archir.diagnostics.errors import fail, listed
from archir.language.elaboration.costs import is_cost
from archir.recipes.borrowing import written
from archir.runs import Run, Trial
from archir.runs.summaries import OBJECTIVE
from archir.scoring.fitting import DIGITS, fitted
from archir.scoring.replacing import replaced, replacements
from archir.spaces.architecture import Architecture
from archir.spaces.derive import LEAST
from archir.spaces.partial import largest
from archir.spaces.scores import Scores, Term
from archir.spaces.space import Space

DRAWN = 200
"""Architectures on which scores are compared with costs."""
REPLACE = "replace_one"
"""The strategy whose first trial is a reference, and whose others differ from it in one choice."""


def of_logits(source: str, space: Space) -> Scores:
    """The logarithms of probabilities that a differentiable search came to: the greatest sum is its likeliest choice.

    `source` is a run, or `RUN:PHASE`. Of several that are taken together, they add up. Raises ArchError (A3324).
    """
    run, which = _named(source)
    has = [one for one in run.phases() if f"phases/{one.name}/alphas.json" in run.files.manifest.files]
    names = [one.name for one in has if which in ("", one.name)]
    if not names:
        hint = f"phases that have some: {listed([one.name for one in has])}" if has else "`darts`, `gdas`... learn some"
        raise fail("A3324", f"{run.folder} has no architecture parameters{_of(which)}", None, hint)
    logits = json.loads(run.content(f"phases/{names[-1]}/alphas.json"))["logits"]
    scores = logarithms(space, logits, str(run.folder))
    return replace(scores, made={**scores.made, "run": run.title, "phase": names[-1]})


def logarithms(space: Space, logits: Mapping[str, Sequence[float]], where: str) -> Scores:
    """The logarithms of the probabilities that logits stand for; of several that are taken together, their sum.

    `where` they are from. Raises ArchError (A3324) if they are those of another space.
    """
    choices = {choice.path: choice for choice in space.choices}
    if unknown := [path for path in logits if path not in choices]:
        raise fail("A3324", f"{where} searched another space: there is no choice `{unknown[0]}` in `{space.name}`")
    terms = []
    for path, row in logits.items():
        if len(row) != len(choices[path].alternatives):
            raise fail("A3324", f"{where} searched another space: `{path}` has other alternatives there")
        shares = _log_softmax(row)
        values: dict[tuple[int, ...], Fraction] = {
            (i,): sum((shares[one] for one in taken), Fraction(0)) for i, taken in enumerate(choices[path].subsets)
        }
        terms.append(Term((path,), values))
    return Scores(space.name, tuple(terms), made={"by": "logits"})


def of_trials(source: str, space: Space, score: str, pairs: bool = False) -> Scores:
    """A model fitted to what a phase tried, linear or of pairs; or differences from the reference, of a phase that
    replaced one by one. More of the `score` is better: of losses and errors, the opposite counts.

    `source` is a run, or `RUN:PHASE`; by default the last phase that tried anything. Raises ArchError (A3323, A3324).
    """
    run, which = _named(source)
    phases = [(phase, run.phase(phase.name).trials()) for phase in written(run).recipe.phase]
    found = [one for one in phases if one[1] and which in ("", one[0].name)]
    if not found:
        there = [phase.name for phase, tried in phases if tried]
        hint = f"phases that did: {listed(there)}" if there else None
        raise fail("A3324", f"{run.folder} tried nothing{_of(which)}", None, hint)
    phase, tried = found[-1]
    made = {"score": score, "run": run.title, "phase": phase.name}
    one_by_one = phase.strategy == REPLACE and not pairs
    scores = of_tried(space, tried, phase.name, score, _more(run, space, score), one_by_one, pairs)
    return replace(scores, made={**scores.made, **made})


def of_tried(
    space: Space,
    tried: Sequence[Trial],
    phase: str,
    score: str,
    more: bool,
    one_by_one: bool | None = None,
    pairs: bool = False,
) -> Scores:
    """A model fitted to the trials of a phase; or if they are those of `replace_one`, differences from the reference.

    `more` of the score is better. Whether they were replaced `one_by_one` is seen in them, if it is not known. Raises
    ArchError (A3323, A3324).
    """
    done = [one for one in tried if one.status == "done" and one.scores.get(score) is not None]
    if not done:
        names = listed(sorted({name for one in tried for name in one.scores}))
        raise fail("A3324", f"no trial of `{phase}` has the score `{score}`", None, f"there are {names or 'none'}")
    if one_by_one is None:
        one_by_one = _are_replacements(space, done)
    values = [(1 if more else -1) * float(one.scores[score] or 0.0) for one in done]
    return _replaced(space, done, values) if one_by_one else _fitted(space, done, values, pairs)


def kept_as(name: str) -> str:
    """Where a run has its copy of a file of scores that a phase names."""
    return f"scores/{sha256(name.encode()).hexdigest()[:16]}.json"


def of_cost(space: Space, cost: str) -> Scores:
    """The opposite of a cost, of each alternative alone; `made` has the rank correlation of architectures that are
    drawn. Raises ArchError (A1604)."""

    def scored(several: Sequence[Architecture]) -> list[float]:
        return [-float(value) for value in space.cost(several, [cost])[cost]]

    scores = replaced(space, largest(space), scored, {"cost": cost})
    drawn = space.sample_codes(DRAWN, np.random.default_rng(0))
    several = [space.decode(tuple(row)) for row in drawn.tolist()]
    correlation = spearman(scored(several), [float(scores(one)) for one in several])
    return replace(scores, made={**scores.made, "rank_correlation": correlation})


def of_function(space: Space, function: Callable[[Architecture], float], made: Mapping[str, Any]) -> Scores:
    """What a function says of each alternative alone."""
    return replaced(space, largest(space), lambda several: [function(one) for one in several], made)


def _fitted(space: Space, done: Sequence[Trial], values: Sequence[float], pairs: bool) -> Scores:
    return fitted(space, [space.architecture(one.architecture) for one in done], values, pairs)


def _are_replacements(space: Space, done: Sequence[Trial]) -> bool:
    """Whether trials are an architecture and all replacements of its alternatives, and no others."""
    first = space.architecture(min(done, key=lambda one: one.id).architecture)
    several = [first, *(one.architecture for one in replacements(space, first))]
    return {space.canonical(one) for one in several} == {one.hash for one in done}


def _replaced(space: Space, done: Sequence[Trial], values: Sequence[float]) -> Scores:
    known = {one.hash: value for one, value in zip(done, values, strict=True)}

    def scored(several: Sequence[Architecture]) -> list[float]:
        names = [space.canonical(one) for one in several]
        if missing := [name for name in names if name not in known]:
            raise fail("A3324", f"{len(missing)} replacements were not scored: go on with the search")
        return [known[name] for name in names]

    first = min(done, key=lambda one: one.id)
    return replaced(space, space.architecture(first.architecture), scored)


def _more(run: Run, space: Space, score: str) -> bool:
    """Whether more of a score is better: as the run's objectives say of measures; of costs and losses, less is."""
    told: dict[str, bool] = {"loss": False}
    for phase in run.phases():
        path = f"phases/{phase.name}/{OBJECTIVE}"
        if path in run.files.manifest.files:
            told |= json.loads(run.content(path)).get("measures", {})
    name = score.removeprefix("validation_")
    return told[name] if name in told else not is_cost(name) and name not in space.account.names


def _log_softmax(row: Sequence[Any]) -> list[Fraction]:
    top = max(row)
    total = fsum(exp(one - top) for one in row)
    return [Fraction(f"{log(max(exp(one - top) / total, LEAST)):.{DIGITS}g}") for one in row]


def _named(source: str) -> tuple[Run, str]:
    place, colon, which = source.rpartition(":")
    return (Run.open(Path(place)), which) if colon else (Run.open(Path(source)), "")


def _of(which: str) -> str:
    return f" of a phase `{which}`" if which else ""
