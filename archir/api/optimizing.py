"""The best architectures of a space within bounds, proved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archir.api.loading import space_of
from archir.diagnostics.errors import fail, suggest

if TYPE_CHECKING:
    from archir.spaces.optimal.answers import Answer
    from archir.spaces.optimal.fronts import Front
    from archir.spaces.optimal.problem import Objective
    from archir.spaces.scores import Scores
    from archir.spaces.space import Space

__all__ = ["exact_front", "optimize"]


def optimize(
    space: Space,
    minimize: str | None = None,
    maximize: str | Path | Scores | None = None,
    *,
    where: str | None = None,
    best: int = 1,
    fixed: Mapping[str, Any] | None = None,
    seconds: float | None = None,
) -> Answer:
    """The architectures of the least cost, or of the greatest cost or scores, in order; with a proof.

    `maximize` is a cost, a file of scores (`archir scores`) or `Scores`; `where` are bounds such as
    `"macs <= 0.5x and params <= 2M"`, `fixed` are labels of choices by path. `best` says how many architectures. With
    `seconds`, the answer may be what was found by then, which says so (`settled`) and how much better another may be
    (`bound`). If nothing is within the bounds, `conflict` says which of them contradict each other.

    Raises ArchError: A1604 (no such cost), A1601, A1602 (choices are too entangled), A3302 (a bound that is no range),
    A3303 (no such choice, or label), A3322 (a file that has no scores of this space).
    """
    from archir.spaces.optimal.answers import optimize

    objective = _objective(space, minimize, maximize)
    return optimize(_bounded(space, where), objective, best, _outcomes(space, fixed), seconds)


def exact_front(
    space: Space,
    first: str | Path | Scores,
    *costs: str,
    points: int | None = None,
    where: str | None = None,
    fixed: Mapping[str, Any] | None = None,
    seconds: float | None = None,
) -> Front:
    """All architectures of the front of a cost, or scores, and one or two `costs`: least costs, greatest scores.

    With `points`, about so many, spread evenly over `costs`. `where` are bounds, `fixed` labels of choices by path;
    after `seconds`, what was found by then. Raises ArchError as `optimize` does; A3301 if nothing is within the bounds.
    """
    from dataclasses import replace

    from archir.spaces.optimal.fronts import front
    from archir.spaces.optimal.problem import Objective

    scores = not isinstance(first, str) or first.endswith(".json")
    if not 1 <= len(costs) <= 2:
        raise fail("A3305", "a front is of two or three objectives", None, 'exact_front(space, "macs", "params")')
    objective = _objective(space, None, first) if scores else Objective(str(first))
    others = [Objective(one) for one in costs]
    found = front(_bounded(space, where), objective, others, points, _outcomes(space, fixed), seconds)
    return replace(found, names=tuple(one.name for one in (objective, *others)))


def _bounded(space: Space, where: str | None) -> Space:
    return space_of(space) if where is None else space_of(space).where(where)


def _objective(space: Space, minimize: str | None, maximize: str | Path | Scores | None) -> Objective:
    from archir.spaces.optimal.problem import Objective
    from archir.spaces.scores import read

    if (minimize is None) == (maximize is None):
        raise fail("A3305", "one thing is optimised", None, 'minimize="macs", or maximize="scores.json"')
    if minimize is not None:
        return Objective(minimize)
    if isinstance(maximize, Path) or (isinstance(maximize, str) and maximize.endswith(".json")):
        return Objective(read(Path(maximize), space), True)
    assert maximize is not None
    return Objective(maximize, True)


def _outcomes(space: Space, fixed: Mapping[str, Any] | None) -> dict[str, int]:
    """Outcomes by path. Raises ArchError (A3303)."""
    choices = {choice.path: choice for choice in space_of(space).choices}
    found = {}
    for path, label in (fixed or {}).items():
        if path not in choices:
            raise fail("A3303", f"there is no choice `{path}`", None, suggest(path, choices))
        outcome = choices[path].outcome(label)
        if outcome is None:
            labels = [str(one) for one in choices[path].alternatives]
            raise fail("A3303", f"`{path}` has no `{label}`", None, f"there are {', '.join(labels[:8])}")
        found[path] = outcome
    return found
