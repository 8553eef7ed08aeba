"""Forms: numbers that only architectures which compute the same have alike, looked for where values are alike.

Between nodes that everything goes through, a network is a chain of pieces, most of them alike: cells. Equal pieces make
equal networks, so one of each kind is looked at. What it computes is a polynomial of random numbers, one for the
piece's input and one for each operation that has weights; nothing is assumed but that sums are sums and zero is 0, so
that equal polynomials are equal functions of equal weights. Which weights are which is told by what an operation is and
reads: its number follows from its own value. Of operations that have one value, the number of each is changed in turn:
those that change the result take names in the order of these results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from archir.ir.choices.cases import varies
from archir.ir.graph import Graph, NodeId
from archir.ir.op import Op
from archir.ir.structure import Input, Select
from archir.ir.types import TensorType
from archir.ops.activation import Identity, Zero
from archir.ops.arithmetic import Add
from archir.passes.equivalence.algebra import keeps_zero, label
from archir.search.spaces.likeness.liveness import Needs
from archir.search.spaces.likeness.steps import Codes, Step, Weighted, hashed, polynomial, written_with_weights

MOST_NODES = 512
"""Of a piece: of larger ones, canonical forms are as fast."""
CHANGED = -2
"""A number that is no name."""

Form = tuple[int, ...]
Piece = Sequence[NodeId]
"""Its nodes, the last of which is its result, after what it reads."""


class Forms:
    """The forms of a space's architectures."""

    def __init__(self, pieces: Sequence[Mapping[NodeId, Step]]) -> None:
        self._pieces = [written_with_weights(steps, max(steps)) for steps in pieces]

    def of(self, codes: Codes) -> Form:
        """The form of the architecture of these codes."""
        return tuple([self._named(result, codes) for result in self._pieces])

    @staticmethod
    def _named(result: Weighted, codes: Codes) -> int:
        """What a piece computes where each operation with weights has a number of its own."""
        weighing: list[tuple[int, NodeId]] = []
        plain = result(codes, {}, weighing)
        alike: dict[int, list[NodeId]] = {}
        for value, one in weighing:
            alike.setdefault(value, []).append(one)
        alike.pop(0, None)
        names: dict[NodeId, int] = {}
        for several in alike.values() if len(alike) < len(weighing) else ():
            if len(several) > 1:
                changed = [(result(codes, {one: CHANGED}, []), one) for one in several]
                live = sorted([(value, one) for value, one in changed if value != plain])
                names.update({one: i for i, (_, one) in enumerate(live)})
        return result(codes, names, []) if any(names.values()) else plain


def forms(needs: Needs) -> Forms | None:
    """The forms of a space's architectures; None where pieces are large, types or attributes depend on choices, or
    weights are shared."""
    graph, types = needs.graph, needs.types
    if any(varies(dim) for type_ in types.values() for dim in (type_.kind, *type_.dims)):
        return None
    scopes = Counter(graph[number].scope for number in types if _weights(graph, types, number))
    if max(scopes.values(), default=0) > 1:
        return None
    kinds: dict[object, Mapping[NodeId, Step]] = {}
    for begin, piece in _pieces(graph, types):
        if any(graph[number].op.varied for number in piece):
            return None
        if any(isinstance(graph[number].op, Select) for number in piece):
            if len(piece) > MOST_NODES:
                return None
            kinds.setdefault(_kind(graph, types, begin, piece), _steps(graph, types, begin, piece, needs.index))
    return Forms([*kinds.values()])


def _weights(graph: Graph, types: Mapping[NodeId, TensorType], number: NodeId) -> bool:
    op = graph[number].op
    return type(op).weights is not Op.weights and bool(op.weights(*_read(graph, types, number)))


def _weighs(graph: Graph, types: Mapping[NodeId, TensorType], number: NodeId) -> bool:
    """Whether an operation is one for itself, because it has weights or draws random numbers."""
    return graph[number].op.random or _weights(graph, types, number)


def _read(graph: Graph, types: Mapping[NodeId, TensorType], number: NodeId) -> list[TensorType]:
    return [types[one] for one in graph.operands(number)]


def _pieces(graph: Graph, types: Mapping[NodeId, TensorType]) -> Iterator[tuple[NodeId | None, list[NodeId]]]:
    """What a graph is a chain of: the node before each piece, which is all that it reads of what is before, and its
    nodes. The last piece has all outputs."""
    numbers = sorted(types)
    last = {one: number for number in numbers for one in graph.operands(number)}
    last |= dict.fromkeys(graph.outputs.values(), numbers[-1])
    begin, piece, far = None, list[NodeId](), numbers[0]
    for number in numbers:
        piece.append(number)
        if far <= number:
            yield begin, piece
            begin, piece = number, []
        far = max(far, last.get(number, number))
    if piece:
        yield begin, piece


def _kind(graph: Graph, types: Mapping[NodeId, TensorType], begin: NodeId | None, piece: list[NodeId]) -> object:
    """What pieces have in common that compute alike: the same choices between operations that read the same, of which
    the same ones are equal."""
    places = {number: i for i, number in enumerate(piece)}
    ends = [(name, places[one]) for name, one in graph.outputs.items() if one in places]
    equal: dict[str, int] = {}
    found: list[object] = [tuple(ends)]
    for number in piece:
        op = graph[number].op
        text = op.choice if isinstance(op, Select) else _text(graph, types, number)
        cases = op.cases if isinstance(op, Select) else ()
        reads = tuple([places.get(one, -1) for one in graph.operands(number)])
        traits = _weighs(graph, types, number), keeps_zero(op), type(op) in (Add, Identity, Zero, Input)
        named = op.choice if isinstance(op, Select) else equal.setdefault(text, len(equal))
        found.append((named, type(op).name, cases, reads, traits))
    return tuple(found)


def _text(graph: Graph, types: Mapping[NodeId, TensorType], number: NodeId) -> str:
    if isinstance(graph[number].op, Input):
        return f"input {number}"
    read = _read(graph, types, number)
    return f"{label(graph[number].op, tuple(read), types[number])} {read}"


def _steps(
    graph: Graph,
    types: Mapping[NodeId, TensorType],
    begin: NodeId | None,
    piece: list[NodeId],
    index: Mapping[str, int],
) -> Mapping[NodeId, Step]:
    """How the result of a piece comes about."""
    steps = {begin: Step(start=hashed("begin"))} if begin is not None else {}
    for number in piece:
        op, reads = graph[number].op, graph.operands(number)
        match op:
            case Select():
                steps[number] = Step(place=index[op.choice], cases=tuple([reads[case] for case in op.cases]))
            case Zero():
                steps[number] = Step()
            case Identity() | Add():
                steps[number] = Step(tuple([(one, 1) for one in reads]))
            case _:
                factors = [(one, hashed(f"operand {i}")) for i, one in enumerate(reads)]
                start = 0 if reads and keeps_zero(op) else hashed("begin with")
                plain = hashed(_text(graph, types, number))
                weighs = _weighs(graph, types, number)
                steps[number] = Step(tuple(factors), False, start, (polynomial(plain, True),), weighs=weighs)
    ends = [(one, hashed(f"output {name}")) for name, one in graph.outputs.items() if one in steps]
    if ends:
        steps[piece[-1] + 1] = Step(tuple(ends))
    return steps
