"""What a phase that trained a supernet hands on: the space whose weights these are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.ir.serial import to_json
from archir.recipes.open_choices import Opened
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space

Sharing = Literal["heads", "leading"]
"""Which channels a smaller attention has: the first ones of each head, or of all together."""


@dataclass(frozen=True)
class SupernetRecord:
    """The graph of a supernet as JSON, how weights are shared, and the labels of choices that were held fixed."""

    graph: Mapping[str, Any]
    sharing: Sharing
    fixed: Mapping[str, Any]

    @classmethod
    def of(cls, opened: Opened, graph: Graph, sharing: Sharing) -> SupernetRecord:
        """The record of a supernet of this graph that was trained on what is open of a space."""
        labels = {c.path: c.label(opened.made[c.path]) for c in opened.whole.choices if c.path in opened.made}
        return cls(to_json(graph), sharing, labels)

    def check(self, architecture: Architecture) -> None:
        """Raise ArchError (A2209) if an architecture has what the supernet was not trained for."""
        for path, label in architecture.items():
            if path in self.fixed and self.fixed[path] != label:
                text = f"the supernet was trained with `{path}` = {self.fixed[path]}, not {label}"
                raise fail(
                    "A2209", text, None, "hold the choice fixed as it was, or open it where the supernet is trained"
                )

    def own(self, graph: Graph, architecture: Architecture) -> Architecture:
        """An architecture of the whole space as one of the supernet's, whose graph is given.

        Raises ArchError: A2209 (it has what the supernet was not trained for), A1004, A1008 (it is no architecture of
        the supernet's).
        """
        self.check(architecture)
        return Space(graph).exactly(architecture.outcomes)
