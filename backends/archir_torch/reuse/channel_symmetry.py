"""Channel permutations under which an operation is equivariant, found by numerical tests.

What an operation declares is only a hypothesis. A symmetry is accepted if it holds for random numbers in double
precision, that is, if the operation, applied to permuted operands, returns the permuted result. Channels without
an accepted symmetry keep their positions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import torch
from torch import Tensor

from archir.ir.op import AliasMap, Op, Role
from archir.ir.types import TensorType
from archir_torch.lowering.rules import RULES

Port = int | None
"""Tensor at an operation: an operand by position, or None for the result."""
Order = Tensor
"""Permutation of an axis: element i is the old position of the channel that moves to position i."""


@dataclass(frozen=True)
class Claim:
    """Hypothesis that certain channels can be permuted together without changing the operation's result.

    `channel_sets` are sets of ports whose channels are permuted in the same way. The channels of every port are split
    into `chunks` equal chunks. With `inside`, the channels within a chunk may be permuted, differently in each chunk.
    With `across`, whole chunks may be permuted.
    """

    channel_sets: tuple[tuple[Port, ...], ...]
    chunks: int = 1
    inside: bool = True
    across: bool = True


Place = tuple[int, int]
"""Channel of a port, as (port number, channel); the result has the number after the last operand."""
Group = list[Place]
"""Channels that must move together."""
Signature = tuple[int, ...]
"""Sorted port numbers of the channels in a group. Groups with equal signatures may be interchangeable."""


def signature(group: Group) -> Signature:
    """Return the signature of a group, which says how many channels of which ports the group contains."""
    return tuple(member for member, _ in group)


class OperationProbe:
    """Operation with random operands of given types and random weights, for numerical tests of its symmetries."""

    def __init__(self, op: Op, operands: Sequence[TensorType], result: TensorType) -> None:
        self.op, self.operands, self.result = op, operands, result
        self.generator = torch.Generator().manual_seed(0)
        self.weights = {
            name: torch.rand(weight.shape, generator=self.generator, dtype=torch.double) + 0.5
            for name, weight in op.weights(*operands).items()
        }
        self.roles: Mapping[str, tuple[Role, ...]] = op.roles(*operands) if self.weights else {}
        limits = op.limits(*operands)
        self.xs = [self._random(x, limit) for x, limit in zip(operands, limits, strict=True)]
        if bool(self.run(self.xs, self.weights).isnan().any()):  # roots and logarithms need positive operands
            self.xs = [x.abs() if x.is_floating_point() else x for x in self.xs]

    def _random(self, x: TensorType, limit: int | None) -> Tensor:
        """Return a random operand with batch size 2; integers are less than `limit`."""
        shape = (2, *x.shape)
        if x.is_floating:
            return torch.randn(shape, generator=self.generator, dtype=torch.double)
        if x.dtype == "bool":
            return torch.rand(shape, generator=self.generator) < 0.5
        return torch.randint(0, limit or 2, shape, generator=self.generator)

    def run(self, xs: Sequence[Tensor], weights: Mapping[str, Tensor]) -> Tensor:
        """Evaluate the operation on operands and weights."""
        rule = RULES[type(self.op)]
        context: dict[str, Any] = {"training": False, "inplace": False, "batch": len(xs[0]) if xs else 1}
        arguments = {name: value for name, value in context.items() if rule.takes(name)}
        return rule.function(*xs, **weights, **rule.attributes(self.op), **arguments)

    # operations that only move numbers

    def movement_groups(self) -> list[Group] | None:
        """Return the groups of channels that move together, for an operation that only copies elements.

        Returns None for all other operations, and if groups with equal signatures are not interchangeable.
        """
        if (
            self.weights
            or not self.operands
            or not all(x.is_floating and x.rank for x in (*self.operands, self.result))
        ):
            return None
        indices, start = [], 1
        for x in self.xs:
            indices.append(torch.arange(start, start + x[:1].numel(), dtype=torch.double).reshape(x[:1].shape))
            start += x[:1].numel()
        sources = self.run(indices, {})
        values = torch.cat([torch.zeros(1, dtype=torch.double), *(x[:1].flatten() for x in self.xs)])
        if not bool(((sources >= 0) & (sources < start) & (sources == sources.round())).all()):
            return None
        if not torch.equal(values[sources.long()], self.run([x[:1] for x in self.xs], {})):
            return None
        channels = torch.cat([torch.full((1, 2), -1), *(self._channels(i) for i in range(len(self.xs)))])
        rows = channels[sources.long()].movedim(1 + self.result.channel_axis, 0).flatten(1, -2)
        union: nx.utils.UnionFind[Place] = nx.utils.UnionFind()
        for i in range(len(self.operands)):
            for channel in range(self.width(i)):
                union.union((i, channel))
        for channel, row in enumerate(rows):
            union.union((len(self.operands), channel), *((a, b) for a, b in row.unique(dim=0).tolist() if a >= 0))
        groups = [sorted(channel_set) for channel_set in union.to_sets()]
        by_signature: dict[Signature, list[Group]] = defaultdict(list)
        for group in groups:
            by_signature[signature(group)].append(group)
        return (
            groups
            if all(self._are_interchangeable(alike) for alike in by_signature.values() for _ in range(2))
            else None
        )

    def _are_interchangeable(self, groups: Sequence[Group]) -> bool:
        """Return True if the operation commutes with a random permutation of these groups, which have equal
        signatures."""
        members = len(self.operands)
        orders = {i: torch.arange(self.width(i if i < members else None)) for i in range(members + 1)}
        for to, source in zip(groups, self._permutation(len(groups)).tolist(), strict=True):
            for (member, channel), (_, source_channel) in zip(to, groups[source], strict=True):
                orders[member][channel] = source_channel
        xs = [x.index_select(1 + self.operands[i].channel_axis, orders[i]) for i, x in enumerate(self.xs)]
        expected = self.run(self.xs, {}).index_select(1 + self.result.channel_axis, orders[members])
        return torch.equal(expected, self.run(xs, {}))

    def _channels(self, operand: int) -> Tensor:
        """Return, for each element of an operand, the operand's position and the element's channel, [elements, 2]."""
        x = self.operands[operand]
        shape = [1] * x.rank
        shape[x.channel_axis] = x.channels
        channels = torch.arange(x.channels).reshape(shape).expand(x.shape).flatten()
        return torch.stack([torch.full_like(channels, operand), channels], 1)

    # claims

    def claims(self) -> Iterator[Claim]:
        """Yield the hypotheses to test, the strongest first."""
        members: list[Port] = [*range(len(self.operands)), None]
        ties = [tie for tie in self.op.ties(*self.operands) if isinstance(tie, AliasMap)]
        channel_sets = [tuple(m for m in tie.tensors if self.width(m) == self.width(tie.tensors[-1])) for tie in ties]
        channel_sets = [ports for ports in channel_sets if ports]
        declared_roles = {role for roles in self.roles.values() for role in roles}
        covered = {member for ports in channel_sets for member in ports}
        for role, member in (("operand", 0), ("result", None)):
            if role in declared_roles and member not in covered and (member is None or self.operands):
                channel_sets.append((member,))
        if not self.operands and not self.weights:
            return
        counts = [tie.heads for tie in ties if tie.heads > 1]
        chunks = min(counts, default=int(getattr(self.op, "groups", 1) or 1))
        all_sets = tuple(ports for ports in channel_sets if self.width(ports[-1]) > 1)
        all_ports = tuple(members)
        # each operand on its own, for operations such as sums over channels
        single_sets = tuple((i,) for i in range(len(self.operands)) if self.width(i) > 1)
        for sets in dict.fromkeys([all_sets, (all_ports,), single_sets]):
            if not sets or any(self.width(m) != (self.width(ports[-1]) or None) for ports in sets for m in ports):
                continue
            if not counts:
                yield Claim(sets)
            if chunks > 1 and all(self.width(m) % chunks == 0 for ports in sets for m in ports):
                yield Claim(sets, chunks)
                yield Claim(sets, chunks, inside=False)
                yield Claim(sets, chunks, across=False)

    def width(self, member: Port) -> int:
        """Return the number of channels of a port; 0 if its tensor is a scalar or not floating-point."""
        x = self.result if member is None else self.operands[member]
        return x.channels if x.rank and x.is_floating else 0

    def holds(self, claim: Claim) -> bool:
        """Test a claim numerically, with permutations of chunks and of the channels within all chunks or a single
        chunk.

        Each channel set is permuted separately, because random permutations of two sets may be equal by chance.
        """
        chunks = [range(claim.chunks), [int(torch.randint(claim.chunks, (), generator=self.generator))]]
        trials = (
            [(ports, permuted_chunks) for ports in claim.channel_sets for permuted_chunks in chunks]
            if claim.inside
            else []
        )
        return (not claim.across or all(self._holds(claim) for _ in range(2))) and all(
            self._holds(claim, ports, permuted_chunks) for ports, permuted_chunks in trials
        )

    def _holds(self, claim: Claim, permuted: tuple[Port, ...] = (), chunks: Sequence[int] = ()) -> bool:
        """Test a claim with one random permutation: of a set's channels within some chunks, or of all chunks."""
        chunk_order = torch.arange(claim.chunks) if permuted else self._permutation(claim.chunks)
        orders: dict[Port, Order] = {}
        for ports in claim.channel_sets:
            size = self.width(ports[-1]) // claim.chunks
            inner_orders = [
                self._permutation(size) if ports == permuted and chunk in chunks else torch.arange(size)
                for chunk in range(claim.chunks)
            ]
            order = torch.cat([int(chunk) * size + inner_orders[int(chunk)] for chunk in chunk_order])
            orders |= dict.fromkeys(ports, order)
        xs = [
            x.index_select(1 + self.operands[i].channel_axis, orders[i]) if i in orders else x
            for i, x in enumerate(self.xs)
        ]
        weights = {
            name: reorder_weight(tensor, self.roles[name], orders.get(0), orders.get(None), claim.chunks)
            for name, tensor in self.weights.items()
        }
        expected, actual = self.run(self.xs, self.weights), self.run(xs, weights)
        if None in orders:
            expected = expected.index_select(expected.dim() - self.result.rank + self.result.channel_axis, orders[None])
        return actual.shape == expected.shape and torch.allclose(actual, expected, rtol=1e-9, atol=1e-9, equal_nan=True)

    def _permutation(self, count: int) -> Tensor:
        """Return a random permutation that is not the identity (unless `count` is 1).

        Every claim holds for the identity, which would be half of all random permutations of two channels.
        """
        identity = torch.arange(count)
        while torch.equal(order := torch.randperm(count, generator=self.generator), identity) and count > 1:
            pass
        return order


def reorder_weight(
    weight: Tensor, roles: Sequence[Role], operand: Order | None, result: Order | None, chunks: int = 1
) -> Tensor:
    """Permute the channels of a weight.

    If one axis covers only the channels of a single chunk, that axis is permuted separately for each chunk along the
    other axis.
    """
    for axis, role in enumerate(roles):
        order = {"result": result, "operand": operand}.get(role)
        if order is not None and len(order) == weight.shape[axis]:
            weight = weight.index_select(axis, order)
    if chunks > 1 and {*roles[:2]} in ({"leading", "result"}, {"leading", "operand"}):
        inner_axis = roles.index("leading")
        outer_axis, order = 1 - inner_axis, operand if roles[1 - inner_axis] == "result" else result
        if order is not None and len(order) == chunks * weight.shape[inner_axis]:
            rows = [row % weight.shape[inner_axis] for row in order.reshape(chunks, -1)]
            parts = weight.chunk(chunks, outer_axis)
            weight = torch.cat(
                [part.index_select(inner_axis, row) for part, row in zip(parts, rows, strict=True)], outer_axis
            )
    return weight
