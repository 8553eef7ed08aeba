"""What a network drawn from the architecture parameters costs on average: exact, and differentiable.

Costs of a space are sums of tables over few choices each (`archir.costs.tables`), where a choice that is inactive does
not matter. So with choices drawn independently, the mean is the sum of the tables' means, ties and conditions included.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from archir.diagnostics.errors import ArchError, Diagnostic, suggest
from archir.spaces.space import Space


def unknown_mean(space: Space, cost: str) -> Diagnostic | None:
    """What is wrong (A1604) with a cost that has no mean."""
    if cost in space.account.summed:
        return None
    hint = suggest(cost, space.account.summed) or f"costs are {', '.join(space.account.summed)}"
    return Diagnostic("A1604", f"there is no mean of a cost `{cost}`", None, hint)


class Expected(nn.Module):
    """The mean of a cost. Choices without probabilities are uniform over their outcomes."""

    def __init__(self, space: Space, cost: str) -> None:
        super().__init__()
        if (unknown := unknown_mean(space, cost)) is not None:
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
        """The mean under independent probabilities of outcomes by path, in double precision."""
        total = torch.tensor(self.constant, dtype=torch.double)
        for number, paths in enumerate(self._axes):
            values: Tensor = getattr(self, f"table{number}")
            for path in paths:  # the first axis, each time
                p = probabilities.get(path)
                values = values.mean(0) if p is None else torch.tensordot(p.double().to(values.device), values, 1)
            total = total.to(values.device) + values
        return total
