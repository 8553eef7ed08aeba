"""Derives an architecture from relaxed choices, observing the exclusions and limits that a recipe sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from archir.diagnostics.errors import ArchError, fail
from archir.diagrams.conditions import if_else
from archir.diagrams.diagram import Value, make_diagram
from archir.diagrams.lifting import lift
from archir.recipes.recipe import Derive, SkipLimit
from archir.spaces.architecture import Architecture
from archir.spaces.derive import check_derivable, derive
from archir.spaces.space import Space

Probabilities = Mapping[str, Sequence[float]]
"""Probabilities of each choice's alternatives, by choice path."""


def derive_limited(space: Space, probabilities: Probabilities, settings: Derive) -> Architecture:
    """Derive an architecture from the probabilities of alternatives.

    While a cell has more limited labels (such as skip connections) than `settings.limit` allows, its weakest
    limited alternative is dropped (Chen et al. 2019, P-DARTS, section 3.3). If this fails, or if the space has
    cost bounds, all choices are made together with the limit as a constraint. Raises ArchError: A2101, A3301 (no
    architecture satisfies the bounds).
    """
    if space.has_cost_bounds and settings.limit is not None:
        return derive(space, probabilities, settings.exclude, list(_limit_conditions(space, settings.limit)))
    strengths = {path: list(row) for path, row in probabilities.items()}
    while True:
        architecture = derive(space, strengths, settings.exclude)
        cells = overfull_cells(architecture, settings.limit) if settings.limit is not None else set()
        if not cells:
            return architecture
        assert settings.limit is not None
        limited = [
            (strengths[choice.path][choice.alternatives.index(label)], choice.path, label)
            for choice in space.choices
            if choice.path.split(".")[0] in cells and choice.path in strengths
            for label in settings.limit.labels
            if architecture.get(choice.path) == label and strengths[choice.path][choice.alternatives.index(label)]
        ]
        if not limited:  # all of them were dropped, and are derived nevertheless
            return _derive_constrained(space, probabilities, settings, settings.limit, cells)
        _, path, label = min(limited)
        choice = next(choice for choice in space.choices if choice.path == path)
        strengths[path][choice.alternatives.index(label)] = 0.0


def check_nonempty(space: Space, settings: Derive) -> None:
    """Raise ArchError (A1603, A2101, A3301) if the settings exclude every architecture, whatever the probabilities."""
    limits = [] if settings.limit is None else _limit_conditions(space, settings.limit)
    check_derivable(space, settings.exclude, list(limits))


def _derive_constrained(
    space: Space, probabilities: Probabilities, settings: Derive, limit: SkipLimit, cells: set[str]
) -> Architecture:
    try:
        return derive(space, probabilities, settings.exclude, list(_limit_conditions(space, limit)))
    except ArchError as error:
        if error.diagnostics[0].code != "A2101":
            raise
        names, where = ", ".join(f"`{label}`" for label in limit.labels), ", ".join(sorted(cells))
        hint = "constraints of the space ask for them: raise derive.limit.most"
        raise fail("A2101", f"no more than {limit.most} of {names} cannot be kept in {where}", None, hint) from None


def _limit_conditions(space: Space, limit: SkipLimit) -> Iterator[Value]:
    """For each cell, yield the condition that it has at most `limit.most` limited labels."""
    counts: dict[str, Value] = {}
    for decision in reversed(space.order):
        choice = decision.choice
        limited = [choice.label(outcome) in limit.labels for outcome in range(choice.outcome_count)]
        if any(limited):
            present = if_else(decision.active, make_diagram(choice, map(int, limited)), 0)
            cell = choice.path.split(".")[0]
            counts[cell] = lift(
                lambda count_so_far, addend: min(count_so_far + addend, limit.most + 1), counts.get(cell, 0), present
            )
    return (lift(lambda count: count <= limit.most, count) for count in counts.values())


def overfull_cells(architecture: Architecture, limit: SkipLimit) -> set[str]:
    """Return the cells with more limited labels than `limit.most`."""
    counts = Counter(path.split(".")[0] for path, label in architecture.items() if label in limit.labels)
    return {cell for cell, count in counts.items() if count > limit.most}
