"""Exact, differentiable expected cost of an architecture that is sampled from the architecture parameters.

The costs of a space are sums of tables, each over a few choices (`archir.costs.tables`); inactive choices do not
change
the entries. If choices are sampled independently, the expected cost is therefore the sum of the expected table
entries.
This also holds with tied choices and conditions.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.diagnostics.hints import suggest
from archir.spaces.space import Space


def missing_mean(space: Space, cost: str) -> Diagnostic | None:
    """Return an error (A1604) if a cost is not additive, and thus has no computable expected value; else None."""
    if cost in space.account.summed:
        return None
    hint = suggest(cost, space.account.summed) or f"costs are {', '.join(space.account.summed)}"
    return Diagnostic("A1604", f"the expected value of cost `{cost}` cannot be computed", None, hint)


class ExpectedCost(nn.Module):
    """Expected cost as a module. A choice without probabilities is uniform over its outcomes."""

    def __init__(self, space: Space, cost: str) -> None:
        super().__init__()
        if (unknown := missing_mean(space, cost)) is not None:
            raise ArchError(unknown)
        column = space.account.summed.index(cost)
        table = space.account.table
        self.constant = float(table.constant[column])
        self._axes: list[list[str]] = []
        for factor in table.factors:
            values = torch.from_numpy(factor.table[..., column].copy()).double()
            if bool((values == values.flatten()[0]).all()):
                self.constant += float(values.flatten()[0])
                continue
            self._axes.append([space.choices[position].path for position in factor.positions])
            self.register_buffer(f"table{len(self._axes) - 1}", values, persistent=False)

    def forward(self, probabilities: Mapping[str, Tensor]) -> Tensor:
        """Return the expected cost in double precision, for independent choices.

        `probabilities` maps the path of each choice to the probabilities of its outcomes.
        """
        total = torch.tensor(self.constant, dtype=torch.double)
        for number, paths in enumerate(self._axes):
            values: Tensor = getattr(self, f"table{number}")
            for path in paths:  # each contracts the first remaining axis
                p = probabilities.get(path)
                values = values.mean(0) if p is None else torch.tensordot(p.double().to(values.device), values, 1)
            total = total.to(values.device) + values
        return total
