"""Whether a network is one architecture of a space, and which."""

from __future__ import annotations

from dataclasses import dataclass

from archir.ir.graph import Graph
from archir.passes.cost import cost
from archir.passes.equivalence.canonical import canonical_hash
from archir.search.spaces.architecture import Architecture
from archir.search.spaces.optimal.answers import optimize
from archir.search.spaces.optimal.problem import Objective
from archir.search.spaces.partial import largest
from archir.search.spaces.space import Space

MOST_ALIKE = 256
"""Architectures of the same costs that are compared one by one."""
SECONDS = 20.0
"""For finding these."""


@dataclass(frozen=True)
class Membership:
    """The architecture that computes the same as a network, if there is one. `largest` says whether it is that of the
    most multiply-accumulates, `settled` whether all were looked at that it could be."""

    architecture: Architecture | None
    largest: bool = False
    settled: bool = True


def membership(space: Space, network: Graph) -> Membership:
    """Which architecture of a space computes the same as a network without choices.

    What computes the same has one canonical hash, and so do few architectures: those alone are hashed that have the
    network's parameters and multiply-accumulates, which are found exactly. Raises ArchError (A1602).
    """
    wanted = canonical_hash(network)
    most = largest(space)
    if space.canonical(most) == wanted:
        return Membership(most, largest=True)
    costs = cost(network)
    alike = space
    for name in ("params", "macs"):
        number = getattr(costs, name)
        alike = alike.where(f"{name} <= {number} and {name} >= {number}")
    answer = optimize(alike, Objective("kernels"), MOST_ALIKE, {}, SECONDS)
    for one in answer.architectures:
        if space.canonical(one) == wanted:
            return Membership(one)
    return Membership(None, settled=answer.settled and len(answer.architectures) < MOST_ALIKE)
