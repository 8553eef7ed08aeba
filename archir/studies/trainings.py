"""Studies of trainings: variants of a recipe (arms), each trained with several seeds, and what is measured of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from archir.diagnostics.errors import ArchError, Diagnostic, fail, join_names
from archir.diagnostics.hints import suggest
from archir.recipes.parsing import read
from archir.recipes.recipe import Recipe
from archir.utils import toml
from archir.utils.settings import ListAsTuple, Seed, Settings
from archir.utils.toml import Document

MAX_SEEDS = 10_000
"""Maximum number of seeds of a study."""
_ARM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
"""Regular expression for the names of arms, which are parts of the names of folders."""
_METRIC = re.compile(r"([\w-]+)\.(\w+)")
_TAU = re.compile(r"tau\(([\w-]+)\.(\w+), *([\w-]+)\.(\w+)\)")


@dataclass(frozen=True)
class Measure:
    """Quantity that a study measures in every run.

    It is a metric of a phase after its last epoch or, with two `parts`, Kendall's tau between the scores that the
    trials of two phases gave to the same architectures.
    """

    text: str
    parts: Sequence[tuple[str, str]]
    """Names of phases, each with a metric of its epochs or a score of its trials."""

    @property
    def is_tau(self) -> bool:
        """True if the quantity is a rank correlation."""
        return len(self.parts) == 2


def parse_measure(text: str) -> Measure | None:
    """Return the quantity that `PHASE.METRIC` or `tau(PHASE.SCORE, PHASE.SCORE)` names; None for any other text."""
    if (metric := _METRIC.fullmatch(text)) is not None:
        return Measure(text, [(metric[1], metric[2])])
    if (tau := _TAU.fullmatch(text)) is not None:
        return Measure(text, [(tau[1], tau[2]), (tau[3], tau[4])])
    return None


def _valid_arm(name: str) -> str:
    if not _ARM.fullmatch(name):
        raise ValueError(f"`{name}` cannot name an arm: use letters, digits, `_`, `-` and `.`")
    return name


def _valid_measure(text: str) -> str:
    if parse_measure(text) is None:
        raise ValueError(f"write PHASE.METRIC or tau(PHASE.SCORE, PHASE.SCORE), not `{text}`")
    return text


_MeasureText = Annotated[str, AfterValidator(_valid_measure)]


class TrainingStudy(Settings):
    """A study of trainings: the recipe is run with every seed for every arm, which overrides some of its settings."""

    title: str = "Trainings compared"
    recipe: str
    seeds: (
        Annotated[int, Field(ge=1, le=MAX_SEEDS)]
        | Annotated[tuple[Seed, ...], ListAsTuple, Field(min_length=1, max_length=MAX_SEEDS)]
    ) = 3
    """Seeds: a list, or a number of them, which then count from 0."""
    measured: _MeasureText | Annotated[tuple[_MeasureText, ...], ListAsTuple, Field(min_length=1)]
    executor: str = "local"
    arms: Annotated[dict[Annotated[str, AfterValidator(_valid_arm)], dict[str, Any]], Field(min_length=1)]
    baseline: str | None = None
    """Arm with which the others are compared; by default the first."""
    smoke: dict[str, Any] = Field(default_factory=dict)
    """Settings that make a run short enough to try out every arm."""

    @field_validator("baseline")
    @classmethod
    def _is_an_arm(cls, name: str | None, others: ValidationInfo) -> str | None:
        arms = others.data.get("arms")
        if name is not None and arms is not None and name not in arms:
            raise ValueError(f"`{name}` is none of the arms {join_names([*arms])}")
        return name

    @property
    def measures(self) -> list[Measure]:
        """The quantities that are measured, without repetitions."""
        texts = (self.measured,) if isinstance(self.measured, str) else self.measured
        return [measure for text in dict.fromkeys(texts) if (measure := parse_measure(text))]

    @property
    def all_seeds(self) -> list[int]:
        """The seeds, without repetitions."""
        return [*dict.fromkeys(range(self.seeds) if isinstance(self.seeds, int) else self.seeds)]

    @property
    def reference(self) -> str:
        """The arm with which the others are compared."""
        return self.baseline or next(iter(self.arms))


@dataclass(frozen=True)
class PlannedRun:
    """Run of a study: its arm and seed, the overrides of the recipe, and the recipe with these overrides.

    `positions` are the paths of the overrides in the study file, by key.
    """

    arm: str
    seed: int
    overrides: Mapping[str, str]
    recipe: Recipe
    positions: Mapping[str, toml.Path]

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return f"{self.arm}-seed{self.seed}"


def plan_runs(
    study: TrainingStudy, document: Document, recipe: Path, common: Mapping[str, str], smoke: bool
) -> list[PlannedRun]:
    """Return the runs of a study, ordered by seed first, so that an interrupted study has results for every arm.

    `common` overrides settings in all arms; an arm's own settings take precedence. With `smoke`, every arm is run with
    the first seed only and the overrides of `smoke`. Raises ArchError with positions in the study file: A2201 (the
    recipe cannot be read), A1109 (a setting of the study, or of the recipe with the overrides of an arm, is invalid, or
    overrides set the seed).
    """
    seeds_hint = "name the seeds in `seeds` of the study"
    if "seed" in common:
        raise fail("A1109", "the overrides of all arms set `seed`", None, seeds_hint)
    if smoke and not study.smoke:
        hint = 'for example: [smoke] and below it "PHASE.training.epochs" = 1'
        raise fail("A1109", "the study has no table `smoke`", None, hint)
    with document.with_span("recipe"):
        read(recipe)
    smoke_settings = [*_flatten(study.smoke, ("smoke",))] if smoke else []
    arms: list[PlannedRun] = []
    for arm, table in study.arms.items():
        settings = [*_flatten(table, ("arms", arm)), *smoke_settings]
        overrides = {**common, **{key: value for key, value, _ in settings}}
        paths = {key: path for key, _, path in settings}
        if "seed" in paths:
            text = f"arm `{arm}`: the study sets `seed`"
            raise fail("A1109", text, document.span(paths["seed"]), seeds_hint)
        with locate_overrides(document, paths):
            arms.append(PlannedRun(arm, 0, overrides, read(recipe, overrides).recipe, paths))
        _check_phases(study, document, arms[-1])
    return [
        replace(
            run,
            seed=seed,
            overrides={**run.overrides, "seed": str(seed)},
            recipe=run.recipe.model_copy(update={"seed": seed}),
        )
        for seed in study.all_seeds[: 1 if smoke else None]
        for run in arms
    ]


def _flatten(table: Mapping[str, Any], path: toml.Path, prefix: str = "") -> Iterator[tuple[str, str, toml.Path]]:
    """Yield the settings in a table of overrides: dotted key, value as TOML, and path in the study file.

    A table in the table overrides settings one by one.
    """
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flatten(value, (*path, name), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", toml.dump_value(value), (*path, name)


@contextmanager
def locate_overrides(document: Document, paths: Mapping[str, toml.Path]) -> Iterator[None]:
    """Context manager that moves errors in overrides to their position in the study file.

    `paths` are the positions of the overrides by key; errors in other overrides stay unchanged.
    """

    def moved(diagnostic: Diagnostic) -> Diagnostic:
        if diagnostic.span is None or diagnostic.span.source.name != toml.COMMAND_LINE:
            return diagnostic
        path = paths.get(diagnostic.span.source.text.partition("=")[0])
        return diagnostic if path is None else replace(diagnostic, span=document.span(path))

    try:
        yield
    except ArchError as error:
        raise ArchError(*map(moved, error.diagnostics)) from None


def _check_phases(study: TrainingStudy, document: Document, run: PlannedRun) -> None:
    """Raise ArchError (A1109) if a measured phase is not in the recipe of an arm."""
    phases = [phase.name for phase in run.recipe.phase]
    for measure in study.measures:
        for name, _ in measure.parts:
            if name not in phases:
                text = f"arm `{run.arm}` has no phase `{name}`, of which `{measure.text}` is measured"
                hint = suggest(name, phases) or f"phases: {join_names(phases)}"
                raise fail("A1109", text, document.span(("measured",)), hint)
