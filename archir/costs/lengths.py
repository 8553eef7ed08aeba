"""A space at texts of another length: the same operations, of which each must take it with the weights it has."""

from __future__ import annotations

from archir.costs.symbolic import Symbolic
from archir.diagnostics.errors import ArchError, Span, fail
from archir.diagrams.cases import Value, varies
from archir.ir.graph import Graph, NodeId
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.ir.typing import NodeError, lifted
from archir.passes.resize import length, resize


class Resized:
    """The costs of a graph with texts of so many tokens. Raises ArchError (A3320) for networks that take no others."""

    def __init__(self, own: Symbolic, tokens: int, roughly: bool = False) -> None:
        graph, self.tokens = own.graph, tokens
        self.graph = resize(graph, tokens) if tokens != _length(graph) else graph
        self.numbers = dict(zip(self.graph, graph, strict=True))
        """What the nodes are called in the graph as it is."""
        try:
            self.symbolic = own if self.graph is graph else Symbolic(self.graph, roughly)
        except NodeError as error:
            raise self._refused(error.error.message, self.graph[error.number].span) from None
        for number, before in self.numbers.items():
            self._check(number, own, before)

    def _check(self, number: NodeId, own: Symbolic, before: NodeId) -> None:
        """Refuse a node that would have other weights, or look up what is not there."""
        op, types = self.graph[number].op, self.symbolic.types
        if number not in types:
            return
        now = tuple([types[operand] for operand in self.graph.operands(number)])
        then = tuple([own.types[operand] for operand in own.graph.operands(before)])
        if now == then:
            return
        span = self.graph[number].span
        if type(op).weights is not Op.weights:
            needed = self.symbolic.needed[number]
            shapes = [lifted(_shapes, op, one, needed, self.graph.given) for one in (now, then)]
            if shapes[0] != shapes[1]:
                raise self._refused(f"`{op.name}` would have other weights", span)
        for operand, limit in zip(self.graph.operands(number), _limits(op, now), strict=False):
            made = _greatest(self.graph, operand, self.symbolic)
            if limit is not None and made is not None and made >= limit:
                raise self._refused(f"`{op.name}` has {limit:,} rows, of which {made:,} would be looked up", span)

    def _refused(self, text: str, span: Span | None) -> ArchError:
        many = f"{self.tokens:,} token{'s' * (self.tokens != 1)}"
        return fail("A3320", f"`{self.graph.name}` does not take {many}: {text}", span)


def _length(graph: Graph) -> int:
    try:
        return length(graph)
    except ArchError as error:
        raise fail("A3320", f"a context is of networks that read texts: {error.diagnostics[0].message}") from None


def _shapes(op: Op, *types: TensorType) -> Value:
    return tuple(weight.shape for weight in op.weights(*types).values())


def _limits(op: Op, types: tuple[TensorType, ...]) -> tuple[int | None, ...]:
    limits = op.limits(*types) if type(op).limits is not Op.limits else ()
    return tuple(None if varies(limit) else limit for limit in limits)


def _greatest(graph: Graph, number: NodeId, symbolic: Symbolic) -> int | None:
    """The greatest integer that a node makes, if it is one that makes some whose number is known."""
    op = graph[number].op
    if type(op).between is Op.between or op.varied:
        return None
    types = [symbolic.types[one] for one in (number, *graph.operands(number))]
    if any(varies(dim) for x in types for dim in x.dims[:1]):
        return None
    made = op.between(*types)
    return None if made is None else made[1]
