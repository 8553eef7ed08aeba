"""Which strategies the phases of recipes can name: a backend registers those that it can run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from archir.diagnostics.errors import ArchError, Diagnostic, fail, listed
from archir.plugins.registry import Registry
from archir.recipes import job
from archir.recipes.derivation import check_labels, check_some
from archir.recipes.open_choices import closed, opened, searched, settle, unknown
from archir.recipes.reading import Written
from archir.recipes.recipe import Evaluate, Phase, Recipe
from archir.recipes.training import registered
from archir.recipes.trials import TABLE, TrialOptions
from archir.search.near import Within, upper_bounds
from archir.spaces.space import Space
from archir.utils.settings import Settings, Where, elsewhere, parsed
from archir.utils.toml import Path as Place

Job = TypeVar("Job", bound="job.Job[Any, Any]")
Strategy = TypeVar("Strategy")

CheckObjective = Callable[[Mapping[str, Any], str, Where], None]
"""Raises ArchError for settings of an objective, and says whose they are and where."""

Mistakes = Callable[[Phase, Space, Any], Iterable[tuple[Place, Diagnostic]]]
"""What is wrong with a phase of a space and with its options, by the settings' places in the phase: what the strategy
lacks, and what would do nothing. A strategy has it as its `mistakes`, if it knows any."""


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
    gives: frozenset[str] | None = None
    """What later phases can start from: of `alphas`, `architecture`, `weights`, `supernet` and `trials`; None if nobody
    has said."""
    scores: Callable[[Any], bool] = lambda options: True
    """Of one that tries candidates, whether it scores any with these options."""


class Strategies(Registry[str, Kind[Job, Strategy]]):
    """All strategies of a backend, by name."""

    def strategy(
        self, name: str, options: type[Settings], *, divides: bool = False, whole: bool = False, orders: bool = False,
        refits: bool = False, gives: Iterable[str] | None = None, scores: Callable[[Any], bool] = lambda options: True,
        by: Any = None,
    ) -> Callable[[Callable[[Job, Any], Strategy]], Any]:  # fmt: skip
        """Register a strategy: `make(job, options)` of these options. It is `by` somebody, if not by what makes it."""
        given = None if gives is None else frozenset(gives)

        def register(make: Callable[[Job, Any], Strategy]) -> Any:
            self.register(name, Kind(options, make, divides, whole, orders, refits, given, scores), by or make)
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
            with written.document.blamed("phase", number, "options", "scorer", "kind"):
                self.tabulated(recipe, phase)
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
        self._check_sharding(phase)
        return kind.make(job, parsed(kind.options, phase.options))

    def _check_sharding(self, phase: Phase) -> None:
        if phase.training.sharding != "none" and not self.kind_of(phase).divides:
            able = ", ".join(f"`{name}`" for name, one in sorted(self.items()) if one.divides)
            text = f"phase `{phase.name}`: `{phase.strategy}` keeps weights whole; `training.sharding` is for {able}"
            raise fail("A1109", text)

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
        try:
            options = parsed(kind.options, phase.options, whose, document.at("phase", number, "options"))
        except ArchError as error:
            raise ArchError(*map(self._placed, error.diagnostics)) from None
        check_objective(phase.objective, whose, document.at("phase", number, "objective"))
        for position, also in enumerate(phase.also):
            check_objective(also, whose, document.at("phase", number, "also", position))
        home: Place = ("phase", number)
        augment, images = phase.augment, home
        if augment is None:
            augment = written.recipe.data_of(phase).augment
            images = (*home, "data") if phase.data and "augment" in phase.data.model_fields_set else ("data",)
        for position, one in enumerate(augment.also):
            registered(one, document.at(*images, "augment", "also", position))
        with document.blamed("phase", number, "training", "sharding"):
            self._check_sharding(phase)
        known = self.known(written, number, space)
        if isinstance(options, TrialOptions):
            with document.blamed("phase", number, "options", "scorer", "kind"):
                scorer = options.scorer.registered
            place = document.at("phase", number, "options", "scorer", "options")
            parsed(scorer.options, options.scorer.options, f"{whose}scorer `{options.scorer.kind}`: ", place)
            with document.blamed("phase", number, "options", "executor"):
                options.workers(executor)
        where = getattr(options, "where", "")
        if where:
            with document.blamed("phase", number, "options", "where"):
                within = known.where(where)
                check_some(within, phase.derive)
            if isinstance(options, Within) and options.use and not upper_bounds(known, within):
                text = f'{whose}`use` is a part of upper bounds, and `where = "{where}"` has none'
                hint = 'leave it out, or bound a cost from above: where = "macs <= 0.5x"'
                raise fail("A1109", text, document.span(("phase", number, "options", "use")), hint)
        mistakes: Mistakes = getattr(kind.make, "mistakes", lambda *_: ())
        found = [replace(one, span=document.span((*home, *place))) for place, one in mistakes(phase, space, options)]
        if found := [*self._missing(written, number, options), *found]:
            raise ArchError(*found)

    def _placed(self, said: Diagnostic) -> Diagnostic:
        """A problem with an option; where another strategy, or the phase itself, has the option, the hint says so."""
        name = re.fullmatch(r".*: there is no `(\w+)`", said.message)
        if name is None:
            return said
        others = [other for other, kind in sorted(self.items()) if name[1] in kind.options.model_fields]
        if others:
            return replace(said, hint=f"`{name[1]}` is an option of {listed(others, 5)}")
        return replace(said, hint=said.hint or elsewhere(Phase, ["options"], name[1]))

    def _missing(self, written: Written, number: int, options: Settings) -> Iterator[Diagnostic]:
        """What a phase starts from or scores with and no phase before it comes to: A2207, A2210, A2211."""
        recipe, document = written.recipe, written.document
        phase, start = recipe.phase[number], recipe.phase[number].start
        before = {one.name: self._given(one) for one in recipe.phase[:number]}

        def lacks(name: str, what: str) -> bool:
            given = before.get(name)
            return given is not None and what not in given

        for what, name in start.phases.items():
            if lacks(name, what):
                able = [one for one, given in before.items() if given is not None and what in given]
                hint = (
                    f'start.{what} = "{able[-1]}" names a phase that has' if able else f"a phase before it has {what}: "
                )
                hint += (
                    "" if able else listed([one for one, kind in sorted(self.items()) if what in (kind.gives or ())])
                )
                text = f"phase `{phase.name}`: `{name}` has no {what} to start from"
                yield Diagnostic("A2207", text, document.span(("phase", number, "start", what)), hint)
        if not isinstance(options, TrialOptions) or not self.kind_of(phase).scores(options):
            return
        if self.tabulated(recipe, phase) is not None:
            return
        asked = ("options", "scorer") if "scorer" in options.model_fields_set else ("strategy",)
        if options.scorer.kind == "inherited":
            taken = start.weights
            if taken is None or taken.endswith(".safetensors") or lacks(taken, "supernet"):
                place = asked if taken is None else ("start", "weights")
                hint = 'start.weights = "..." names a phase that trains a supernet: spos, sandwich or fair'
                text = f"phase `{phase.name}` has no supernet to score with"
                yield Diagnostic("A2210", text, document.span(("phase", number, *place)), hint)
        if options.scorer.kind == "predictor" and start.trials is None:
            hint = 'start.trials = "..." names a phase that tried candidates'
            text = f"phase `{phase.name}` has no trials that a predictor could be fitted to"
            yield Diagnostic("A2211", text, document.span(("phase", number, *asked)), hint)

    def _given(self, phase: Phase) -> frozenset[str] | None:
        """What later phases can start from; None if nobody has said."""
        kind = self.kind_of(phase)
        tried = not issubclass(kind.options, TrialOptions) or kind.scores(parsed(kind.options, phase.options))
        return kind.gives if tried or kind.gives is None else kind.gives - {"trials"}

    def known(self, written: Written, number: int, space: Space) -> Space:
        """What is open to a phase, as far as is known before an earlier phase has said what the rest is.

        Raises ArchError (A1008, A2203, A2204, A2208) for what a phase says of choices and alternatives that are not
        there, or leaves unsaid.
        """
        phase, document = written.recipe.phase[number], written.document
        whole = self.kind_of(phase).whole
        for key, patterns in (("open", phase.open or ()), ("fixed", tuple(phase.fixed))):
            with document.blamed("phase", number, key):
                opened(space, patterns)
        open_: set[str] = set() if whole else searched(space, phase.open, phase.fixed)
        for pattern, label in phase.fixed.items():
            with document.blamed("phase", number, "fixed", pattern):
                if problems := unknown(space, pattern, label, open_):
                    raise ArchError(*problems)
        if open_:
            choices = [choice for choice in space.choices if choice.path in open_]
            place = document.at("phase", number, "derive")
            check_labels(choices, phase.derive, f"phase `{phase.name}`: ", place)
        if phase.start.architecture is not None or (whole and not phase.fixed):
            return space
        with document.blamed("phase", number, "fixed" if phase.open is None else "open"):
            if not whole:
                return settle(space, phase.open, phase.fixed, None).space
            closed(space, phase.fixed, None)
            return space

    def extended(self, before: Recipe, after: Recipe) -> int | None:
        """The first phase that other settings change; None if they change nothing.

        Raises ArchError (A2216) for those that a run cannot go on with: what was tried, trained or measured with the
        settings before would not be what it is with these.
        """
        names = [name for name in Recipe.model_fields if name != "phase"]
        fixed = [name for name in names if getattr(before, name) != getattr(after, name)]
        if fixed or len(before.phase) != len(after.phase):
            raise self._not_extended(before, f"{listed(fixed) or 'the number of phases'} cannot change after the start")
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


_TABLES = "phases that try candidates do, unless `options.scorer` says otherwise"
_LONGER = ("trials", "generations", "count", "population")
"""Options of which more means that more is tried."""
