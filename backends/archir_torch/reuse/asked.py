"""What an operation does to the order of channels: it is asked, by computing.

Whatever an operation declares, and whoever wrote it, a claim holds here if it holds for random numbers in double
precision: that its operands in another order give its result in another order. What no claim holds for stays in place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import torch
from torch import Tensor

from archir.ir.op import Op, Role, Tied
from archir.ir.types import TensorType
from archir_torch.lowering.rules import RULES

Member = int | None
Order = Tensor
"""Of an axis: what was at these positions comes to stand at 0, 1, ..."""


@dataclass(frozen=True)
class Claim:
    """Channels that move alike, as sets of members of an operation (its operands by position, or None for its result),
    each of which is split into so many equal chunks. `inside`: channels may move within a chunk, differently in each.
    `across`: chunks may change places, all at once."""

    tied: tuple[tuple[Member, ...], ...]
    chunks: int = 1
    inside: bool = True
    across: bool = True


Place = tuple[int, int]
"""A member, where the result is the one after the operands, and a channel of it."""
Group = list[Place]
Form = tuple[int, ...]


def form(group: Group) -> Form:
    """How many channels of which members are in a group."""
    return tuple(member for member, _ in group)


class Asked:
    """An operation on operands of these types, to be computed with random numbers."""

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
        if bool(self.run(self.xs, self.weights).isnan().any()):  # roots and logarithms are of what is positive
            self.xs = [x.abs() if x.is_floating_point() else x for x in self.xs]

    def _random(self, x: TensorType, limit: int | None) -> Tensor:
        shape = (2, *x.shape)
        if x.numeric:
            return torch.randn(shape, generator=self.generator, dtype=torch.double)
        if x.dtype == "bool":
            return torch.rand(shape, generator=self.generator) < 0.5
        return torch.randint(0, limit or 2, shape, generator=self.generator)

    def run(self, xs: Sequence[Tensor], weights: Mapping[str, Tensor]) -> Tensor:
        """The result of these."""
        rule = RULES[type(self.op)]
        told: dict[str, Any] = {"training": False, "inplace": False, "batch": len(xs[0]) if xs else 1}
        run = {name: value for name, value in told.items() if rule.takes(name)}
        return rule.function(*xs, **weights, **rule.attributes(self.op), **run)

    # moved, and nothing else

    def moves(self) -> list[Group] | None:
        """The channels that go together, if all that the operation does is to move numbers, and such groups of one form
        may change places."""
        if self.weights or not self.operands or not all(x.numeric and x.rank for x in (*self.operands, self.result)):
            return None
        indices, start = [], 1
        for x in self.xs:
            indices.append(torch.arange(start, start + x[:1].numel(), dtype=torch.double).reshape(x[:1].shape))
            start += x[:1].numel()
        found = self.run(indices, {})
        values = torch.cat([torch.zeros(1, dtype=torch.double), *(x[:1].flatten() for x in self.xs)])
        if not bool(((found >= 0) & (found < start) & (found == found.round())).all()):
            return None
        if not torch.equal(values[found.long()], self.run([x[:1] for x in self.xs], {})):
            return None
        channels = torch.cat([torch.full((1, 2), -1), *(self._channels(i) for i in range(len(self.xs)))])
        rows = channels[found.long()].movedim(1 + self.result.channel_axis, 0).flatten(1, -2)
        joined: nx.utils.UnionFind[Place] = nx.utils.UnionFind()
        for i in range(len(self.operands)):
            for channel in range(self.width(i)):
                joined.union((i, channel))
        for channel, row in enumerate(rows):
            joined.union((len(self.operands), channel), *((a, b) for a, b in row.unique(dim=0).tolist() if a >= 0))
        groups = [sorted(one) for one in joined.to_sets()]
        forms: dict[Form, list[Group]] = defaultdict(list)
        for group in groups:
            forms[form(group)].append(group)
        return groups if all(self._carried(alike) for alike in forms.values() for _ in range(2)) else None

    def _carried(self, alike: Sequence[Group]) -> bool:
        """Whether groups of one form may change places."""
        members = len(self.operands)
        orders = {i: torch.arange(self.width(i if i < members else None)) for i in range(members + 1)}
        for to, source in zip(alike, self._permutation(len(alike)).tolist(), strict=True):
            for (member, channel), (_, other) in zip(to, alike[source], strict=True):
                orders[member][channel] = other
        xs = [x.index_select(1 + self.operands[i].channel_axis, orders[i]) for i, x in enumerate(self.xs)]
        before = self.run(self.xs, {}).index_select(1 + self.result.channel_axis, orders[members])
        return torch.equal(before, self.run(xs, {}))

    def _channels(self, operand: int) -> Tensor:
        """For each number of an operand, this and its channel."""
        x = self.operands[operand]
        shape = [1] * x.rank
        shape[x.channel_axis] = x.channels
        channels = torch.arange(x.channels).reshape(shape).expand(x.shape).flatten()
        return torch.stack([torch.full_like(channels, operand), channels], 1)

    # claims

    def claims(self) -> Iterator[Claim]:
        """What may hold, the most first."""
        members: list[Member] = [*range(len(self.operands)), None]
        ties = [tie for tie in self.op.ties(*self.operands) if isinstance(tie, Tied)]
        tied = [tuple(m for m in tie.members if self.width(m) == self.width(tie.members[-1])) for tie in ties]
        tied = [one for one in tied if one]
        said = {role for roles in self.roles.values() for role in roles}
        known = {member for one in tied for member in one}
        for role, member in (("operand", 0), ("result", None)):
            if role in said and member not in known and (member is None or self.operands):
                tied.append((member,))
        if not self.operands and not self.weights:
            return
        counts = [tie.heads for tie in ties if tie.heads > 1]
        chunks = min(counts, default=int(getattr(self.op, "groups", 1) or 1))
        whole = tuple(one for one in tied if self.width(one[-1]) > 1)
        everything = tuple(members)
        alone = tuple((i,) for i in range(len(self.operands)) if self.width(i) > 1)  # sums over channels, and the like
        for form in dict.fromkeys([whole, (everything,), alone]):
            if not form or any(self.width(m) != (self.width(one[-1]) or None) for one in form for m in one):
                continue
            if not counts:
                yield Claim(form)
            if chunks > 1 and all(self.width(m) % chunks == 0 for one in form for m in one):
                yield Claim(form, chunks)
                yield Claim(form, chunks, inside=False)
                yield Claim(form, chunks, across=False)

    def width(self, member: Member) -> int:
        """The channels of a member; none of what is no features."""
        x = self.result if member is None else self.operands[member]
        return x.channels if x.rank and x.numeric else 0

    def holds(self, claim: Claim) -> bool:
        """Whether a claim holds when chunks change places, and when channels of one set do, within all chunks or one.

        Each set is permuted alone: orders drawn for two sets at once may be equal by chance."""
        chunks = [range(claim.chunks), [int(torch.randint(claim.chunks, (), generator=self.generator))]]
        inside = [(one, some) for one in claim.tied for some in chunks] if claim.inside else []
        return (not claim.across or all(self._holds(claim) for _ in range(2))) and all(
            self._holds(claim, one, some) for one, some in inside
        )

    def _holds(self, claim: Claim, moved: tuple[Member, ...] = (), chunks: Sequence[int] = ()) -> bool:
        """Whether a claim holds for an order of the channels of a set within some chunks, or else of all chunks."""
        across = torch.arange(claim.chunks) if moved else self._permutation(claim.chunks)
        orders: dict[Member, Order] = {}
        for one in claim.tied:
            size = self.width(one[-1]) // claim.chunks
            within = [
                self._permutation(size) if one == moved and chunk in chunks else torch.arange(size)
                for chunk in range(claim.chunks)
            ]
            order = torch.cat([int(chunk) * size + within[int(chunk)] for chunk in across])
            orders |= dict.fromkeys(one, order)
        xs = [
            x.index_select(1 + self.operands[i].channel_axis, orders[i]) if i in orders else x
            for i, x in enumerate(self.xs)
        ]
        weights = {
            name: reordered(tensor, self.roles[name], orders.get(0), orders.get(None), claim.chunks)
            for name, tensor in self.weights.items()
        }
        before, after = self.run(self.xs, self.weights), self.run(xs, weights)
        if None in orders:
            before = before.index_select(before.dim() - self.result.rank + self.result.channel_axis, orders[None])
        return after.shape == before.shape and torch.allclose(after, before, rtol=1e-9, atol=1e-9, equal_nan=True)

    def _permutation(self, count: int) -> Tensor:
        """Another order than the one that is there, in which every claim holds; of two, half of all draws are that."""
        same = torch.arange(count)
        while torch.equal(found := torch.randperm(count, generator=self.generator), same) and count > 1:
            pass
        return found


def reordered(
    weight: Tensor, roles: Sequence[Role], operand: Order | None, result: Order | None, chunks: int = 1
) -> Tensor:
    """A weight whose channels stand in other orders. An axis that has one chunk's channels alone follows the chunk that
    the other axis is in."""
    for axis, role in enumerate(roles):
        order = {"result": result, "operand": operand}.get(role)
        if order is not None and len(order) == weight.shape[axis]:
            weight = weight.index_select(axis, order)
    if chunks > 1 and {*roles[:2]} in ({"leading", "result"}, {"leading", "operand"}):
        inner = roles.index("leading")
        outer, order = 1 - inner, operand if roles[1 - inner] == "result" else result
        if order is not None and len(order) == chunks * weight.shape[inner]:
            rows = [row % weight.shape[inner] for row in order.reshape(chunks, -1)]
            parts = weight.chunk(chunks, outer)
            weight = torch.cat([part.index_select(inner, row) for part, row in zip(parts, rows, strict=True)], outer)
    return weight
