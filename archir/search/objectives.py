"""What is better: objectives, each to be maximised or minimised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from archir.diagnostics.errors import fail
from archir.language.elaboration.costs import is_cost
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space


@dataclass(frozen=True)
class Objective:
    """A score or a cost by its name, and whether more of it is better."""

    name: str
    most: bool

    def __str__(self) -> str:
        return f"{self.name}:{'max' if self.most else 'min'}"


def objective(text: str) -> Objective:
    """The objective of a text such as `accuracy:max` or `macs:min`. Raises ArchError (A2501)."""
    name, colon, sense = text.rpartition(":")
    if not colon or not name.strip() or sense.strip() not in ("max", "min"):
        hint = "write a name and a sense, such as accuracy:max or macs:min"
        raise fail("A2501", f"`{text}` is no objective", None, hint)
    return Objective(name.strip(), sense.strip() == "max")


class Objectives:
    """The objectives of a search. Those that are costs of the space are worked out, the others are told."""

    def __init__(self, space: Space, texts: Sequence[str]) -> None:
        self.space = space
        self.each = tuple(objective(text) for text in texts)
        names = [one.name for one in self.each]
        if not names or len(set(names)) < len(names):
            raise fail("A2501", f"objectives are different, and at least one; not {', '.join(names) or 'none'}")
        self._names = frozenset(names)
        self._senses = [(one.name, one.most) for one in self.each]
        self.costs = tuple(name for name in names if name in space.account.names or is_cost(name))

    def complete(self, architecture: Architecture, told: Mapping[str, float]) -> dict[str, float]:
        """What was told, and the costs among the objectives. Raises ArchError (A2502) if one is missing."""
        found = dict(told)
        if self.costs:
            found |= {name: int(values[0]) for name, values in self.space.cost([architecture], self.costs).items()}
        if not self._names <= found.keys():
            missing = [one.name for one in self.each if one.name not in found]
            known = ", ".join(found) or "nothing"
            raise fail("A2502", f"the objective `{missing[0]}` was not scored", None, f"scored was {known}")
        return found

    def values(self, scores: Mapping[str, float]) -> tuple[float, ...] | None:
        """The objectives as numbers that are better the less they are; None if one is infinite or no number."""
        found = tuple([-scores[name] if most else scores[name] for name, most in self._senses])
        return found if all(map(isfinite, found)) else None
