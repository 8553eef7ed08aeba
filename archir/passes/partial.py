"""Choices that see a part of the channels."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from archir.diagnostics.errors import ArchError, Diagnostic, RuleError
from archir.ir.graph import Graph, Node, NodeId
from archir.ir.op import Op
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ir.typing import infer_op
from archir.ir.verify import typed
from archir.ops.arithmetic import Concat
from archir.ops.pool import MaxPool
from archir.ops.shape import ChannelShuffle, Slice
from archir.ops.windows import alike
from archir.passes.prune import prune

_BEGIN = -1


def partial(graph: Graph, paths: Collection[str], part: int) -> Graph:
    """Let choices among maps work on the first of `part` groups of channels; the others go past them.

    `select(f(%0), g(%0))` -> `channel_shuffle(concat(select(f(%0[:C/p]), g(%0[:C/p])), %0[C/p:]), p)`, what goes past
    being pooled where the choice is strided (Xu et al. 2020, PC-DARTS, section 3.2). Operations inside have fewer
    channels and smaller weights. Choices inside others stay as they are, as do those that take several. Raises
    ArchError (A2004) naming each choice whose alternatives are not all made of one map with as many channels.
    """
    graph = prune(graph)
    if part == 1:
        return graph
    return _Partial(graph, set(paths), part).result()


@dataclass
class _Partial:
    graph: Graph
    paths: set[str]
    part: int
    problems: list[Diagnostic] = field(default_factory=list)

    def result(self) -> Graph:
        self.types = typed(self.graph)
        self.out = self.graph.empty()
        self.moved: dict[NodeId, NodeId] = {}
        self.narrow: dict[tuple[NodeId, NodeId], NodeId] = {}
        self.kinds: dict[NodeId, TensorType] = {}
        regions = self._regions()
        inside = {number: end for end, (_, region) in regions.items() for number in region}
        for number in self.graph:
            if number in inside:
                self._add_narrow(number, inside[number], regions[inside[number]][0])
            elif number in regions:
                self.moved[number] = self._joined(number, regions[number][0])
            else:
                operands = [self.moved[operand] for operand in self.graph.operands(number)]
                self.moved[number] = self.out.add(self.graph[number], *operands)
        if self.problems:
            raise ArchError(*self.problems)
        self.out.outputs = {name: self.moved[number] for name, number in self.graph.outputs.items()}
        return prune(self.out)

    def _regions(self) -> dict[NodeId, tuple[NodeId, set[NodeId]]]:
        """For each choice, the map that all alternatives are made of, and the nodes between."""
        import networkx as nx

        ways: nx.DiGraph[NodeId] = nx.DiGraph()
        for number in self.graph:
            ways.add_edges_from((operand, number) for operand in self.graph.operands(number) or (_BEGIN,))
        before = nx.immediate_dominators(ways, _BEGIN)
        found: dict[NodeId, tuple[NodeId, set[NodeId]]] = {}
        taken: set[NodeId] = set()
        for number in reversed(list(self.graph)):  # the outer choices first
            op = self.graph[number].op
            if not isinstance(op, Select) or op.choice not in self.paths or number in taken:
                continue
            if self.graph.decisions[op.choice].choice.take is not None:
                continue
            source = before[number]
            region = self._between(source, number)
            problem = self._problem(source, number, region)
            if problem is None:
                found[number] = source, region
                taken |= region
            elif not any(d.span == self.graph[number].span for d in self.problems):
                message = f"`{op.choice}` cannot work on a part of the channels: {problem}"
                self.problems.append(Diagnostic("A2004", message, self.graph[number].span))
        return found

    def _between(self, source: NodeId, end: NodeId) -> set[NodeId]:
        found: set[NodeId] = set()
        stack = [operand for operand in self.graph.operands(end) if operand != source]
        while stack:
            number = stack.pop()
            if number not in found:
                found.add(number)
                stack += [operand for operand in self.graph.operands(number) if operand != source]
        return found

    def _problem(self, source: NodeId, end: NodeId, region: set[NodeId]) -> str | None:
        """What is in the way, if anything is."""
        if source == _BEGIN:
            return "its alternatives are not made of one map"
        x, y = self.types[source], self.types[end]
        if x.varied or y.varied or x.rank != 3 or y.rank != 3 or x.channels != y.channels:
            return f"it makes {y} of {x}"
        if x.channels % self.part:
            return f"{x.channels} channels do not divide by {self.part}"
        if x.shape[1] % y.shape[1] or x.shape[1] // y.shape[1] != x.shape[2] // y.shape[2]:
            return f"it makes {y} of {x}"
        if any(reader not in region and reader != end for n in region for reader in self.graph.consumers(n)):
            return "something else reads a part of its alternatives"
        return None

    def _add(self, op: Op, like: Node, *operands: NodeId) -> NodeId:
        number = self.out.add(Node(op, like.span, like.scope), *operands)
        if isinstance(op, Select):
            self.kinds[number] = self.kinds[operands[0]]
        else:
            self.kinds[number] = infer_op(op, [self.kinds[operand] for operand in operands])
        return number

    def _sliced(self, source: NodeId, like: Node, start: int, stop: int | None) -> NodeId:
        whole = self.moved[source]
        self.kinds[whole] = self.types[source]
        return self._add(Slice(start=start, stop=stop), Node(like.op, like.span, ""), whole)

    def _first(self, source: NodeId, end: NodeId) -> NodeId:
        """The channels that a choice sees."""
        if (source, end) not in self.narrow:
            width = self.types[source].shape[0] // self.part
            self.narrow[source, end] = self._sliced(source, self.graph[end], 0, width)
        return self.narrow[source, end]

    def _add_narrow(self, number: NodeId, end: NodeId, source: NodeId) -> None:
        node = self.graph[number]
        operands = [
            self._first(source, end) if operand == source else self.narrow[operand, end]
            for operand in self.graph.operands(number)
        ]
        try:
            self.narrow[number, end] = self._add(node.op.narrowed(self.part), node, *operands)
        except RuleError as error:
            path = self.graph[end].op.choices or {getattr(self.graph[end].op, "choice", "")}
            message = f"`{', '.join(path)}` cannot work on a part of the channels: {error.message}"
            self.problems.append(Diagnostic("A2004", message, node.span))
            self.narrow[number, end] = self._first(source, end)

    def _joined(self, number: NodeId, source: NodeId) -> NodeId:
        """What was chosen beside what went past, dealt out."""
        node, x, y = self.graph[number], self.types[source], self.types[number]
        chosen = [
            self._first(source, number) if operand == source else self.narrow[operand, number]
            for operand in self.graph.operands(number)
        ]
        wanted = y.with_dims(y.shape[0] // self.part, *y.shape[1:])
        if any(self.kinds[one] != wanted for one in chosen) and not self.problems:
            message = f"`{node.scope}` cannot work on a part of the channels: an alternative is not {wanted} then"
            self.problems.append(Diagnostic("A2004", message, node.span))
            return self.moved[source]
        if self.problems:
            return self.moved[source]
        plain = Node(node.op, node.span, "")
        seen = self._add(node.op, node, *chosen)
        past = self._sliced(source, node, x.shape[0] // self.part, None)
        strides = tuple(before // after for before, after in zip(x.spatial, y.spatial, strict=True))
        if max(strides) > 1:
            stride = alike(strides)
            past = self._add(MaxPool(kernel=stride, stride=stride, padding="valid"), plain, past)
        return self._add(ChannelShuffle(self.part), plain, self._add(Concat(), plain, seen, past))
