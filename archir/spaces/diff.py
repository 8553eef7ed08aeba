"""Differences between two architectures, between two networks, or between two spaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import Any

from archir.diagrams.diagram import Value, same
from archir.ir.graph import Constraint, Decision, Graph, NodeId
from archir.ir.printer import ValueWriter
from archir.ir.structure import Input, Select
from archir.ir.typing import infer
from archir.passes.cost import cost
from archir.spaces.architecture import Architecture, ArchitectureFile
from archir.spaces.space import Space


@dataclass(frozen=True)
class Difference:
    """One difference: the value called `name` in `scope`, before and after; None if it is absent.

    `kind` says what differs, such as `choice` or `cost`.
    """

    kind: str
    scope: str
    name: str
    before: str | None
    after: str | None


def diff_architectures(
    first: ArchitectureFile | Architecture, second: ArchitectureFile | Architecture
) -> list[Difference]:
    """Return the differences between two architectures: differing choices, and choices that only one of them has.

    Net names are compared, too; parameters only if both architectures come from files.
    """
    differences: list[Difference] = []
    if first.space != second.space:
        differences.append(Difference("net", "", "name", first.space, second.space))
    if isinstance(first, ArchitectureFile) and isinstance(second, ArchitectureFile):
        differences += _changes("parameter", _texts(first.parameters), _texts(second.parameters))
    differences += _changes("choice", _labels(first), _labels(second))
    return differences


def diff_networks(first: Graph, second: Graph) -> list[Difference]:
    """Return the costs that differ between two networks."""
    costs = [vars(cost(graph)) for graph in (first, second)]
    before, after = ({name: f"{number:,}" for name, number in each.items()} for each in costs)
    return _changes("cost", before, after)


def diff_spaces(first: Space, second: Space) -> list[Difference]:
    """Return the differences between two spaces: name, parameters, sizes, choices, constraints and nodes.

    Nodes are matched by their scopes.
    """
    differences: list[Difference] = []
    for kind, values_of in _VALUES_BY_KIND.items():
        differences += _changes(kind, values_of(first), values_of(second))
    before, after = _nodes(first.graph), _nodes(second.graph)
    for scope in {**before, **after}:
        left, right = before.get(scope, Counter()), after.get(scope, Counter())
        for removed, added in zip_longest((left - right).elements(), (right - left).elements()):
            differences.append(Difference("node", *_split(scope), *_pair_text(removed, added)))
    return differences


def count_differing_operations(first: Graph, second: Graph) -> int:
    """Return the number of operations that only one of two networks has.

    Equal operations have equal attributes and types.
    """
    first_operations, second_operations = (Counter(_operations(graph)) for graph in (first, second))
    return (first_operations - second_operations).total() + (second_operations - first_operations).total()


def diff_operations(first: Graph, second: Graph) -> list[Difference]:
    """Return the operations that only one of two networks has, with one difference per scope."""
    sides = [_only_in_first(first, second), _only_in_first(second, first)]
    return [
        Difference("operation", scope, "", *(side.get(scope) for side in sides)) for scope in {**sides[0], **sides[1]}
    ]


def _only_in_first(first: Graph, second: Graph) -> dict[str, str]:
    """Return the operations that only the first network has, as one text per scope."""
    first_operations = _operations(first)
    remaining = Counter(first_operations) - Counter(_operations(second))
    texts_by_scope: dict[str, list[str]] = {}
    for number, text in zip(first, first_operations, strict=True):
        if remaining[text]:
            remaining[text] -= 1
            texts_by_scope.setdefault(first[number].scope, []).append(text)
    return {scope: "; ".join(texts) for scope, texts in texts_by_scope.items()}


def _operations(graph: Graph) -> list[str]:
    """Return the operations of a graph as text, with their attributes and types."""
    types = infer(graph)
    return [f"{graph[n].op.name}({', '.join(_attributes(graph, n))}) {types[n]}" for n in graph]


def _changes(kind: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[Difference]:
    """Return the differences between two mappings from paths to texts."""
    pairs = {name: (before.get(name), after.get(name)) for name in {**before, **after}}
    return [Difference(kind, *_split(name), *pair) for name, pair in pairs.items() if pair[0] != pair[1]]


def _split(path: str) -> tuple[str, str]:
    """Split a path into its scope and its last component."""
    scope, _, name = path.rpartition(".")
    return scope, name


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return parameter values as texts, by name."""
    return {name: _text(tuple(value) if isinstance(value, list) else value) for name, value in values.items()}


