"""Record of a trained supernet for later phases: the space to which its weights belong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.ir.serial import to_json
from archir.recipes.open_choices import OpenSpace
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space

Sharing = Literal["heads", "leading"]
"""Which channels a smaller attention uses: the first channels of each head (`heads`), or the first of all
channels (`leading`)."""


@dataclass(frozen=True)
class SupernetRecord:
    """Graph of a supernet as JSON, its weight sharing, and the labels of choices that were fixed during training."""

    graph: Mapping[str, Any]
    sharing: Sharing
    fixed: Mapping[str, Any]

    @classmethod
    def of(cls, opened: OpenSpace, graph: Graph, sharing: Sharing) -> SupernetRecord:
        """Return the record for a supernet with this graph, trained on the open choices of a space."""
        labels = {
            c.path: c.label(opened.fixed_outcomes[c.path])
            for c in opened.full_space.choices
            if c.path in opened.fixed_outcomes
        }
        return cls(to_json(graph), sharing, labels)

    def check(self, architecture: Architecture) -> None:
        """Raise ArchError (A2209) if an architecture has another label for a choice that was fixed during training."""
        for path, label in architecture.items():
            if path in self.fixed and self.fixed[path] != label:
                text = f"the supernet was trained with `{path}` = {self.fixed[path]}, not {label}"
                raise fail(
                    "A2209", text, None, "fix the choice at the same alternative, or open it when training the supernet"
                )

    def to_supernet(self, graph: Graph, architecture: Architecture) -> Architecture:
        """Convert an architecture of the full space to one of the supernet's space, which has the given graph.

        Raises ArchError: A2209 (it differs in a choice that was fixed during training), A1004 or A1008 (it is not an
        architecture of the supernet).
        """
        self.check(architecture)
        return Space(graph).from_outcomes(architecture.outcomes)
