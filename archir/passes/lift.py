"""Choices of values as choices among operations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from archir.diagnostics.errors import fail
from archir.diagrams.cases import Choice, Value, fix, support, when
from archir.diagrams.conditions import both
from archir.ir.graph import Graph, Node, NodeId
from archir.ir.needs import needs
from archir.ir.structure import Select
from archir.ir.verify import typed, weighs
from archir.ops.calibration import Calibrate
from archir.passes.prune import prune

MOST_VERSIONS = 256
"""Versions of one operation that are made at most."""

Assignment = tuple[int, ...]


def lift(graph: Graph, paths: Collection[str] | None = None) -> Graph:
    """Let choices select among tensors only: an operation that depends on one is there once for each outcome.

    `%1 = conv(%0, kernel=case(k: 3, 5))` -> `%1 = conv(%0, kernel=3); %2 = conv(%0, kernel=5);
    %3 = select(%1, %2) by k`. Weights are not shared: `conv` becomes `conv.k_3` and `conv.k_5`. Where a choice changes
    shapes, everything up to the first operation whose result no longer depends on it comes in versions. `paths` are the
    choices to do this for, by default all. Raises ArchError (A2002) if there would be too many versions.
    """
    graph = prune(graph)
    return _Lifting(graph, set(graph.decisions if paths is None else paths)).result()


@dataclass
class _Versions:
    """The nodes that stand for a node: one for each outcome of the choices that its type depends on."""

    choices: list[Choice]
    nodes: dict[Assignment, NodeId] = field(default_factory=dict)


class _Lifting:
    def __init__(self, graph: Graph, paths: set[str]) -> None:
        self.graph, self.paths = graph, paths
        self.out = graph.empty()
        self.types, self.needed = typed(graph), needs(graph)
        self.bundled = _bundled(graph)
        self.versions: dict[NodeId, _Versions] = {}

    def result(self) -> Graph:
        for number in self.graph:
            self.versions[number] = self._lifted(number)
        for name, number in self.graph.outputs.items():
            if self.versions[number].choices:
                paths = ", ".join(f"`{choice.path}`" for choice in self.versions[number].choices)
                raise fail("A2003", f"the shape of the output `{name}` depends on {paths}", self.graph[number].span)
            self.out.outputs[name] = self.versions[number].nodes[()]
        return prune(self.out)

    def _open(self, *values: Value) -> set[Choice]:
        return {choice for choice in support(*values) if choice.path in self.paths}

    def _lifted(self, number: NodeId) -> _Versions:
        node, operands = self.graph[number], self.graph.operands(number)
        type_ = self.types.get(number)
        kept = sorted(self._open(*type_.dims), key=_order) if type_ and number not in self.bundled else []
        involved = self._open(*node.op.varied.values()).union(*(self.versions[o].choices for o in operands), kept)
        choices = sorted(involved, key=_order)
        made: dict[Assignment, NodeId] = {}
        for known in self._combinations(number, choices):
            if len(made) == MOST_VERSIONS:
                names = ", ".join(f"`{choice.path}`" for choice in choices)
                message = f"`{node.op.name}` depends on {names} at once: more than {MOST_VERSIONS} versions of it"
                raise fail("A2002", message, node.span, "open fewer of these choices at a time")
            made[tuple(known.values())] = self._version(node, operands, known)
        found = _Versions(kept)
        for known in self._combinations(number, kept):
            joined = self._joined(number, choices, known, made)
            if joined is not None:
                found.nodes[tuple(known.values())] = joined
        return found

    def _combinations(self, number: NodeId, choices: list[Choice]) -> Iterator[dict[Choice, int]]:
        """The outcomes of choices under which a node is needed; 0 stands for a choice that is not active."""

        def walk(known: dict[Choice, int], condition: Value) -> Iterator[dict[Choice, int]]:
            if condition is False:
                return
            if len(known) == len(choices):
                yield known
                return
            choice = choices[len(known)]
            for outcome in range(choice.outcomes if self._active(choice, known) else 1):
                yield from walk({**known, choice: outcome}, both(condition, when(choice, [outcome])))

        yield from walk({}, self.needed.get(number, True))

    def _active(self, choice: Choice, known: Mapping[Choice, int]) -> bool:
        """Whether a choice may be active under these outcomes."""
        return _at(self.graph.decisions[choice.path].active, known) is not False

    def _source(self, operand: NodeId, known: Mapping[Choice, int]) -> NodeId | None:
        """The version of an operand under these outcomes; None if they rule it out."""
        wanted: dict[Choice, int] = {}
        for choice in self.versions[operand].choices:
            wanted[choice] = known[choice] if self._active(choice, wanted) else 0
        return self.versions[operand].nodes.get(tuple(wanted.values()))

    def _version(self, node: Node, operands: tuple[NodeId, ...], known: Mapping[Choice, int]) -> NodeId:
        found = [self._source(operand, known) for operand in operands]
        op = node.op
        if isinstance(op, Select):
            outcome = next((o for choice, o in known.items() if choice.path == op.choice), None)
            if outcome is not None and (chosen := found[op.cases[outcome]]) is not None:
                return chosen
            return self._selection(node, op.choice, [found[case] for case in op.cases])
        sources = [source for source in found if source is not None]
        assert len(sources) == len(operands), "what is needed has its operands"
        if op.varied and known:
            op = replace(op, **{name: _at(value, known) for name, value in op.varied.items()})
        scope = node.scope
        if known and scope and weighs(node.op, [self.types[operand] for operand in operands]):
            labels = [f"{_word(choice.path)}_{_text(choice, outcome)}" for choice, outcome in known.items()]
            scope = ".".join([scope, *labels])
        return self.out.add(Node(op, node.span, scope), *sources)

    def _joined(
        self, number: NodeId, choices: list[Choice], known: dict[Choice, int], made: Mapping[Assignment, NodeId]
    ) -> NodeId | None:
        """Selections, by the choices that are not known, of the versions that were made; None if none was."""
        left = next((choice for choice in choices if choice not in known), None)
        if left is None:
            return made.get(tuple(known[choice] for choice in choices))
        branches = [self._joined(number, choices, {**known, left: outcome}, made) for outcome in range(left.outcomes)]
        if all(branch is None for branch in branches):
            return None
        return self._selection(self.graph[number], left.path, branches)

    def _selection(self, node: Node, path: str, branches: list[NodeId | None]) -> NodeId:
        """The choice among branches; one that is ruled out may be any other."""
        distinct = list(dict.fromkeys(branch for branch in branches if branch is not None))
        if len(distinct) == 1:
            return distinct[0]
        cases = tuple(distinct.index(branch) if branch is not None else 0 for branch in branches)
        return self.out.add(Node(Select(path, cases), node.span, path), *distinct)


def _bundled(graph: Graph) -> set[NodeId]:
    """The nodes that are read only by what takes tensors of several kinds and shapes, maybe through choices."""
    found: set[NodeId] = set()
    for number in reversed(list(graph)):
        readers = graph.consumers(number)
        fits = bool(readers) and number not in graph.outputs.values()
        for reader in readers:
            takes = isinstance(graph[reader].op, Calibrate) and graph.operands(reader)[0] != number
            fits = fits and (takes or (isinstance(graph[reader].op, Select) and reader in found))
        if fits:
            found.add(number)
    return found


def _at(value: Value, known: Mapping[Choice, int]) -> Value:
    for choice, outcome in known.items():
        value = fix(value, choice, outcome)
    return value


def _order(choice: Choice) -> int:
    return choice.order


def _word(path: str) -> str:
    """The last name of a path: `stage[2].kernel` -> `kernel`."""
    return path.rpartition(".")[2].replace("[", "_").replace("]", "")


def _text(choice: Choice, outcome: int) -> str:
    """What an outcome is called in scopes: its label, of letters and digits."""
    label = choice.label(outcome)
    return re.sub(r"\W", "_", "_".join(map(str, label)) if isinstance(label, list) else str(label))
