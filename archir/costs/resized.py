"""Costs of a space at another sequence length.

The operations and their weights stay the same, so they must accept the new length.
"""

from __future__ import annotations

from archir.costs.symbolic import SymbolicCosts
from archir.diagnostics.errors import ArchError, Span, fail
from archir.diagrams.diagram import Value, varies
from archir.ir.graph import Graph, NodeId
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.ir.typing import NodeError, lift_rule
from archir.passes.resize import resize, token_count


class Resized:
    """Costs of a graph whose input sequences have `tokens` tokens instead of the network's own number.

    Raises ArchError (A3320) if the network does not accept that length.
    """

    def __init__(self, original: SymbolicCosts, tokens: int, approximate: bool = False) -> None:
        graph, self.tokens = original.graph, tokens
        self.graph = resize(graph, tokens) if tokens != _own_length(graph) else graph
        self.original_ids = dict(zip(self.graph, graph, strict=True))
        """For each node of the resized graph, the corresponding node of the original graph."""
        try:
            self.symbolic = original if self.graph is graph else SymbolicCosts(self.graph, approximate)
        except NodeError as error:
            raise self._length_error(error.error.message, self.graph[error.number].span) from None
        for number, original_id in self.original_ids.items():
            self._check_node(number, original, original_id)

    def _check_node(self, number: NodeId, original: SymbolicCosts, original_id: NodeId) -> None:
        """Raise ArchError (A3320) if the new length changes the shapes of a node's weights or exceeds its table."""
        op, types = self.graph[number].op, self.symbolic.types
        if number not in types:
            return
        new_types = tuple([types[operand] for operand in self.graph.operands(number)])
        old_types = tuple([original.types[operand] for operand in original.graph.operands(original_id)])
        if new_types == old_types:
            return
        span = self.graph[number].span
        if type(op).weights is not Op.weights:
            needed = self.symbolic.needed[number]
            shapes = [
                lift_rule(_weight_shapes, op, operand_types, needed, self.graph.assumptions)
                for operand_types in (new_types, old_types)
            ]
            if shapes[0] != shapes[1]:
                raise self._length_error(f"`{op.name}` would have other weights", span)
        for operand, limit in zip(self.graph.operands(number), _index_limits(op, new_types), strict=False):
            max_index = _max_integer(self.graph, operand, self.symbolic)
            if limit is not None and max_index is not None and max_index >= limit:
                raise self._length_error(
                    f"`{op.name}` has {limit:,} rows, and row {max_index:,} would be looked up", span
                )

    def _length_error(self, text: str, span: Span | None) -> ArchError:
        """Return the error (A3320) that the network does not accept the number of tokens."""
        length_text = f"{self.tokens:,} token{'s' * (self.tokens != 1)}"
        return fail("A3320", f"`{self.graph.name}` does not take {length_text}: {text}", span)


def _own_length(graph: Graph) -> int:
    """Return the sequence length of the network's input. Raises ArchError (A3320) if no input is a token sequence."""
    try:
        return token_count(graph)
    except ArchError as error:
        text = f"`context` needs a network that reads a token sequence: {error.diagnostics[0].message}"
        raise fail("A3320", text) from None


def _weight_shapes(op: Op, *types: TensorType) -> Value:
    """Return the shapes of an operation's weights."""
    return tuple(weight.shape for weight in op.weights(*types).values())


def _index_limits(op: Op, types: tuple[TensorType, ...]) -> tuple[int | None, ...]:
    """Return, for each operand, the exclusive upper bound of its integers; None if there is no constant bound."""
    limits = op.limits(*types) if type(op).limits is not Op.limits else ()
    return tuple(None if varies(limit) else limit for limit in limits)


def _max_integer(graph: Graph, number: NodeId, symbolic: SymbolicCosts) -> int | None:
    """Return the greatest integer that a node can output; None if it is unbounded or depends on choices."""
    op = graph[number].op
    if type(op).between is Op.between or op.varying_attributes:
        return None
    types = [symbolic.types[node] for node in (number, *graph.operands(number))]
    if any(varies(dim) for x in types for dim in x.dims[:1]):
        return None
    interval = op.between(*types)
    return None if interval is None else interval[1]
