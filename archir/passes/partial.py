"""Partial channel connections: choices that process only a fraction of the channels (PC-DARTS)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from archir.diagnostics.errors import ArchError, Diagnostic, RuleError
from archir.ir.graph import Graph, Node, NodeId
from archir.ir.op import Op
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ir.typing import infer_op
from archir.ir.verify import checked_types
from archir.ops.arithmetic import Concat
from archir.ops.pool import MaxPool
from archir.ops.shape import ChannelShuffle, Slice
from archir.ops.windows import collapse_sizes
from archir.passes.dominators import ROOT, immediate_dominators
from archir.passes.prune import prune


def partial(graph: Graph, paths: Collection[str], part: int) -> Graph:
    """Restrict choices among maps to the first 1 / `part` of the channels; the other channels bypass the choice.

    `select(f(%0), g(%0))` -> `channel_shuffle(concat(select(f(%0[:C/p]), g(%0[:C/p])), %0[C/p:]), p)`. If the choice is
    strided, the bypass is max-pooled (Xu et al. 2020, PC-DARTS, section 3.2). The operations of the alternatives become
    narrower, and so do their weights. Choices nested in other choices, and choices that take several alternatives, stay
    unchanged. Raises ArchError (A2004) for each choice unless all of its alternatives start from one map and keep the
    number of channels.
    """
    graph = prune(graph)
    if part == 1:
        return graph
    return _Partial(graph, set(paths), part).result()


@dataclass
class _Partial:
    """One run of `partial`: the old graph, the new graph under construction, and the problems found.

    `copies` maps nodes outside of the rewritten choices to their copies; `narrow` maps a pair of a node and the
    rewritten choice that contains it to the node's narrow copy.
    """

    graph: Graph
    paths: set[str]
    part: int
    problems: list[Diagnostic] = field(default_factory=list)

    def result(self) -> Graph:
        """Return the rewritten graph. Raises ArchError (A2004) with all problems."""
        self.types = checked_types(self.graph)
        self.out = self.graph.empty_copy()
        self.copies: dict[NodeId, NodeId] = {}
        self.narrow: dict[tuple[NodeId, NodeId], NodeId] = {}
        self.new_types: dict[NodeId, TensorType] = {}
        regions = self._regions()
        inside = {number: end for end, (_, region) in regions.items() for number in region}
        for number in self.graph:
            if number in inside:
                self._add_narrow(number, inside[number], regions[inside[number]][0])
            elif number in regions:
                self.copies[number] = self._add_merged(number, regions[number][0])
            else:
                operands = [self.copies[operand] for operand in self.graph.operands(number)]
                self.copies[number] = self.out.add(self.graph[number], *operands)
        if self.problems:
            raise ArchError(*self.problems)
        self.out.outputs = {name: self.copies[number] for name, number in self.graph.outputs.items()}
        return prune(self.out)

    def _regions(self) -> dict[NodeId, tuple[NodeId, set[NodeId]]]:
        """Return, for each choice to rewrite, the map that all alternatives start from and the nodes in between."""
        dominators = immediate_dominators(self.graph)
        regions: dict[NodeId, tuple[NodeId, set[NodeId]]] = {}
        covered: set[NodeId] = set()
        for number in reversed(list(self.graph)):  # outer choices first
            op = self.graph[number].op
            if not isinstance(op, Select) or op.choice not in self.paths or number in covered:
                continue
            if self.graph.decisions[op.choice].choice.k is not None:
                continue
            source = dominators[number]
            region = self._between(source, number)
            problem = self._obstacle(source, number, region)
            if problem is None:
                regions[number] = source, region
                covered |= region
            elif not any(d.span == self.graph[number].span for d in self.problems):
                message = f"`{op.choice}` cannot work on a part of the channels: {problem}"
                self.problems.append(Diagnostic("A2004", message, self.graph[number].span))
        return regions

    def _between(self, source: NodeId, end: NodeId) -> set[NodeId]:
        """Return the nodes on paths from `source` to `end`, excluding both."""
        between: set[NodeId] = set()
        stack = [operand for operand in self.graph.operands(end) if operand != source]
        while stack:
            number = stack.pop()
            if number not in between:
                between.add(number)
                stack += [operand for operand in self.graph.operands(number) if operand != source]
        return between

    def _obstacle(self, source: NodeId, end: NodeId, region: set[NodeId]) -> str | None:
        """Return the reason why a choice cannot be restricted to a fraction of the channels; None if it can."""
        if source == ROOT:
            return "its alternatives do not all start from one map"
        x, y = self.types[source], self.types[end]
        if x.is_varying or y.is_varying or x.rank != 3 or y.rank != 3 or x.channels != y.channels:
            return f"it turns {x} into {y}"
        if x.channels % self.part:
            return f"{x.channels} channels do not divide by {self.part}"
        if x.shape[1] % y.shape[1] or x.shape[1] // y.shape[1] != x.shape[2] // y.shape[2]:
            return f"it turns {x} into {y}"
        if any(reader not in region and reader != end for n in region for reader in self.graph.consumers(n)):
            return "a node outside of the choice reads a node of its alternatives"
        return None

    def _add(self, op: Op, template: Node, *operands: NodeId) -> NodeId:
        """Append an operation to the new graph, with the span and scope of the node `template`, and infer its type."""
        number = self.out.add(Node(op, template.span, template.scope), *operands)
        if isinstance(op, Select):
            self.new_types[number] = self.new_types[operands[0]]
        else:
            self.new_types[number] = infer_op(op, [self.new_types[operand] for operand in operands])
        return number

    def _channel_slice(self, source: NodeId, template: Node, start: int, stop: int | None) -> NodeId:
        """Append a slice of the channels of `source`, from `start` to `stop`."""
        full = self.copies[source]
        self.new_types[full] = self.types[source]
        return self._add(Slice(start=start, stop=stop), Node(template.op, template.span, ""), full)

    def _processed_slice(self, source: NodeId, end: NodeId) -> NodeId:
        """Return the slice of `source` with the channels that the choice `end` processes.

        The slice is appended on the first call.
        """
        if (source, end) not in self.narrow:
            width = self.types[source].shape[0] // self.part
            self.narrow[source, end] = self._channel_slice(source, self.graph[end], 0, width)
        return self.narrow[source, end]

    def _add_narrow(self, number: NodeId, end: NodeId, source: NodeId) -> None:
        """Append the narrow copy of a node that belongs to the choice `end`.

        If the node's number of channels is not divisible, a problem is recorded instead.
        """
        node = self.graph[number]
        operands = [
            self._processed_slice(source, end) if operand == source else self.narrow[operand, end]
            for operand in self.graph.operands(number)
        ]
        try:
            self.narrow[number, end] = self._add(node.op.narrowed(self.part), node, *operands)
        except RuleError as error:
            select = self.graph[end].op
            assert isinstance(select, Select)
            message = f"`{select.choice}` cannot work on a part of the channels: {error.message}"
            self.problems.append(Diagnostic("A2004", message, node.span))
            self.narrow[number, end] = self._processed_slice(source, end)

    def _add_merged(self, number: NodeId, source: NodeId) -> NodeId:
        """Append the narrow choice, its bypass, their concatenation, and a channel shuffle; return the shuffle."""
        node, x, y = self.graph[number], self.types[source], self.types[number]
        alternatives = [
            self._processed_slice(source, number) if operand == source else self.narrow[operand, number]
            for operand in self.graph.operands(number)
        ]
        expected = y.with_dims(y.shape[0] // self.part, *y.shape[1:])
        if any(self.new_types[alternative] != expected for alternative in alternatives) and not self.problems:
            message = f"`{node.scope}` cannot work on a part of the channels: an alternative would not be {expected}"
            self.problems.append(Diagnostic("A2004", message, node.span))
            return self.copies[source]
        if self.problems:
            return self.copies[source]
        plain = Node(node.op, node.span, "")
        processed = self._add(node.op, node, *alternatives)
        bypass = self._channel_slice(source, node, x.shape[0] // self.part, None)
        axis_strides = tuple(size // reduced for size, reduced in zip(x.spatial, y.spatial, strict=True))
        if max(axis_strides) > 1:
            stride = collapse_sizes(axis_strides)
            bypass = self._add(MaxPool(kernel=stride, stride=stride, padding="valid"), plain, bypass)
        return self._add(ChannelShuffle(self.part), plain, self._add(Concat(), plain, processed, bypass))
