"""Whether a network is one architecture of a space, and which."""

from __future__ import annotations

from dataclasses import dataclass

from archir.diagnostics.errors import ArchError
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import Graph
from archir.passes.cost import cost
from archir.spaces.architecture import Architecture
from archir.spaces.diff import Difference, diff_operations, differing
from archir.spaces.optimal.answers import optimize
from archir.spaces.optimal.problem import Objective
from archir.spaces.partial import largest
from archir.spaces.space import Space

MOST_ALIKE = 256
"""Architectures of the same costs that are compared one by one."""
MOST_TRIED = 100_000
"""Nodes of all architectures that are looked at for the nearest one."""
SECONDS = 20.0
"""For finding these."""


@dataclass(frozen=True)
class Membership:
    """The architecture that computes the same as a network, if there is one. `largest` says whether it is that of the
    most multiply-accumulates, `settled` whether all were looked at that it could be. If there is none, `nearest` is one
    that has most of its operations in common with the network, of those that were looked at, and `differences` are
    how they differ: scopes, and what is there in the network and in the architecture."""

    architecture: Architecture | None
    largest: bool = False
    settled: bool = True
    nearest: Architecture | None = None
    differences: tuple[Difference, ...] = ()

    def __repr__(self) -> str:
        if self.architecture is not None:
            return f"<Membership: {'the largest, ' * self.largest}{self.architecture!r}>"
        known = "none" if self.settled else "none that was found"
        return f"<Membership: {known}, {len(self.differences):,} differences from the nearest>"


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
    near = _nearest(space, most, network)
    differences = diff_operations(network, space.specialize(near))
    settled = answer.settled and len(answer.architectures) < MOST_ALIKE
    return Membership(None, settled=settled, nearest=near, differences=tuple(differences))


def _nearest(space: Space, most: Architecture, network: Graph) -> Architecture:
    """From the largest architecture on, choice by choice, the outcome by which most operations are the network's."""
    made: dict[str, int] = {}
    near, least = most, differing(network, space.specialize(most))
    left = MOST_TRIED // len(network)
    for choice in space.choices:
        for outcome in range(choice.outcomes):
            left -= 1
            if left < 0 or least == 0:
                return near
            try:
                one = largest(space, {**made, choice.path: outcome})
            except ArchError:
                continue
            many = differing(network, space.specialize(one))
            if many < least:
                near, least = one, many
        if choice.path in near.outcomes:
            made[choice.path] = near.outcomes[choice.path]
    return near
