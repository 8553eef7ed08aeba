"""Registry of the strategies that phases can use, and checks of a phase before it runs.

Each backend has its own registry for the strategies that it can run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from archir.diagnostics.errors import ArchError, Diagnostic, fail, join_names
from archir.plugins.registry import Registry
from archir.recipes import job
from archir.recipes.derivation import check_labels, check_nonempty
from archir.recipes.open_choices import fix_choices, fixed_architecture, label_problems, matching_paths, open_paths
from archir.recipes.parsing import RecipeFile
from archir.recipes.recipe import Evaluate, Phase, Recipe
from archir.recipes.training import find_augmentation
from archir.recipes.trials import TABLE, TrialOptions
from archir.search.near_bounds import CostBounds, upper_bounds
from archir.spaces.space import Space
from archir.utils.settings import Settings, SpanOf, parse_settings, suggest_table
from archir.utils.toml import Path as Place

Job = TypeVar("Job", bound="job.Job[Any, Any]")
Strategy = TypeVar("Strategy")

CheckObjective = Callable[[Mapping[str, Any], str, SpanOf], None]
"""Function (settings, prefix, where) that raises ArchError for invalid settings of an objective.

Messages start with the prefix; `where` maps a setting's path to its span in the recipe.
"""

Mistakes = Callable[[Phase, Space, Any], Iterable[tuple[Place, Diagnostic]]]
"""Function (phase, space, options) that yields mistakes in a phase, each with the path of the setting in the
phase.

