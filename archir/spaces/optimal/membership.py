"""Membership: whether a network is an architecture of a space, and which one."""

from __future__ import annotations

from dataclasses import dataclass

from archir.diagnostics.errors import ArchError
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import Graph
from archir.passes.cost import cost
from archir.spaces.architecture import Architecture
from archir.spaces.completion import largest
from archir.spaces.diff import Difference, count_differing_operations, diff_operations
from archir.spaces.optimal.answers import optimize
from archir.spaces.optimal.problem import Objective
from archir.spaces.space import Space

MAX_CANDIDATES = 256
"""Maximum number of architectures whose hashes are compared; all of them have the network's costs."""
MAX_COMPARED_NODES = 100_000
"""Maximum total number of nodes of the architectures that are compared in the search for the closest one."""
TIME_LIMIT = 20.0
"""Time limit in seconds for the search for architectures with the network's costs."""


@dataclass(frozen=True)
class Membership:
    """The architecture that computes the same function as a network, or None.

    `largest` is True if it is the architecture with the most multiply-accumulates. `proved` is True if every
    architecture that could equal the network was compared. If no architecture equals the network, `closest` is the
    compared architecture that has the most operations in common with the network, and `differences` lists, by scope,
    the operations in which the two differ.
    """

    architecture: Architecture | None
    largest: bool = False
    proved: bool = True
    closest: Architecture | None = None
    differences: tuple[Difference, ...] = ()

    def __repr__(self) -> str:
        if self.architecture is not None:
            return f"<Membership: {'the largest, ' * self.largest}{self.architecture!r}>"
        status = "none" if self.proved else "none that was found"
        return f"<Membership: {status}, {len(self.differences):,} differences from the nearest>"


def membership(space: Space, network: Graph) -> Membership:
    """Return the architecture of a space that computes the same function as a network without choices, if any.

    Functions are compared by canonical hashes, but only of architectures with the network's parameters and
    multiply-accumulates, which an exact search finds. Raises ArchError (A1602).
    """
    expected_hash = canonical_hash(network)
    largest_architecture = largest(space)
    if space.canonical(largest_architecture) == expected_hash:
        return Membership(largest_architecture, largest=True)
    costs = cost(network)
    same_cost = space
    for name in ("params", "macs"):
        number = getattr(costs, name)
        same_cost = same_cost.where(f"{name} <= {number} and {name} >= {number}")
    answer = optimize(same_cost, Objective("kernels"), MAX_CANDIDATES, {}, TIME_LIMIT, explain=False)
    for candidate in answer.architectures:
        if space.canonical(candidate) == expected_hash:
            return Membership(candidate)
    closest = _closest(space, largest_architecture, network)
    differences = diff_operations(network, space.specialize(closest))
    is_complete = answer.proved and len(answer.architectures) < MAX_CANDIDATES
    return Membership(None, proved=is_complete, closest=closest, differences=tuple(differences))


def _closest(space: Space, start: Architecture, network: Graph) -> Architecture:
    """Return an architecture that is as close to the network as a greedy search finds.

    Starting from the largest architecture, the search fixes, choice by choice, the outcome with the fewest differing
    operations.
    """
    fixed: dict[str, int] = {}
    closest, fewest = start, count_differing_operations(network, space.specialize(start))
    budget = MAX_COMPARED_NODES // len(network)
    for choice in space.choices:
        for outcome in range(choice.outcome_count):
            budget -= 1
            if budget < 0 or fewest == 0:
                return closest
            try:
                candidate = largest(space, {**fixed, choice.path: outcome})
            except ArchError:
                continue
            differences = count_differing_operations(network, space.specialize(candidate))
            if differences < fewest:
                closest, fewest = candidate, differences
        if choice.path in closest.outcomes:
            fixed[choice.path] = closest.outcomes[choice.path]
    return closest
