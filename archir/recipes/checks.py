"""Checks of recipes before anything runs: each yields diagnostics at the settings that are wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from archir.data.sources import origin
from archir.diagnostics.errors import ArchError, Diagnostic, Span, fail, join_names
from archir.diagrams.diagram import Choice
from archir.recipes.augmentation import find_augmentation
from archir.recipes.derivation import check_nonempty
from archir.recipes.open_choices import (
    fix_choices,
    fixed_architecture,
    label_hint,
    label_problems,
    matching_paths,
    open_paths,
)
from archir.recipes.parsing import RecipeFile
from archir.recipes.recipe import SPLITTING, Phase, Recipe
from archir.recipes.strategies import Mistakes, Strategies, StrategyKind
from archir.recipes.trials import TrialOptions
from archir.search.near_bounds import CostBounds, upper_bounds
from archir.spaces.space import Space
from archir.utils.settings import Settings, SpanOf, parse_settings, suggest_table

CheckObjective = Callable[[Mapping[str, Any], str, SpanOf], None]
"""Function (settings, prefix, where) that raises ArchError for invalid settings of an objective.

Messages start with the prefix; `where` maps a setting's path to its span in the recipe.
"""
UsesAllSamples = Callable[[Phase], bool]
"""Predicate on phases: True if the phase's strategy trains on all training samples.