Mistakes are missing requirements of the strategy, and settings without effect. A strategy may define such a
function as `mistakes`.
"""


@dataclass(frozen=True)
class StrategyKind(Generic[Job, Strategy]):
    """Registered strategy: options class, constructor, and capabilities."""

    options: type[Settings]
    make: Callable[[Job, Any], Strategy]
    divides: bool = False
    """Whether the strategy can shard its weights across processes (`training.sharding`)."""
    uses_all_samples: bool = False
    """Whether the strategy trains on all training samples.

        A search, in contrast, trains weights on some of the samples and selects architectures by the others.
    """
    orders: bool = False
    """Whether the strategy can sort the channels of its initial weights by importance (`start.order`)."""
    refits: bool = False
    """Whether the strategy extracts architectures from a supernet and can merge removed channels into kept ones
        (`start.refit`)."""
    gives: frozenset[str] | None = None
    """Outputs from which later phases can start: a subset of `alphas`, `architecture`, `weights`, `supernet` and
    `trials`.

    None if the strategy does not declare them.
    """
    scores: Callable[[Any], bool] = lambda options: True
    """For strategies that try candidates: function of the options that returns True if candidates are scored."""


class Strategies(Registry[str, StrategyKind[Job, Strategy]]):
    """Registry of a backend's strategies by name, with checks of phases."""

    def strategy(
        self, name: str, options: type[Settings], *, divides: bool = False, uses_all_samples: bool = False,
        orders: bool = False,
        refits: bool = False, gives: Iterable[str] | None = None, scores: Callable[[Any], bool] = lambda options: True,
        defined_by: Any = None,
    ) -> Callable[[Callable[[Job, Any], Strategy]], Any]:  # fmt: skip
        """Return a decorator that registers `make(job, options)` as a strategy with options of the given class.

        The keyword arguments are the fields of `StrategyKind`. `defined_by` is the object that defines the strategy
        (default: `make`); error messages use it to name the plugin.
        """
        outputs = None if gives is None else frozenset(gives)

        def register(make: Callable[[Job, Any], Strategy]) -> Any:
            self.register(
                name,
                StrategyKind(options, make, divides, uses_all_samples, orders, refits, outputs, scores),
                defined_by or make,
            )
            return make

        return register

    def kind_of(self, phase: Phase) -> StrategyKind[Job, Strategy]:
        """Return the registered strategy for a phase. Raises ArchError (A2202) if there is none."""
        kind = self.find(phase.strategy)
        if kind is None:
            text = f"phase `{phase.name}`: there is no strategy `{phase.strategy}`"
            raise fail("A2202", text, None, self.hint(phase.strategy))
        return kind

    def uses_all_samples(self, phase: Phase) -> bool:
        """Return True if a phase's strategy trains on all training samples and does not search. Raises ArchError
        (A2202)."""
        return self.kind_of(phase).uses_all_samples

    def table_of(self, recipe: Recipe, phase: Phase) -> Evaluate | None:
        """Return the benchmark table in which a phase looks up candidates.

        Returns None if the phase tries no candidates, or scores them in another way. Raises ArchError (A2253) if the
        phase requests a table but neither the phase nor the recipe names one.
        """
        if not issubclass(self.kind_of(phase).options, TrialOptions):
            return None
        asked = phase.options.get("scorer")
        wanted = isinstance(asked, Mapping) and asked.get("kind") == TABLE
        table = recipe.evaluate_of(phase)
        if wanted and table is None:
            text = f"phase `{phase.name}` is scored by a table, but the recipe names none"
            raise fail("A2253", text, None, 'name one: [evaluate] table = "results.npz"')
        return table if wanted or asked is None else None

    def check_tables(self, recipe_file: RecipeFile) -> None:
        """Raise ArchError (A2253) if no phase uses a benchmark table that the recipe names.

        Raises ArchError (A2202) if a strategy is unknown.
        """
        recipe = recipe_file.recipe
        for number, phase in enumerate(recipe.phase):
            with recipe_file.document.with_span("phase", number, "strategy"):
                self.kind_of(phase)
            with recipe_file.document.with_span("phase", number, "options", "scorer", "kind"):
                self.table_of(recipe, phase)
            if phase.evaluate is not None and self.table_of(recipe, phase) is None:
                with recipe_file.document.with_span("phase", number, "evaluate"):
                    raise fail("A2253", f"phase `{phase.name}` does not use its table", None, _TABLE_HINT)
        if recipe.evaluate is not None and not any(self.table_of(recipe, other) for other in recipe.phase):
            with recipe_file.document.with_span("evaluate"):
                raise fail("A2253", "no phase uses the table of the recipe", None, _TABLE_HINT)

    def create(self, job: Job) -> Strategy:
        """Create the strategy for a job. Raises ArchError (A2202, A1109)."""
        phase = job.phase
        kind = self.kind_of(phase)
        self._check_sharding(phase)
        return kind.make(job, parse_settings(kind.options, phase.options))

    def _check_sharding(self, phase: Phase) -> None:
        """Raise ArchError (A1109) if a phase sets sharding but its strategy cannot shard weights."""
        if phase.training.sharding != "none" and not self.kind_of(phase).divides:
            names = ", ".join(f"`{name}`" for name, kind in sorted(self.items()) if kind.divides)
            text = f"phase `{phase.name}`: `{phase.strategy}` cannot shard weights; `training.sharding` is for {names}"
            raise fail("A1109", text)

    def check(
        self, recipe_file: RecipeFile, number: int, space: Space, check_objective: CheckObjective, executor: str | None
    ) -> None:
        """Raise ArchError for invalid settings of a phase, and for names in it that do not exist.

        `executor` is the executor that scores candidates; if given, it overrides the phase's setting.
        """
        phase, document = recipe_file.recipe.phase[number], recipe_file.document
        prefix = f"phase `{phase.name}`: "
        with document.with_span("phase", number, "strategy"):
            kind = self.kind_of(phase)
        for key, value, ability, reason in (
            ("order", phase.start.order, "orders", "trains no weights whose channels could be sorted"),
            ("refit", phase.start.refit, "refits", "extracts no architecture from a supernet"),
        ):
            if value is not None and not getattr(kind, ability):
                supporting = ", ".join(f"`{name}`" for name, entry in sorted(self.items()) if getattr(entry, ability))
                text = f"{prefix}`{phase.strategy}` {reason}; `start.{key}` is for {supporting}"
                raise fail("A1109", text, document.span(("phase", number, "start", key)))
        if kind.uses_all_samples and "open" in phase.model_fields_set:
            text = f"{prefix}`{phase.strategy}` searches nothing, so it takes no `open`"
            hint = "`fixed` and `start.architecture` select the architecture"
            raise fail("A1109", text, document.span(("phase", number, "open")), hint)
        for name in ("alphas", "derive"):
            if name in phase.model_fields_set and kind.gives is not None and "alphas" not in kind.gives:
                text = f"{prefix}`{phase.strategy}` trains no architecture parameters, so it takes no `{name}`"
                hint = f"strategies that do are {join_names(self._giving('alphas'))}"
                raise fail("A1109", text, document.span(("phase", number, name)), hint)
        try:
            options = parse_settings(
                kind.options, phase.options, prefix, document.span_below("phase", number, "options")
            )
        except ArchError as error:
            raise ArchError(*map(self._option_hint, error.diagnostics)) from None
        check_objective(phase.objective, prefix, document.span_below("phase", number, "objective"))
        for position, also in enumerate(phase.also):
            check_objective(also, prefix, document.span_below("phase", number, "also", position))
        home: Place = ("phase", number)
        augment, images = phase.augment, home
        if augment is None:
            augment = recipe_file.recipe.data_of(phase).augment
            images = (*home, "data") if phase.data and "augment" in phase.data.model_fields_set else ("data",)
        for position, entry in enumerate(augment.also):
            find_augmentation(entry, document.span_below(*images, "augment", "also", position))
        with document.with_span("phase", number, "training", "sharding"):
            self._check_sharding(phase)
        open_space = self.open_space(recipe_file, number, space)
        if isinstance(options, TrialOptions):
            with document.with_span("phase", number, "options", "scorer", "kind"):
                scorer = options.scorer.registered
            place = document.span_below("phase", number, "options", "scorer", "options")
            parse_settings(scorer.options, options.scorer.options, f"{prefix}scorer `{options.scorer.kind}`: ", place)
            with document.with_span("phase", number, "options", "executor"):
                options.workers(executor)
        where = getattr(options, "where", "")
        if where:
            with document.with_span("phase", number, "options", "where"):
                within = open_space.where(where)
                check_nonempty(within, phase.derive)
            if isinstance(options, CostBounds) and options.min_budget_fraction and not upper_bounds(open_space, within):
                text = f"{prefix}`min_budget_fraction` is a fraction of upper bounds"
                text += f', but `where = "{where}"` has no upper bound'
                hint = 'remove `min_budget_fraction`, or bound a cost from above: where = "macs <= 0.5x"'
                raise fail("A1109", text, document.span(("phase", number, "options", "min_budget_fraction")), hint)
        mistakes: Mistakes = getattr(kind.make, "mistakes", lambda *_: ())
        problems = [
            replace(entry, span=document.span((*home, *place))) for place, entry in mistakes(phase, space, options)
        ]
        if problems := [*self._missing(recipe_file, number, options), *problems]:
            raise ArchError(*problems)

    def _option_hint(self, diagnostic: Diagnostic) -> Diagnostic:
        """Add a hint to a diagnostic on an unknown option if the phase itself, or another strategy, has it."""
        name = re.fullmatch(r".*: there is no `(\w+)`", diagnostic.message)
        if name is None:
            return diagnostic
        others = [other for other, kind in sorted(self.items()) if name[1] in kind.options.model_fields]
        if others:
            return replace(diagnostic, hint=f"`{name[1]}` is an option of {join_names(others, 5)}")
        return replace(diagnostic, hint=diagnostic.hint or suggest_table(Phase, ["options"], name[1]))

    def _missing(self, recipe_file: RecipeFile, number: int, options: Settings) -> Iterator[Diagnostic]:
        """Yield diagnostics (A2207, A2210, A2211) for inputs that a phase needs and no earlier phase provides."""
        recipe, document = recipe_file.recipe, recipe_file.document
        phase, start = recipe.phase[number], recipe.phase[number].start
        before = {item.name: self._outputs(item) for item in recipe.phase[:number]}

        def lacks(name: str, what: str) -> bool:
            """Return True if an earlier phase declares its outputs and `what` is not among them."""
            outputs = before.get(name)
            return outputs is not None and what not in outputs

        for what, name in start.phases.items():
            if lacks(name, what):
                providers = [item for item, outputs in before.items() if outputs is not None and what in outputs]
                hint = (
                    f'start.{what} = "{providers[-1]}" names a phase with {what}'
                    if providers
                    else f"strategies with {what} are "
                )
                hint += "" if providers else join_names(self._giving(what))
                text = f"phase `{phase.name}`: `{name}` has no {what} to start from"
                yield Diagnostic("A2207", text, document.span(("phase", number, "start", what)), hint)
        if not isinstance(options, TrialOptions) or not self.kind_of(phase).scores(options):
            return
        if self.table_of(recipe, phase) is not None:
            return
        setting = ("options", "scorer") if "scorer" in options.model_fields_set else ("strategy",)
        if options.scorer.kind == "inherited":
            weights = start.weights
            if weights is None or weights.endswith(".safetensors") or lacks(weights, "supernet"):
                place = setting if weights is None else ("start", "weights")
                hint = 'start.weights = "..." names a phase that trains a supernet: spos, sandwich or fair'
                text = f"phase `{phase.name}` has no supernet to score with"
                yield Diagnostic("A2210", text, document.span(("phase", number, *place)), hint)
        if options.scorer.kind == "predictor" and start.trials is None:
            hint = 'start.trials = "..." names a phase that tried candidates'
            text = f"phase `{phase.name}` has no trials to fit a predictor to"
            yield Diagnostic("A2211", text, document.span(("phase", number, *setting)), hint)

    def _giving(self, what: str) -> list[str]:
        """Return the names of the strategies whose phases have an output from which later phases can start."""
        return [name for name, kind in sorted(self.items()) if what in (kind.gives or ())]

    def _outputs(self, phase: Phase) -> frozenset[str] | None:
        """Return the outputs of a phase from which later phases can start; None if its strategy does not declare
        them."""
        kind = self.kind_of(phase)
        tried = not issubclass(kind.options, TrialOptions) or kind.scores(parse_settings(kind.options, phase.options))
        return kind.gives if tried or kind.gives is None else kind.gives - {"trials"}

    def open_space(self, recipe_file: RecipeFile, number: int, space: Space) -> Space:
        """Return the space that a phase searches, as far as it is known before earlier phases have run.

        Raises ArchError (A1008, A2203, A2204, A2208) for patterns or labels that match nothing, and for choices that
        are neither searched nor fixed.
        """
        phase, document = recipe_file.recipe.phase[number], recipe_file.document
        uses_all = self.kind_of(phase).uses_all_samples
        for key, patterns in (("open", phase.open or ()), ("fixed", tuple(phase.fixed))):
            with document.with_span("phase", number, key):
                matching_paths(space, patterns)
        open_: set[str] = set() if uses_all else open_paths(space, phase.open, phase.fixed)
        for pattern, label in phase.fixed.items():
            with document.with_span("phase", number, "fixed", pattern):
                if problems := label_problems(space, pattern, label, open_):
                    raise ArchError(*problems)
        if open_:
            choices = [choice for choice in space.choices if choice.path in open_]
            place = document.span_below("phase", number, "derive")
            check_labels(choices, phase.derive, f"phase `{phase.name}`: ", place)
        if phase.start.architecture is not None or (uses_all and not phase.fixed):
            return space
        with document.with_span("phase", number, "fixed" if phase.open is None else "open"):
            if not uses_all:
                return fix_choices(space, phase.open, phase.fixed, None).space
            fixed_architecture(space, phase.fixed, None)
            return space

    def first_changed_phase(self, before: Recipe, after: Recipe) -> int | None:
        """Return the index of the first phase that differs between two versions of a recipe; None if they are equal.

        Raises ArchError (A2216) for changes with which a run cannot be resumed, since existing trials, weights or
        measurements would not match the new settings.
        """
        names = [name for name in Recipe.model_fields if name != "phase"]
        fixed = [name for name in names if getattr(before, name) != getattr(after, name)]
        if fixed or len(before.phase) != len(after.phase):
            raise self._extension_error(
                before, f"{join_names(fixed) or 'the number of phases'} cannot change after the start"
            )
        changed = [number for number, phase in enumerate(after.phase) if before.phase[number] != phase]
        for number in changed:
            old, new = before.phase[number], after.phase[number]
            if not issubclass(self.kind_of(old).options, TrialOptions):
                raise self._extension_error(before, f"phase `{old.name}` (`{old.strategy}`) does not try candidates")
            if old.model_copy(update={"options": new.options}) != new:
                raise self._extension_error(before, f"of phase `{old.name}`, only `options` may change")
            old_options, new_options = (
                parse_settings(self.kind_of(old).options, phase.options) for phase in (old, new)
            )
            if old_options.model_dump()["scorer"] != new_options.model_dump()["scorer"]:
                raise self._extension_error(before, f"the scorer of phase `{old.name}` cannot change")
        return min(changed, default=None)

    def _extension_error(self, recipe: Recipe, why: str) -> ArchError:
        """Return the error (A2216) for settings that cannot change, with a hint on those that can."""
        trying = [candidate for candidate in recipe.phase if issubclass(self.kind_of(candidate).options, TrialOptions)]
        hint = "no phase of it tries candidates: begin a new run with `archir search RECIPE --set KEY=VALUE`"
        if trying:
            first = trying[0]
            options = parse_settings(self.kind_of(first).options, first.options).model_dump()
            name = next((candidate for candidate in _AMOUNT_OPTIONS if options.get(candidate) is not None), "where")
            value = '"macs <= 0.5x"' if name == "where" else 2 * options[name]
            names = " and ".join(f"`{candidate.name}.options`" for candidate in trying)
            hint = f"{names} may change, except `scorer`: --set {first.name}.options.{name}={value}"
        return fail("A2216", f"the run cannot be resumed with these settings: {why}", None, hint)

    def check_executor(self, recipe: Recipe, executor: str | None) -> None:
        """Raise ArchError (A2601) for an executor if no phase tries candidates."""
        phases = recipe.phase
        if executor is not None and not any(issubclass(self.kind_of(phase).options, TrialOptions) for phase in phases):
            raise fail("A2601", f"the executor `{executor}` would have nothing to do: no phase tries candidates")


_TABLE_HINT = "phases that try candidates use it, unless `options.scorer` names another scorer"
_AMOUNT_OPTIONS = ("trials", "generations", "count", "population")
"""Options that, when increased, make a phase try more candidates."""
