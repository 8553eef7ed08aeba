"""Minimum, mean and maximum cost of each part of a network, over all architectures of a space."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from archir.costs.account import Account
from archir.costs.chain import Chain
from archir.costs.extremes.witnesses import extreme
from archir.costs.means import mean_totals
from archir.costs.sums import Terms


@dataclass(frozen=True)
class CostRange:
    """Exact minimum, mean and maximum of a cost over all architectures."""

    least: int
    mean: Fraction
    greatest: int


def scope_prefix(scope: str, depth: int) -> str:
    """Return the first `depth` components of a scope."""
    return ".".join(scope.split(".")[:depth])


def costs_by_scope(account: Account, depth: int) -> dict[str, dict[str, CostRange]]:
    """Return the range of each additive cost for each part of the network.

    A part consists of the nodes whose scopes have the same first `depth` components. Parts are in graph order. The cost
    of shared weights is counted at the first node that an architecture contains. Raises ArchError (A0510, A1601,
    A1602).
    """
    terms: dict[str, dict[str, Terms]] = {}
    for number, costs in account.contributions.items():
        part = terms.setdefault(scope_prefix(account.graph[number].scope, depth), {})
        for name, node_terms in costs.items():
            part.setdefault(name, Counter()).update(node_terms)
    names, no_terms = account.summed, Terms()
    chains = {
        scope: account.chain_of_terms({name: part.get(name, no_terms) for name in names})
        for scope, part in terms.items()
    }
    return {scope: dict(zip(names, cost_ranges(chain), strict=True)) for scope, chain in chains.items()}


def total_costs(account: Account) -> dict[str, CostRange]:
    """Return the range of each additive cost of whole architectures."""
    return {name: cost_range for name in account.summed for cost_range in cost_ranges(account.chain(name))}


def cost_ranges(chain: Chain) -> list[CostRange]:
    """Return the range of each cost of a chain."""
    result = []
    for cost, mean in enumerate(mean_totals(chain)):
        least, greatest = (extreme(chain, cost, sign) for sign in (1, -1))
        assert least is not None
        assert greatest is not None
        result.append(CostRange(least.value, mean, greatest.value))
    return result
