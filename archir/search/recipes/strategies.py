"""Which strategies the phases of recipes can name: a backend registers those that it can run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from archir.base.errors import ArchError, Diagnostic, fail
from archir.base.plugins.registry import Registry
from archir.base.settings import Settings, Where, parsed
from archir.base.toml import Path as Place
from archir.search.multi.near import Within, upper_bounds
from archir.search.recipes import job
from archir.search.recipes.derivation import check_labels, check_some
from archir.search.recipes.open_choices import opened, searched, settle, unknown
from archir.search.recipes.reading import Written
from archir.search.recipes.recipe import Evaluate, Phase, Recipe
from archir.search.recipes.training import registered
from archir.search.recipes.trials import TABLE, TrialOptions
from archir.search.spaces.space import Space

Job = TypeVar("Job", bound="job.Job[Any, Any]")
Strategy = TypeVar("Strategy")

CheckObjective = Callable[[Mapping[str, Any], str, Where], None]
"""Raises ArchError for settings of an objective, and says whose they are and where."""

Vain = Callable[[Phase, Any], Iterable[tuple[Place, str, str]]]
"""Which settings of a phase with these options would do nothing: where they are in it, why, and a hint. A strategy has
it as its `vain`, if there are any."""


@dataclass(frozen=True)
class Kind(Generic[Job, Strategy]):
    """What the options of a strategy are, and how it is made."""

    options: type[Settings]
    make: Callable[[Job, Any], Strategy]
    divides: bool = False
    """Whether it can divide its weights between processes (`training.sharding`)."""
    whole: bool = False
    """Whether it works on all training images, and not as a search on the halves."""
    orders: bool = False
    """Whether it can order the channels of the weights that it starts from (`start.order`)."""
    refits: bool = False
    """Whether it takes architectures out of a supernet, and can merge what they leave out (`start.refit`)."""


class Strategies(Registry[str, Kind[Job, Strategy]]):
    """All strategies of a backend, by name."""

    def strategy(
        self, name: str, options: type[Settings], *, divides: bool = False, whole: bool = False, orders: bool = False,
        refits: bool = False, by: Any = None,
    ) -> Callable[[Callable[[Job, Any], Strategy]], Any]:  # fmt: skip
        """Register a strategy: `make(job, options)` of these options. It is `by` somebody, if not by what makes it."""

        def register(make: Callable[[Job, Any], Strategy]) -> Any:
            self.register(name, Kind(options, make, divides, whole, orders, refits), by or make)
            return make

        return register

    def kind_of(self, phase: Phase) -> Kind[Job, Strategy]:
        """The kind of a phase's strategy. Raises ArchError (A2202)."""
        if phase.strategy not in self:
            text = f"phase `{phase.name}`: there is no strategy `{phase.strategy}`"
            raise fail("A2202", text, None, self.hint(phase.strategy))
        return self[phase.strategy]

    def whole(self, phase: Phase) -> bool:
        """Whether a phase's strategy works on all training images, and not as a search on the halves."""
        return self.kind_of(phase).whole

    def tabulated(self, recipe: Recipe, phase: Phase) -> Evaluate | None:
        """The table that candidates of a phase are looked up in; None if it tries none, or scores them otherwise.

        Raises ArchError (A2253) for a phase that asks for one and is given none."""
        if not issubclass(self.kind_of(phase).options, TrialOptions):
            return None
        asked = phase.options.get("scorer")
        wanted = isinstance(asked, Mapping) and asked.get("kind") == TABLE
        table = recipe.evaluate_of(phase)
        if wanted and table is None:
            text = f"phase `{phase.name}` is scored by a table, and there is none"
            raise fail("A2253", text, None, 'name it: [evaluate] table = "results.npz"')
        return table if wanted or asked is None else None

    def check_tables(self, written: Written) -> None:
        """Raise ArchError (A2202, A2253) for a table that nothing would be looked up in."""
        recipe = written.recipe
        for number, phase in enumerate(recipe.phase):
            with written.document.blamed("phase", number, "strategy"):
                self.kind_of(phase)
            if phase.evaluate is not None and self.tabulated(recipe, phase) is None:
                with written.document.blamed("phase", number, "evaluate"):
                    raise fail("A2253", f"nothing of phase `{phase.name}` is looked up in a table", None, _TABLES)
        if recipe.evaluate is not None and not any(self.tabulated(recipe, one) for one in recipe.phase):
            with written.document.blamed("evaluate"):
                raise fail("A2253", "no phase looks anything up in a table", None, _TABLES)

    def made(self, job: Job) -> Strategy:
        """The strategy of a job. Raises ArchError (A2202, A1109)."""
        phase = job.phase
        kind = self.kind_of(phase)
        if phase.training.sharding != "none" and not kind.divides:
            able = ", ".join(f"`{name}`" for name, one in sorted(self.items()) if one.divides)
            text = f"phase `{phase.name}`: `{phase.strategy}` keeps weights whole; `training.sharding` is for {able}"
            raise fail("A1109", text)
        return kind.make(job, parsed(kind.options, phase.options))

    def check(
        self, written: Written, number: int, space: Space, check_objective: CheckObjective, executor: str | None
    ) -> None:
        """Raise ArchError for what a phase of a recipe names and is not there. `executor` is who scores candidates,
        instead of whom the phase names."""
        phase, document = written.recipe.phase[number], written.document
        whose = f"phase `{phase.name}`: "
        with document.blamed("phase", number, "strategy"):
            kind = self.kind_of(phase)
        for key, given, able, why in (
            ("order", phase.start.order, "orders", "trains no weights that could be ordered"),
            ("refit", phase.start.refit, "refits", "takes nothing out of a supernet that could be fitted again"),
        ):
            if given is not None and not getattr(kind, able):
                those = ", ".join(f"`{name}`" for name, one in sorted(self.items()) if getattr(one, able))
                text = f"{whose}`{phase.strategy}` {why}; `start.{key}` is for {those}"
                raise fail("A1109", text, document.span(("phase", number, "start", key)))
        if kind.whole and "open" in phase.model_fields_set:
            text = f"{whose}`{phase.strategy}` searches nothing: there is nothing to `open`"
            hint = "`fixed` and `start.architecture` say which architecture is meant"
            raise fail("A1109", text, document.span(("phase", number, "open")), hint)
        options = parsed(kind.options, phase.options, whose, document.at("phase", number, "options"))
        check_objective(phase.objective, whose, document.at("phase", number, "objective"))
        for position, also in enumerate(phase.also):
            check_objective(also, whose, document.at("phase", number, "also", position))
        home: Place = ("phase", number)
        augment = phase.augment
        if augment is None:
            augment = written.recipe.data_of(phase).augment
            home = (*home, "data") if phase.data and "augment" in phase.data.model_fields_set else ("data",)
        for position, one in enumerate(augment.also):
            registered(one, document.at(*home, "augment", "also", position))
        self._check_choices(written, number, space, whole=kind.whole)
        if isinstance(options, TrialOptions):
            with document.blamed("phase", number, "options", "scorer", "kind"):
                scorer = options.scorer.registered
            place = document.at("phase", number, "options", "scorer", "options")
            parsed(scorer.options, options.scorer.options, f"{whose}scorer `{options.scorer.kind}`: ", place)
            with document.blamed("phase", number, "options", "executor"):
                options.workers(executor)
        self._check_vain(written, number, kind, options)
        where = getattr(options, "where", "")
        if where:
            known = _known(space, phase)
            with document.blamed("phase", number, "options", "where"):
                within = known.where(where)
                check_some(within, phase.derive)
            if isinstance(options, Within) and options.use and not upper_bounds(known, within):
                text = f'{whose}`use` is a part of upper bounds, and `where = "{where}"` has none'
                hint = 'leave it out, or bound a cost from above: where = "macs <= 0.5x"'
                raise fail("A1109", text, document.span(("phase", number, "options", "use")), hint)

    @staticmethod
    def _check_vain(written: Written, number: int, kind: Kind[Job, Strategy], options: Settings) -> None:
        """Raise ArchError (A1109) for settings that the strategy says would do nothing."""
        phase, document = written.recipe.phase[number], written.document
        vain: Vain | None = getattr(kind.make, "vain", None)
        if vain is not None and (found := [*vain(phase, options)]):
            raise ArchError(
                *(
                    Diagnostic("A1109", f"phase `{phase.name}`: {text}", document.span(("phase", number, *path)), hint)
                    for path, text, hint in found
                )
            )

    @staticmethod
    def _check_choices(written: Written, number: int, space: Space, *, whole: bool) -> None:
        """Raise ArchError (A2203, A2204) for what a phase says of choices and alternatives that are not there."""
        phase, document = written.recipe.phase[number], written.document
        for key, patterns in (("open", phase.open or ()), ("fixed", tuple(phase.fixed))):
            with document.blamed("phase", number, key):
                opened(space, patterns)
        open_ = set() if whole else searched(space, phase.open, phase.fixed)
        for pattern, label in phase.fixed.items():
            with document.blamed("phase", number, "fixed", pattern):
                if problems := unknown(space, pattern, label, open_):
                    raise ArchError(*problems)
        if open_:
            choices = [choice for choice in space.choices if choice.path in open_]
            place = document.at("phase", number, "derive")
            check_labels(choices, phase.derive, f"phase `{phase.name}`: ", place)

    def extended(self, before: Recipe, after: Recipe) -> int | None:
        """The first phase that other settings change; None if they change nothing.

        Raises ArchError (A2216) for those that a run cannot go on with: what was tried, trained or measured with the
        settings before would not be what it is with these.
        """
        if len(before.phase) != len(after.phase) or before.model_copy(update={"phase": after.phase}) != after:
            raise self._not_extended(before, "settings of the whole recipe stay as they were")
        changed = [number for number, phase in enumerate(after.phase) if before.phase[number] != phase]
        for number in changed:
            old, new = before.phase[number], after.phase[number]
            if not issubclass(self.kind_of(old).options, TrialOptions):
                raise self._not_extended(before, f"phase `{old.name}` (`{old.strategy}`) does not try candidates")
            if old.model_copy(update={"options": new.options}) != new:
                raise self._not_extended(before, f"of phase `{old.name}`, only `options` may change")
            was, now = (parsed(self.kind_of(old).options, phase.options) for phase in (old, new))
            if was.model_dump()["scorer"] != now.model_dump()["scorer"]:
                raise self._not_extended(before, f"what candidates of phase `{old.name}` are scored by stays as it was")
        return min(changed, default=None)

    def _not_extended(self, recipe: Recipe, why: str) -> ArchError:
        """The refusal of settings, with what could be said of the phases that there are."""
        trying = [one for one in recipe.phase if issubclass(self.kind_of(one).options, TrialOptions)]
        hint = "no phase of it tries candidates: begin a new run with `archir search RECIPE --set KEY=VALUE`"
        if trying:
            first = trying[0]
            options = parsed(self.kind_of(first).options, first.options).model_dump()
            name = next((one for one in _LONGER if options.get(one) is not None), "where")
            value = '"macs <= 0.5x"' if name == "where" else 2 * options[name]
            names = " and ".join(f"`{one.name}.options`" for one in trying)
            hint = f"{names} may change, all but `scorer`: --set {first.name}.options.{name}={value}"
        return fail("A2216", f"the run cannot go on with these settings: {why}", None, hint)

    def check_executor(self, recipe: Recipe, executor: str | None) -> None:
        """Raise ArchError (A2601) for an executor that nothing would use."""
        phases = recipe.phase
        if executor is not None and not any(issubclass(self.kind_of(one).options, TrialOptions) for one in phases):
            raise fail("A2601", f"the executor `{executor}` would have nothing to do: no phase tries candidates")


def _known(space: Space, phase: Phase) -> Space:
    """What is open of a space, as far as is known before an earlier phase has said what the rest is."""
    if phase.start.architecture is not None:
        return space
    try:
        return settle(space, phase.open, phase.fixed, None).space
    except ArchError:  # said where the phase is made
        return space


_TABLES = "phases that try candidates do, unless `options.scorer` says otherwise"
_LONGER = ("trials", "generations", "count", "population")
"""Options of which more means that more is tried."""