Strategies that search train weights on only a part of the training samples.
"""


@dataclass(frozen=True)
class CheckedPhase:
    """Phase that is checked: its index in a recipe, its space, and the strategies of the backend that runs it."""

    strategies: Strategies[Any, Any]
    recipe_file: RecipeFile
    number: int
    space: Space

    @property
    def recipe(self) -> Recipe:
        """Recipe of the phase."""
        return self.recipe_file.recipe

    @property
    def phase(self) -> Phase:
        """Settings of the phase."""
        return self.recipe.phase[self.number]

    @property
    def prefix(self) -> str:
        """Start of messages about the phase."""
        return f"phase `{self.phase.name}`: "

    def span(self, *path: str | int) -> Span | None:
        """Return the span of a setting of the phase, which it may inherit from the recipe."""
        return self.recipe_file.document.span(self.recipe_file.place(self.number, *path))

    def with_span(self, *path: str | int) -> AbstractContextManager[None]:
        """Return a context manager that adds the span of a setting of the phase to errors."""
        return self.recipe_file.document.with_span(*self.recipe_file.place(self.number, *path))

    def span_below(self, *path: str | int) -> SpanOf:
        """Return a function from paths relative to a setting of the phase to spans."""
        return self.recipe_file.document.span_below(*self.recipe_file.place(self.number, *path))

    @cached_property
    def kind(self) -> StrategyKind[Any, Any]:
        """Strategy of the phase. Raises ArchError (A2202)."""
        with self.with_span("strategy"):
            return self.strategies.kind_of(self.phase)

    @cached_property
    def options(self) -> Settings:
        """Options of the strategy. Raises ArchError (A1109)."""
        try:
            return parse_settings(self.kind.options, self.phase.options, self.prefix, self.span_below("options"))
        except ArchError as error:
            raise ArchError(*(_option_hint(diagnostic, self.strategies) for diagnostic in error.diagnostics)) from None

    @cached_property
    def open_space(self) -> Space:
        """The space that the phase searches, as far as it is known before earlier phases have run.

        Raises ArchError (A1008, A2203, A2204, A2208) for patterns or labels that match nothing, and for choices that
        are neither searched nor fixed.
        """
        phase, space, uses_all = self.phase, self.space, self.kind.uses_all_samples
        for key, patterns in (("open", phase.open or ()), ("fixed", tuple(phase.fixed))):
            with self.with_span(key):
                matching_paths(space, patterns)
        open_: set[str] = set() if uses_all else open_paths(space, phase.open, phase.fixed)
        for pattern, label in phase.fixed.items():
            with self.with_span("fixed", pattern):
                if problems := label_problems(space, pattern, label, open_):
                    raise ArchError(*problems)
        if open_ and (problems := list(self._unknown_labels([c for c in space.choices if c.path in open_]))):
            raise ArchError(*problems)
        if phase.start.architecture is not None or (uses_all and not phase.fixed):
            return space
        with self.with_span("fixed" if phase.open is None else "open"):
            if not uses_all:
                return fix_choices(space, phase.open, phase.fixed, None).space
            fixed_architecture(space, phase.fixed, None)
            return space

    def _unknown_labels(self, choices: Sequence[Choice]) -> Iterator[Diagnostic]:
        """Yield diagnostics (A2204) for labels in `derive` that no searched choice has."""
        derive = self.phase.derive
        excluded = {str(label) for choice in choices for label in choice.alternatives}
        limited = {
            label for choice in choices for label in choice.alternatives if choice.k is None and isinstance(label, str)
        }
        for setting, labels, allowed in (
            (("exclude",), derive.exclude, excluded),
            (("limit", "labels"), () if derive.limit is None else derive.limit.labels, limited),
        ):
            for position, label in enumerate(labels):
                if label not in allowed:
                    name = ".".join(("derive", *setting))
                    text = f"{self.prefix}`{name}` has `{label}`, but no searched choice has such an alternative"
                    span = self.span("derive", *setting, position)
                    yield Diagnostic("A2204", text, span, label_hint(label, sorted(allowed)))


def check_phase(checked: CheckedPhase, check_objective: CheckObjective, executor: str | None) -> None:
    """Raise ArchError for invalid settings of a phase, and for names in it that do not exist.

    `executor` is the executor that scores candidates; if given, it overrides the phase's setting.
    """
    phase, span_below = checked.phase, checked.span_below
    _raise_any(_settings_without_effect(checked))
    options = checked.options
    check_objective(phase.objective, checked.prefix, span_below("objective"))
    for position, also in enumerate(phase.also):
        check_objective(also, checked.prefix, span_below("also", position))
    _check_augmentations(checked)
    open_space = checked.open_space
    if isinstance(options, TrialOptions):
        with checked.with_span("options", "scorer", "kind"):
            scorer = options.scorer.registered
        prefix = f"{checked.prefix}scorer `{options.scorer.kind}`: "
        parse_settings(scorer.options, options.scorer.options, prefix, span_below("options", "scorer", "options"))
        with checked.with_span("options", "executor"):
            options.workers(executor)
    if where := getattr(options, "where", ""):
        with checked.with_span("options", "where"):
            within = open_space.where(where)
            check_nonempty(within, phase.derive)
        if isinstance(options, CostBounds) and options.min_budget_fraction and not upper_bounds(open_space, within):
            text = f"{checked.prefix}`min_budget_fraction` is a fraction of upper bounds"
            text += f', but `where = "{where}"` has no upper bound'
            hint = 'remove `min_budget_fraction`, or bound a cost from above: where = "macs <= 0.5x"'
            raise fail("A1109", text, checked.span("options", "min_budget_fraction"), hint)
    mistakes: Mistakes = getattr(checked.kind.make, "mistakes", lambda *_: ())
    own = (replace(entry, span=checked.span(*place)) for place, entry in mistakes(phase, checked.space, options))
    _raise_any([*_missing_starts(checked), *_missing_scorer_inputs(checked), *own])


def _raise_any(diagnostics: Sequence[Diagnostic] | Iterator[Diagnostic]) -> None:
    if problems := tuple(diagnostics):
        raise ArchError(*problems)


def _settings_without_effect(checked: CheckedPhase) -> Iterator[Diagnostic]:
    """Yield diagnostics (A1109) for settings that the strategy of a phase ignores."""
    phase, kind, strategies = checked.phase, checked.kind, checked.strategies
    for (*path, key), value, ability, reason in (
        (("start", "order"), phase.start.order, "orders", "trains no weights whose channels could be sorted"),
        (("start", "refit"), phase.start.refit, "refits", "extracts no architecture from a supernet"),
        (("training", "sharding"), phase.training.sharding != "none" or None, "divides", "cannot shard weights"),
    ):
        if value is not None and not getattr(kind, ability):
            supporting = ", ".join(f"`{name}`" for name, entry in sorted(strategies.items()) if getattr(entry, ability))
            text = f"{checked.prefix}`{phase.strategy}` {reason}; `{'.'.join((*path, key))}` is for {supporting}"
            yield Diagnostic("A1109", text, checked.span(*path, key))
    if kind.uses_all_samples and "open" in phase.model_fields_set:
        text = f"{checked.prefix}`{phase.strategy}` searches nothing, so it takes no `open`"
        hint = "`fixed` and `start.architecture` select the architecture"
        yield Diagnostic("A1109", text, checked.span("open"), hint)
    for name in ("alphas", "derive"):
        if name in phase.model_fields_set and kind.gives is not None and "alphas" not in kind.gives:
            text = f"{checked.prefix}`{phase.strategy}` trains no architecture parameters, so it takes no `{name}`"
            hint = f"strategies that do are {join_names(strategies.giving('alphas'))}"
            yield Diagnostic("A1109", text, checked.span(name), hint)


def _check_augmentations(checked: CheckedPhase) -> None:
    augment = checked.phase.augment or checked.recipe.data_of(checked.phase).augment
    place = checked.recipe_file.augment_place(checked.number)
    for position, entry in enumerate(augment.also):
        find_augmentation(entry, checked.recipe_file.document.span_below(*place, "also", position))


def _option_hint(diagnostic: Diagnostic, strategies: Strategies[Any, Any]) -> Diagnostic:
    """Add a hint to a diagnostic on an unknown option if the phase itself, or another strategy, has it."""
    name = re.fullmatch(r".*: there is no `(\w+)`", diagnostic.message)
    if name is None:
        return diagnostic
    others = [other for other, kind in sorted(strategies.items()) if name[1] in kind.options.model_fields]
    if others:
        return replace(diagnostic, hint=f"`{name[1]}` is an option of {join_names(others, 5)}")
    return replace(diagnostic, hint=diagnostic.hint or suggest_table(Phase, ["options"], name[1]))


def _missing_starts(checked: CheckedPhase) -> Iterator[Diagnostic]:
    """Yield diagnostics (A2207) for results that a phase starts from and that the named phase does not provide."""
    before = _outputs_before(checked)
    for what, name in checked.phase.start.phases.items():
        if _lacks(before, name, what):
            providers = [item for item, outputs in before.items() if outputs is not None and what in outputs]
            hint = f"strategies with {what} are {join_names(checked.strategies.giving(what))}"
            if providers:
                hint = f'start.{what} = "{providers[-1]}" names a phase with {what}'
            text = f"phase `{checked.phase.name}`: `{name}` has no {what} to start from"
            yield Diagnostic("A2207", text, checked.span("start", what), hint)


def _missing_scorer_inputs(checked: CheckedPhase) -> Iterator[Diagnostic]:
    """Yield diagnostics (A2210, A2211) for inputs that the scorer of a phase needs and no earlier phase provides."""
    phase, options, start = checked.phase, checked.options, checked.phase.start
    if not isinstance(options, TrialOptions) or not checked.kind.scores(options):
        return
    if checked.strategies.table_of(checked.recipe, phase) is not None:
        return
    setting = ("options", "scorer") if "scorer" in options.model_fields_set else ("strategy",)
    if options.scorer.kind == "inherited":
        weights = start.weights
        if weights is None or weights.endswith(".safetensors") or _lacks(_outputs_before(checked), weights, "supernet"):
            place = setting if weights is None else ("start", "weights")
            hint = 'start.weights = "..." names a phase that trains a supernet: spos, sandwich or fair'
            text = f"phase `{phase.name}` has no supernet to score with"
            yield Diagnostic("A2210", text, checked.span(*place), hint)
    if options.scorer.kind == "predictor" and start.trials is None:
        hint = 'start.trials = "..." names a phase that tried candidates'
        text = f"phase `{phase.name}` has no trials to fit a predictor to"
        yield Diagnostic("A2211", text, checked.span(*setting), hint)


def _outputs_before(checked: CheckedPhase) -> dict[str, frozenset[str] | None]:
    """Return the outputs of the earlier phases by name; None for strategies that do not declare them."""
    outputs: dict[str, frozenset[str] | None] = {}
    for phase in checked.recipe.phase[: checked.number]:
        kind = checked.strategies.kind_of(phase)
        tried = not issubclass(kind.options, TrialOptions) or kind.scores(parse_settings(kind.options, phase.options))
        outputs[phase.name] = kind.gives if tried or kind.gives is None else kind.gives - {"trials"}
    return outputs


def _lacks(before: Mapping[str, frozenset[str] | None], name: str, what: str) -> bool:
    """Return True if an earlier phase declares its outputs and `what` is not among them."""
    outputs = before.get(name)
    return outputs is not None and what not in outputs


def check_tables(strategies: Strategies[Any, Any], recipe_file: RecipeFile) -> None:
    """Raise ArchError (A2202) for unknown strategies, and (A2253) for benchmark tables that no phase uses."""
    recipe, with_span = recipe_file.recipe, recipe_file.document.with_span
    hint = "phases that try candidates use it, unless `options.scorer` names another scorer"
    for number, phase in enumerate(recipe.phase):
        with with_span("phase", number, "strategy"):
            strategies.kind_of(phase)
        with with_span("phase", number, "options", "scorer", "kind"):
            table = strategies.table_of(recipe, phase)
        if phase.evaluate is not None and table is None:
            with with_span("phase", number, "evaluate"):
                raise fail("A2253", f"phase `{phase.name}` does not use its table", None, hint)
    if recipe.evaluate is not None and not any(strategies.table_of(recipe, other) for other in recipe.phase):
        with with_span("evaluate"):
            raise fail("A2253", "no phase uses the table of the recipe", None, hint)


def check_executor(strategies: Strategies[Any, Any], recipe: Recipe, executor: str | None) -> None:
    """Raise ArchError (A2601) for an executor if no phase tries candidates."""
    if executor is not None and not any(strategies.tries_candidates(phase) for phase in recipe.phase):
        raise fail("A2601", f"the executor `{executor}` would have nothing to do: no phase tries candidates")


def check_same_split(recipe_file: RecipeFile, uses_all_samples: UsesAllSamples) -> None:
    """Raise ArchError (A2214) if two searching phases split the same samples differently.

    Otherwise, one phase would select architectures by samples on which the other trained weights.
    """
    recipe = recipe_file.recipe
    first_by_origin: dict[str, tuple[int, dict[str, object]]] = {}
    exempt = before_searches(recipe, uses_all_samples)
    for number, phase in enumerate(recipe.phase):
        if uses_all_samples(phase) and phase.name not in exempt:
            continue
        data = recipe.data_of(phase)
        settings: dict[str, object] = {name: getattr(data, name) for name in ("source", *SPLITTING)}
        before, first_settings = first_by_origin.setdefault(origin(data.source), (number, settings))
        differ = [name for name in settings if settings[name] != first_settings[name]]
        if differ:
            changes = [f"`{name} = {settings[name]}`, not {first_settings[name]}" for name in differ]
            other = recipe.phase[before].name
            text = f"phase `{phase.name}` splits `{data.source}` differently from `{other}`: {', '.join(changes)}"
            hint = "one phase would choose by samples that the other trains on: set it once, in [data]"
            places = [recipe_file.place(each, "data", differ[0]) for each in (number, before)]
            with recipe_file.document.with_span(*max(places, key=lambda place: place[0] == "phase")):
                raise fail("A2214", text, None, hint)


def before_searches(recipe: Recipe, uses_all_samples: UsesAllSamples) -> set[str]:
    """Return the phases that must not train on all training samples, although their strategy would.

    These are phases from whose weights a later search on the same data starts, or whose network the search distils.
    They must not train on the samples by which the search selects architectures.
    """
    origins = {phase.name: origin(recipe.data_of(phase).source) for phase in recipe.phase}
    searched: dict[str, set[str]] = {phase.name: set() for phase in recipe.phase}
    for phase in reversed(recipe.phase):
        if not uses_all_samples(phase):
            searched[phase.name].add(origins[phase.name])
        for name in (phase.start.weights, *(objective.get("phase") for objective in phase.also)):
            if name in searched:
                searched[name] |= searched[phase.name]
    return {
        phase.name for phase in recipe.phase if uses_all_samples(phase) and origins[phase.name] in searched[phase.name]
    }


_AMOUNT_OPTIONS = ("trials", "generations", "count", "population")
"""Options that, when increased, make a phase try more candidates."""


def first_changed_phase(strategies: Strategies[Any, Any], before: Recipe, after: Recipe) -> int | None:
    """Return the index of the first phase that differs between two versions of a recipe; None if they are equal.

    Raises ArchError (A2216) for changes with which a run cannot be resumed, since existing trials, weights or
    measurements would not match the new settings.
    """

    def error(why: str) -> ArchError:
        return _extension_error(strategies, before, why)

    names = [name for name in Recipe.model_fields if name != "phase"]
    fixed = [name for name in names if getattr(before, name) != getattr(after, name)]
    if fixed or len(before.phase) != len(after.phase):
        raise error(f"{join_names(fixed) or 'the number of phases'} cannot change after the start")
    changed = [number for number, phase in enumerate(after.phase) if before.phase[number] != phase]
    for number in changed:
        old, new = before.phase[number], after.phase[number]
        if not strategies.tries_candidates(old):
            raise error(f"phase `{old.name}` (`{old.strategy}`) does not try candidates")
        if old.model_copy(update={"options": new.options}) != new:
            raise error(f"of phase `{old.name}`, only `options` may change")
        model = strategies.kind_of(old).options
        scorers = [parse_settings(model, phase.options).model_dump()["scorer"] for phase in (old, new)]
        if scorers[0] != scorers[1]:
            raise error(f"the scorer of phase `{old.name}` cannot change")
    return min(changed, default=None)


def _extension_error(strategies: Strategies[Any, Any], recipe: Recipe, why: str) -> ArchError:
    """Return the error (A2216) for settings that cannot change, with a hint on those that can."""
    trying = [phase for phase in recipe.phase if strategies.tries_candidates(phase)]
    hint = "no phase of it tries candidates: begin a new run with `archir search RECIPE --set KEY=VALUE`"
    if trying:
        first = trying[0]
        options = parse_settings(strategies.kind_of(first).options, first.options).model_dump()
        name = next((candidate for candidate in _AMOUNT_OPTIONS if options.get(candidate) is not None), "where")
        value = '"macs <= 0.5x"' if name == "where" else 2 * options[name]
        names = " and ".join(f"`{candidate.name}.options`" for candidate in trying)
        hint = f"{names} may change, except `scorer`: --set {first.name}.options.{name}={value}"
    return fail("A2216", f"the run cannot be resumed with these settings: {why}", None, hint)
