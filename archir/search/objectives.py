"""Objectives of a search: scores and costs, each to be maximised or minimised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from archir.diagnostics.errors import fail
from archir.language.elaboration.cost_names import is_cost
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space


@dataclass(frozen=True)
class Objective:
    """A score or cost by name, and whether to maximise or minimise it."""

    name: str
    maximize: bool

    def __str__(self) -> str:
        return f"{self.name}:{'max' if self.maximize else 'min'}"


def objective(text: str) -> Objective:
    """Parse an objective such as `accuracy:max` or `macs:min`. Raises ArchError (A2501)."""
    name, colon, sense = text.rpartition(":")
    if not colon or not name.strip() or sense.strip() not in ("max", "min"):
        hint = "write a name and a sense, such as accuracy:max or macs:min"
        raise fail("A2501", f"`{text}` is not an objective", None, hint)
    return Objective(name.strip(), sense.strip() == "max")


class Objectives:
    """Objectives of a search. Those that are costs of the space are computed; the others must be among the reported
    scores."""

    def __init__(self, space: Space, texts: Sequence[str]) -> None:
        self.space = space
        self.each = tuple(objective(text) for text in texts)
        names = [item.name for item in self.each]
        if not names or len(set(names)) < len(names):
            raise fail("A2501", f"a search needs one or more different objectives, not {', '.join(names) or 'none'}")
        self._names = frozenset(names)
        self._senses = [(item.name, item.maximize) for item in self.each]
        self.costs = tuple(name for name in names if name in space.account.names or is_cost(name))

    def complete(self, architecture: Architecture, scores: Mapping[str, float]) -> dict[str, float]:
        """Add the costs among the objectives to the scores. Raises ArchError (A2502) if an objective is still
        missing."""
        completed = dict(scores)
        if self.costs:
            completed |= {name: int(values[0]) for name, values in self.space.cost([architecture], self.costs).items()}
        if not self._names <= completed.keys():
            missing = [item.name for item in self.each if item.name not in completed]
            available = ", ".join(completed) or "nothing"
            raise fail("A2502", f"the objective `{missing[0]}` was not scored", None, f"the scores are: {available}")
        return completed

    def values(self, scores: Mapping[str, float]) -> tuple[float, ...] | None:
        """Return the objectives as a tuple, negated where maximised, so that smaller is better; None if one is infinite
        or NaN."""
        signed = tuple([-scores[name] if maximize else scores[name] for name, maximize in self._senses])
        return signed if all(map(isfinite, signed)) else None
