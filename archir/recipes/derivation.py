"""Derivation as recipes ask for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from archir.diagnostics.errors import ArchError, Diagnostic, fail
from archir.diagrams.cases import Choice, Value, case
from archir.diagrams.conditions import if_else
from archir.diagrams.lifting import lift
from archir.recipes.open_choices import near
from archir.recipes.recipe import Derive, SkipLimit
from archir.spaces.architecture import Architecture
from archir.spaces.derive import check_derivable, derive
from archir.spaces.space import Space
from archir.utils.settings import Where

Probabilities = Mapping[str, Sequence[float]]


def derived(space: Space, probabilities: Probabilities, settings: Derive) -> Architecture:
    """The architecture that is derived. Where a cell has too many of what is limited, the weakest of them is given up,
    until it has not (Chen et al. 2019, P-DARTS, section 3.3); if giving them up one by one does not come to that, or
    costs are bounded, all choices are decided together. Raises ArchError: A2101, A3301 (nothing is within the bounds).
    """
    if space.bounded and settings.limit is not None:
        return derive(space, probabilities, settings.exclude, list(_limits(space, settings.limit)))
    strengths = {path: list(row) for path, row in probabilities.items()}
    while True:
        architecture = derive(space, strengths, settings.exclude)
        cells = crowded(architecture, settings.limit) if settings.limit is not None else set()
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
        if not limited:  # all of them were given up, and are derived all the same
            return _together(space, probabilities, settings, settings.limit, cells)
        _, path, label = min(limited)
        choice = next(choice for choice in space.choices if choice.path == path)
        strengths[path][choice.alternatives.index(label)] = 0.0


def check_labels(choices: Sequence[Choice], settings: Derive, whose: str, where: Where) -> None:
    """Raise ArchError (A2204) for labels that none of these choices, which are searched, has an alternative of."""
    excluded = {str(label) for choice in choices for label in choice.alternatives}
    counted = {label for one in choices if one.take is None for label in one.alternatives if isinstance(label, str)}
    limited = () if settings.limit is None else settings.limit.labels
    problems = []
    for setting, labels, known in (
        (("exclude",), settings.exclude, excluded),
        (("limit", "labels"), limited, counted),
    ):
        for position, label in enumerate(labels):
            if label not in known:
                name = ".".join(("derive", *setting))
                text = f"{whose}`{name}` has `{label}`, and no choice that is searched has such an alternative"
                problems.append(Diagnostic("A2204", text, where((*setting, position)), near(label, sorted(known))))
    if problems:
        raise ArchError(*problems)


def check_some(space: Space, settings: Derive) -> None:
    """Raise ArchError (A1603, A2101, A3301) if it is known that nothing can be derived, whatever is strong."""
    limits = [] if settings.limit is None else _limits(space, settings.limit)
    check_derivable(space, settings.exclude, list(limits))


def _together(
    space: Space, probabilities: Probabilities, settings: Derive, limit: SkipLimit, cells: set[str]
) -> Architecture:
    """What is derived if the limit is a constraint like others."""
    try:
        return derive(space, probabilities, settings.exclude, list(_limits(space, limit)))
    except ArchError as error:
        if error.diagnostics[0].code != "A2101":
            raise
        names, where = ", ".join(f"`{one}`" for one in limit.labels), ", ".join(sorted(cells))
        hint = "constraints of the space ask for them: raise derive.limit.most"
        raise fail("A2101", f"no more than {limit.most} of {names} cannot be kept in {where}", None, hint) from None


def _limits(space: Space, limit: SkipLimit) -> Iterator[Value]:
    """For each cell the condition that it has no more than it may have."""
    counts: dict[str, Value] = {}
    for decision in reversed(space.order):
        choice = decision.choice
        limited = [choice.label(outcome) in limit.labels for outcome in range(choice.outcomes)]
        if any(limited):
            there = if_else(decision.active, case(choice, map(int, limited)), 0)
            cell = choice.path.split(".")[0]
            counts[cell] = lift(lambda one, other: min(one + other, limit.most + 1), counts.get(cell, 0), there)
    return (lift(lambda count: count <= limit.most, count) for count in counts.values())


def crowded(architecture: Architecture, limit: SkipLimit) -> set[str]:
    """The cells that have more of what is limited than they may have."""
    counts = Counter(path.split(".")[0] for path, label in architecture.items() if label in limit.labels)
    return {cell for cell, count in counts.items() if count > limit.most}
