"""What differs between two architectures, or between two spaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import Any

from archir.diagrams.cases import Value, same
from archir.ir.graph import Constraint, Decision, Graph, NodeId
from archir.ir.printer import ValueWriter
from archir.ir.structure import Input, Select
from archir.ir.typing import infer
from archir.passes.cost import cost
from archir.spaces.architecture import Architecture, Written
from archir.spaces.space import Space


@dataclass(frozen=True)
class Difference:
    """A thing that differs: of a `kind`, in a `scope`, by a `name` in it. None stands for what is not there."""

    kind: str
    scope: str
    name: str
    before: str | None
    after: str | None


def diff_architectures(one: Written | Architecture, other: Written | Architecture) -> list[Difference]:
    """Choices that were made otherwise, or in one of the two only; nets' names and parameters, of files."""
    found: list[Difference] = []
    if one.space != other.space:
        found.append(Difference("net", "", "name", one.space, other.space))
    if isinstance(one, Written) and isinstance(other, Written):
        found += _compared("parameter", _texts(one.parameters), _texts(other.parameters))
    found += _compared("choice", _labels(one), _labels(other))
    return found


def diff_networks(one: Graph, other: Graph) -> list[Difference]:
    """How the costs of two networks differ."""
    costs = [vars(cost(graph)) for graph in (one, other)]
    before, after = ({name: f"{number:,}" for name, number in each.items()} for each in costs)
    return _compared("cost", before, after)


def diff_spaces(one: Space, other: Space) -> list[Difference]:
    """Names, parameters, sizes, choices, constraints and nodes that differ. Nodes are told by their scopes."""
    found: list[Difference] = []
    for kind, facts in _FACTS.items():
        found += _compared(kind, facts(one), facts(other))
    before, after = _nodes(one.graph), _nodes(other.graph)
    for scope in {**before, **after}:
        left, right = before.get(scope, Counter()), after.get(scope, Counter())
        for gone, new in zip_longest((left - right).elements(), (right - left).elements()):
            found.append(Difference("node", *_split(scope), *_told_apart(gone, new)))
    return found


def differing(one: Graph, other: Graph) -> int:
    """How many operations one of two networks has and the other has not, by what they are and their types."""
    here, there = (Counter(_operations(graph)) for graph in (one, other))
    return (here - there).total() + (there - here).total()


def diff_operations(one: Graph, other: Graph) -> list[Difference]:
    """The operations that one of two networks has and the other has not, those of a scope together."""
    sides = [_alone(one, other), _alone(other, one)]
    return [
        Difference("operation", scope, "", *(side.get(scope) for side in sides)) for scope in {**sides[0], **sides[1]}
    ]


def _alone(one: Graph, other: Graph) -> dict[str, str]:
    mine = _operations(one)
    left = Counter(mine) - Counter(_operations(other))
    found: dict[str, list[str]] = {}
    for number, text in zip(one, mine, strict=True):
        if left[text]:
            left[text] -= 1
            found.setdefault(one[number].scope, []).append(text)
    return {scope: "; ".join(texts) for scope, texts in found.items()}


def _operations(graph: Graph) -> list[str]:
    types = infer(graph)
    return [f"{graph[n].op.name}({', '.join(_attributes(graph, n))}) {types[n]}" for n in graph]


def _compared(kind: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[Difference]:
    pairs = {name: (before.get(name), after.get(name)) for name in {**before, **after}}
    return [Difference(kind, *_split(name), *pair) for name, pair in pairs.items() if pair[0] != pair[1]]


def _split(path: str) -> tuple[str, str]:
    scope, _, name = path.rpartition(".")
    return scope, name


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(tuple(value) if isinstance(value, list) else value) for name, value in values.items()}


def _text(value: Value) -> str:
    writer = ValueWriter()
    text = writer.write(value)
    large = [f"${number} = {definition}" for number, definition in enumerate(writer.definitions)]
    return ", ".join([text, *large])


def _labels(architecture: Written | Architecture) -> dict[str, str]:
    chosen = architecture.choices if isinstance(architecture, Written) else architecture
    return {
        path: " + ".join(map(str, label)) if isinstance(label, list) else str(label) for path, label in chosen.items()
    }


def _decision(decision: Decision) -> str:
    choice = decision.choice
    take = [] if choice.take is None else [f"{choice.take} of"]
    tags = [f"@{tag}" for tag in sorted(choice.tags)]
    active = [] if decision.active is True else [f"when {_text(decision.active)}"]
    return " ".join([*take, ", ".join(map(str, choice.alternatives)), *tags, *active])


def _constraint(constraint: Constraint) -> str:
    when = _text(constraint.condition)
    return when if constraint.cost is None else f"{constraint.relation} {_text(constraint.limit)} when {when}"


def _constraints(space: Space) -> dict[str, str]:
    found: dict[str, str] = {}
    for constraint in space.graph.constraints:
        name = f"{constraint.word} {constraint.text}"
        found[name] = ", ".join(text for text in (found.get(name), _constraint(constraint)) if text)
    return found


_FACTS: Mapping[str, Callable[[Space], dict[str, str]]] = {
    "net": lambda space: {"name": space.name},
    "parameter": lambda space: _texts(space.graph.parameters),
    "size": lambda space: {"architectures": f"{space.size:,}", "satisfying": f"{space.satisfying:,}"},
    "choice": lambda space: {decision.choice.path: _decision(decision) for decision in space.order},
    "constraint": _constraints,
}


Site = tuple[str, str]
"""An operation with its attributes, and the scopes of what it reads."""


def _nodes(graph: Graph) -> dict[str, Counter[Site]]:
    """The operations at each scope."""
    found: dict[str, Counter[Site]] = {}
    for number in graph:
        reads = ", ".join(_place(graph, operand) for operand in graph.operands(number))
        site = (f"{graph[number].op.name}({', '.join(_attributes(graph, number))})", reads)
        found.setdefault(_place(graph, number), Counter())[site] += 1
    for name, number in graph.outputs.items():
        found.setdefault(name, Counter())["output", _place(graph, number)] += 1
    return found


def _told_apart(one: Site | None, other: Site | None) -> tuple[str | None, str | None]:
    """Texts of two operations; what they read is told where it differs."""
    if one is None or other is None or one[1] == other[1]:
        return one and one[0], other and other[0]
    return f"{one[0]} of {one[1]}", f"{other[0]} of {other[1]}"


def _place(graph: Graph, number: NodeId) -> str:
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
    op = graph[number].op
    for field in fields(op):
        value = getattr(op, field.name)
        if not same(value, field.default):
            yield f"{field.name}={_text(value)}"
