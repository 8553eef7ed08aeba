"""Exact optimisation over a space: the best architectures within bounds, with a proof."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archir.api.loading import require_space
from archir.diagnostics.errors import fail
from archir.diagnostics.hints import suggest

if TYPE_CHECKING:
    from archir.spaces.optimal.answers import Answer
    from archir.spaces.optimal.fronts import Front
    from archir.spaces.optimal.problem import Objective
    from archir.spaces.scores import AdditiveScores
    from archir.spaces.space import Space

__all__ = ["exact_front", "optimize"]


def optimize(
    space: Space,
    minimize: str | None = None,
    maximize: str | Path | AdditiveScores | None = None,
    *,
    where: str | None = None,
    best: int = 1,
    fixed: Mapping[str, Any] | None = None,
    seconds: float | None = None,
) -> Answer:
    """Find the architectures of minimum cost, or of maximum cost or scores, with a proof of optimality.

    Exactly one of `minimize` and `maximize` must be given.

    Args:
        space: The space.
        minimize: A cost such as `"macs"`.
        maximize: A cost, a file written by `archir scores`, or `AdditiveScores`.
        where: Bounds such as `"macs <= 0.5x and params <= 2M"`.
        best: Number of architectures to return.
        fixed: Labels that choices must have, by path.
        seconds: Time limit.

    Returns:
        The `architectures`, best first, and their `values`. If time ran out, `proved` is False, and no other
        architecture is better than `bound`. If no architecture is within the bounds, `conflict` lists bounds that
        contradict each other.

    Raises:
        ArchError: A1604 (no such cost), A1601, A1602 (the decision diagrams of the space's choices become too large),
            A3302 (a bound that is not a range), A3303 (no such choice or label), A3305 (both or neither of `minimize`
            and `maximize`), A3322 (the file has no scores of this space).

    Examples:
        >>> archir.optimize(space, minimize="macs", where="params >= 700")
        <Answer: least macs = ... (proved)>
    """
    from archir.spaces.optimal.answers import optimize

    objective = _objective(space, minimize, maximize)
    return optimize(_bounded(space, where), objective, best, _outcomes(space, fixed), seconds)


def exact_front(
    space: Space,
    first: str | Path | AdditiveScores,
    *costs: str,
    points: int | None = None,
    where: str | None = None,
    fixed: Mapping[str, Any] | None = None,
    seconds: float | None = None,
) -> Front:
    """Find the Pareto front of two or three objectives, with a proof that it is complete.

    Args:
        space: The space.
        first: A cost to minimise, or scores to maximise: `AdditiveScores`, or a file written by `archir scores`.
        *costs: One or two further costs to minimise.
        points: Approximate number of architectures to return, spread evenly over `costs`; by default the whole front.
        where: Bounds such as `"macs <= 0.5x"`.
        fixed: Labels that choices must have, by path.
        seconds: Time limit, after which the front found so far is returned.

    Returns:
        The front: its `points`, and whether it is `complete`.

    Raises:
        ArchError: As for `optimize`, and A3301 if no architecture is within the bounds.

    Examples:
        >>> scores = archir.scores(space, proxy="naswot")
        >>> archir.exact_front(space, scores, "macs").complete
        True
    """
    from dataclasses import replace

    from archir.spaces.optimal.fronts import front
    from archir.spaces.optimal.problem import Objective

    scores = not isinstance(first, str) or first.endswith(".json")
    if not 1 <= len(costs) <= 2:
        raise fail("A3305", "a front is of two or three objectives", None, 'exact_front(space, "macs", "params")')
    objective = _objective(space, None, first) if scores else Objective(str(first))
    others = [Objective(item) for item in costs]
    result = front(_bounded(space, where), objective, others, points, _outcomes(space, fixed), seconds)
    return replace(result, names=tuple(item.name for item in (objective, *others)))


def _bounded(space: Space, where: str | None) -> Space:
    """Return the space restricted by the cost bounds `where`, or unchanged if `where` is None."""
    return require_space(space) if where is None else require_space(space).where(where)


def _objective(space: Space, minimize: str | None, maximize: str | Path | AdditiveScores | None) -> Objective:
    """Return the objective that `minimize` or `maximize` names.

    Raises ArchError: A3305 (both or neither are given), A3322 (the file has no scores of this space).
    """
    from archir.spaces.optimal.problem import Objective
    from archir.spaces.scores import read

    if (minimize is None) == (maximize is None):
        raise fail("A3305", "give exactly one objective", None, 'minimize="macs", or maximize="scores.json"')
    if minimize is not None:
        return Objective(minimize)
    if isinstance(maximize, Path) or (isinstance(maximize, str) and maximize.endswith(".json")):
        return Objective(read(Path(maximize), space), True)
    assert maximize is not None
    return Objective(maximize, True)


def _outcomes(space: Space, fixed: Mapping[str, Any] | None) -> dict[str, int]:
    """Convert labels by choice path to outcomes by choice path.

    Raises ArchError (A3303) if a choice or label is unknown.
    """
    choices = {choice.path: choice for choice in require_space(space).choices}
    outcomes = {}
    for path, label in (fixed or {}).items():
        if path not in choices:
            raise fail("A3303", f"there is no choice `{path}`", None, suggest(path, choices))
        outcome = choices[path].outcome(label)
        if outcome is None:
            labels = [str(alternative) for alternative in choices[path].alternatives]
            raise fail("A3303", f"`{path}` has no `{label}`", None, f"there are {', '.join(labels[:8])}")
        outcomes[path] = outcome
    return outcomes