def _text(value: Value) -> str:
    """Return a value as text; shared parts of large diagrams are written as definitions after it."""
    writer = ValueWriter()
    text = writer.write(value)
    large = [f"${number} = {definition}" for number, definition in enumerate(writer.definitions)]
    return ", ".join([text, *large])


def _labels(architecture: ArchitectureFile | Architecture) -> dict[str, str]:
    """Return the labels of an architecture as texts, by path."""
    chosen = architecture.choices if isinstance(architecture, ArchitectureFile) else architecture
    return {
        path: " + ".join(map(str, label)) if isinstance(label, list) else str(label) for path, label in chosen.items()
    }


def _decision(decision: Decision) -> str:
    """Return a choice as text: its alternatives, its tags, and the condition under which it is active."""
    choice = decision.choice
    take = [] if choice.k is None else [f"{choice.k} of"]
    tags = [f"@{tag}" for tag in sorted(choice.tags)]
    active = [] if decision.active is True else [f"when {_text(decision.active)}"]
    return " ".join([*take, ", ".join(map(str, choice.alternatives)), *tags, *active])


def _constraint(constraint: Constraint) -> str:
    """Return the condition of a constraint as text."""
    when = _text(constraint.condition)
    return when if constraint.cost is None else f"{constraint.relation} {_text(constraint.limit)} when {when}"


def _constraints(space: Space) -> dict[str, str]:
    """Return the conditions of constraints as texts, by the text of the constraint in the program."""
    conditions: dict[str, str] = {}
    for constraint in space.graph.constraints:
        name = f"{constraint.keyword} {constraint.text}"
        conditions[name] = ", ".join(text for text in (conditions.get(name), _constraint(constraint)) if text)
    return conditions


_VALUES_BY_KIND: Mapping[str, Callable[[Space], dict[str, str]]] = {
    "net": lambda space: {"name": space.name},
    "parameter": lambda space: _texts(space.graph.parameters),
    "size": lambda space: {"architectures": f"{space.size:,}", "satisfying": f"{space.satisfying:,}"},
    "choice": lambda space: {decision.choice.path: _decision(decision) for decision in space.order},
    "constraint": _constraints,
}
"""For each kind of difference, a function that returns the compared values of a space, by name."""


OperationText = tuple[str, str]
"""Two texts: an operation with its attributes, and the scopes of its operands."""


def _nodes(graph: Graph) -> dict[str, Counter[OperationText]]:
    """Return the operations in each scope."""
    operations: dict[str, Counter[OperationText]] = {}
    for number in graph:
        reads = ", ".join(_scope_of(graph, operand) for operand in graph.operands(number))
        site = (f"{graph[number].op.name}({', '.join(_attributes(graph, number))})", reads)
        operations.setdefault(_scope_of(graph, number), Counter())[site] += 1
    for name, number in graph.outputs.items():
        operations.setdefault(name, Counter())["output", _scope_of(graph, number)] += 1
    return operations


def _pair_text(first: OperationText | None, second: OperationText | None) -> tuple[str | None, str | None]:
    """Return two operations as texts; the scopes of their operands are included only if they differ."""
    if first is None or second is None or first[1] == second[1]:
        return first and first[0], second and second[0]
    return f"{first[0]} of {first[1]}", f"{second[0]} of {second[1]}"


def _scope_of(graph: Graph, number: NodeId) -> str:
    """Return the scope of a node.

    For a node without scope, return the label of an input, the choice of a `select`, or the name of the operation.
    """
    node = graph[number]
    if node.scope:
        return node.scope
    match node.op:
        case Input(label=label):
            return label
        case Select(choice=choice):
            return choice
    return node.op.name


def _attributes(graph: Graph, number: NodeId) -> Iterator[str]:
    """Yield the attributes of an operation that differ from their defaults, as text."""
    op = graph[number].op
    for field in fields(op):
        value = getattr(op, field.name)
        if not same(value, field.default):
            yield f"{field.name}={_text(value)}"
