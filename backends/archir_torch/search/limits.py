"""Derivation as recipes ask for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from archir.errors import fail
from archir.search.architecture import Architecture
from archir.search.derive import derive
from archir.search.space import Space
from archir_torch.search.recipe import Derive, SkipLimit

Probabilities = Mapping[str, Sequence[float]]


def derived(space: Space, probabilities: Probabilities, settings: Derive) -> Architecture:
    """The architecture that is derived. Where a cell has too many of what is limited, the weakest of them is given up,
    until it has not (Chen et al. 2019, P-DARTS, section 3.3). Raises ArchError (A2101)."""
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
            names, where = ", ".join(f"`{one}`" for one in settings.limit.labels), ", ".join(sorted(cells))
            hint = "constraints of the space ask for them: raise derive.limit.most"
            raise fail("A2101", f"no more than {settings.limit.most} of {names} cannot be kept in {where}", None, hint)
        _, path, label = min(limited)
        choice = next(choice for choice in space.choices if choice.path == path)
        strengths[path][choice.alternatives.index(label)] = 0.0


def crowded(architecture: Architecture, limit: SkipLimit) -> set[str]:
    """The cells that have more of what is limited than they may have."""
    counts = Counter(path.split(".")[0] for path, label in architecture.items() if label in limit.labels)
    return {cell for cell, count in counts.items() if count > limit.most}
