"""Registry of the strategies that phases can use.

Each backend has its own registry for the strategies that it can run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from archir.diagnostics.errors import Diagnostic, fail
from archir.plugins.registry import Registry
from archir.recipes import job
from archir.recipes.recipe import Evaluate, Phase, Recipe
from archir.recipes.trials import TABLE, TrialOptions
from archir.spaces.space import Space
from archir.utils.settings import Settings, parse_settings
from archir.utils.toml import Path as Place

Job = TypeVar("Job", bound="job.Job[Any, Any]")
Strategy = TypeVar("Strategy")

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
    """Registry of a backend's strategies by name."""

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
        if not self.tries_candidates(phase):
            return None
        asked = phase.options.get("scorer")
        wanted = isinstance(asked, Mapping) and asked.get("kind") == TABLE
        table = recipe.evaluate_of(phase)
        if wanted and table is None:
            text = f"phase `{phase.name}` is scored by a table, but the recipe names none"
            raise fail("A2253", text, None, 'name one: [evaluate] table = "results.npz"')
        return table if wanted or asked is None else None

    def tries_candidates(self, phase: Phase) -> bool:
        """Return True if a phase tries candidates. Raises ArchError (A2202)."""
        return issubclass(self.kind_of(phase).options, TrialOptions)

    def giving(self, output: str) -> list[str]:
        """Return the names of the strategies with an output from which later phases can start."""
        return [name for name, kind in sorted(self.items()) if output in (kind.gives or ())]

    def create(self, job: Job) -> Strategy:
        """Create the strategy for a job. Raises ArchError (A2202, A1109)."""
        kind = self.kind_of(job.phase)
        return kind.make(job, parse_settings(kind.options, job.phase.options))
