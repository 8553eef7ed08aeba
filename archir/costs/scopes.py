"""What each part of a space costs: at least, on average and at most over all its architectures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from archir.costs.account import Account
from archir.costs.dynamic import Chain
from archir.costs.extremes.witnesses import extreme
from archir.costs.means import averages
from archir.costs.sums import Terms


@dataclass(frozen=True)
class Range:
    """The least, the mean and the greatest cost, exactly."""

    least: int
    mean: Fraction
    greatest: int


def prefix(scope: str, depth: int) -> str:
    """The first components of a scope."""
    return ".".join(scope.split(".")[:depth])


def by_scope(account: Account, depth: int) -> dict[str, dict[str, Range]]:
    """The costs that add up, by the first components of scopes, in the order of the graph.

    Weights that several nodes share count where the first of them is that an architecture has. Raises ArchError (A0510,
    A1601, A1602).
    """
    terms: dict[str, dict[str, Terms]] = {}
    for number, costs in account.contributions.items():
        part = terms.setdefault(prefix(account.graph[number].scope, depth), {})
        for name, own in costs.items():
            part.setdefault(name, Counter()).update(own)
    names, nothing = account.summed, Terms()
    chains = {scope: account.sums({name: part.get(name, nothing) for name in names}) for scope, part in terms.items()}
    return {scope: dict(zip(names, ranges(chain), strict=True)) for scope, chain in chains.items()}


def whole(account: Account) -> dict[str, Range]:
    """The costs that add up, of whole architectures."""
    return {name: found for name in account.summed for found in ranges(account.chain(name))}


def ranges(chain: Chain) -> list[Range]:
    """The range of each cost of a chain."""
    found = []
    for cost, mean in enumerate(averages(chain)):
        least, greatest = (extreme(chain, cost, sign) for sign in (1, -1))
        assert least is not None
        assert greatest is not None
        found.append(Range(least.value, mean, greatest.value))
    return found
