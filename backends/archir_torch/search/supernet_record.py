"""What a phase that trained a supernet hands on: the space whose weights these are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from archir.base.errors import fail
from archir.ir.text.serial import from_json, to_json
from archir.search.recipes.open_choices import Opened
from archir.search.spaces.architecture import Architecture
from archir.search.spaces.space import Space
from archir_torch.supernet.network import Sharing, SuperNetwork


@dataclass(frozen=True)
class SupernetRecord:
    """The graph of a supernet as JSON, how weights are shared, and the labels of choices that were held fixed."""

    graph: Mapping[str, Any]
    sharing: Sharing
    fixed: Mapping[str, Any]

    @classmethod
    def of(cls, opened: Opened, model: SuperNetwork, sharing: Sharing) -> SupernetRecord:
        """The record of a supernet that was trained on what is open of a space."""
        labels = {c.path: c.label(opened.made[c.path]) for c in opened.whole.choices if c.path in opened.made}
        return cls(to_json(model.graph), sharing, labels)

    def model(self, weights: Mapping[str, Tensor]) -> SuperNetwork:
        """The supernet with its weights, in evaluation mode."""
        made = SuperNetwork(from_json(self.graph), torch.Generator().manual_seed(0), self.sharing == "heads")
        made.load_state_dict(dict(weights))
        return made.eval()

    def check(self, architecture: Architecture) -> None:
        """Raise ArchError (A2209) if an architecture has what the supernet was not trained for."""
        for path, label in architecture.items():
            if path in self.fixed and self.fixed[path] != label:
                text = f"the supernet was trained with `{path}` = {self.fixed[path]}, not {label}"
                raise fail(
                    "A2209", text, None, "hold the choice fixed as it was, or open it where the supernet is trained"
                )

    def own(self, model: SuperNetwork, architecture: Architecture) -> Architecture:
        """An architecture of the whole space as one of the supernet's. Raises ArchError: A2209 (it has what the
        supernet was not trained for), A1004, A1008 (it is no architecture of the supernet's)."""
        self.check(architecture)
        return Space(model.graph).exactly(architecture.outcomes)
