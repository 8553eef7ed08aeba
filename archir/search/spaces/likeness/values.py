"""Values: numbers that are the same for architectures that compute the same, and that tell what reads what.

A value is what a network computes where numbers of a prime field stand for tensors, and polynomials for operations. All
laws of canonical forms hold there: sums are sums and products are products; what is zero is 0; what moves data
multiplies by 1, and what computes number by number by a constant, so that they change places; parts put side by side
are added up, each times a power that says where it begins, and a slice is its share of them. Constants that are added
count as 0, as batch norms take them away. Other operations are squares, too, or results of sums could not be told from
sums of results; norms, which follow on such, are not, but batch norms, which make something of zeros, add a number. So
equal canonical forms have equal values; others share one by chance alone, or because values do not look at what tells
them apart.

A network of cells need not be evaluated whole. An operation with weights that every architecture has can stand for all
that is behind it: then the value of a network is a sum over such operations, equal ones count as often as they are
there, and a few of them have all choices behind them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from archir.ir.choices.cases import Value, key, leaves, varies
from archir.ir.graph import Graph, NodeId
from archir.ir.op import Op
from archir.ir.structure import Input, Select
from archir.ir.types import TensorType
from archir.ir.typing import lifted
from archir.ops.activation import Identity, Relu, Relu6, Scale, Shift, Zero
from archir.ops.arithmetic import Add, Concat, Matmul, Mul
from archir.ops.attention import Attention, AxialAttention, LocalAttention
from archir.ops.conv import Biased
from archir.ops.norm import BatchNorm
from archir.ops.pool import AdaptiveAvgPool, AvgPool, MaxPool
from archir.ops.random import Dropout, DropPath
from archir.ops.resize import PixelShuffle, PixelUnshuffle, Resize
from archir.ops.shape import ChannelShuffle, Flatten, Pad, Reshape, Slice, ToMap, ToTokens, Transpose, Upsample
from archir.ops.tokens.constant import Constant
from archir.passes.equivalence.algebra import label
from archir.passes.equivalence.movement import POINTWISE
from archir.search.spaces.likeness.chains import places as places_of
from archir.search.spaces.likeness.chains import shortened
from archir.search.spaces.likeness.liveness import Needs, upstream
from archir.search.spaces.likeness.steps import PRIME, Number, Root, Step, hashed, polynomial, written

MOST_SUPPORTS = 3
"""Sets of choices that may be behind operations that are added up: of more, their order would matter."""

MOST_LOOKS = 50
"""How often each node may be looked at to find operations that stand for what is behind them."""

_PASSED = (
    Identity, Relu, Relu6, Shift, Reshape, Flatten, Transpose, ToTokens, ToMap, ChannelShuffle, Upsample,
)  # fmt: skip
"""What multiplies by 1: it moves data, does nothing more the second time, or adds a constant."""
_FITTED = (Pad, Resize, AdaptiveAvgPool, PixelShuffle, PixelUnshuffle)
"""What does nothing where it keeps the type."""


class Values:
    """The values of a space's architectures."""

    def __init__(self, steps: Mapping[NodeId, Step], roots: Sequence[Root]) -> None:
        self.of = written(steps, roots)
        """The value of the architecture of codes."""


def values(needs: Needs) -> Values | None:
    """The values of a space's architectures. None for spaces with slices of products, which no value is kept by."""
    graph, types, needed = needs.graph, needs.types, needs.needed
    numbers = _Numbers(needs.index)
    steps: dict[NodeId, Step] = {}
    labels: dict[NodeId, Value] = {}
    seen: dict[object, int] = {}
    for number in graph:
        if number not in needed:
            continue
        op, reads = graph[number].op, graph.operands(number)
        if isinstance(op, Slice) and _of_products(graph, number):
            return None
        if isinstance(op, Constant) and not any(op.values):
            return None
        known = tuple([types[one] for one in reads])
        if not isinstance(op, (Select, Input, Zero, Add, Mul, Scale, *_PASSED)):
            label_ = seen.get((op, known))
            if label_ is None:
                label_ = lifted(_number, op, known, needed[number], graph.given)
                if not varies(label_):
                    seen[op, known] = label_
            labels[number] = label_
        steps[number] = _step(graph, number, known, needed[number], labels.get(number), numbers)
    groups: dict[int | str, list[NodeId]] = defaultdict(list)
    for i, (output, one) in enumerate(graph.outputs.items(), 1):
        steps[-i] = Step(((one, hashed(f"output {output}")),))
        groups[f"output {output}"] = [-i]
    marked = _alone(graph, labels, needed) if not needs.doubts else {}
    for one, name in marked.items():
        groups[name].append(one)
    wavering = {name for one, name in marked.items() if not _never_zero(graph, one, needs.zero)}
    cuts = {one: name for one, name in marked.items() if name not in wavering}
    network = _Network(steps, cuts, needs.zero)
    while mixed := {name for name, group in groups.items() if network.mixes(group)}:
        if network.looked > MOST_LOOKS * len(steps):
            groups = {name: group for name, group in groups.items() if isinstance(name, str)}
            mixed = {*cuts.values()}
        if mixed.isdisjoint(cuts.values()):
            break
        cuts = {one: name for one, name in cuts.items() if name not in mixed}
        network = _Network(steps, cuts, needs.zero, network.looked)
    return _chosen(network, groups, needs.alive, numbers)


class _Numbers:
    """Integers of codes, each once."""

    def __init__(self, index: Mapping[str, int]) -> None:
        self._index = index
        self._known: dict[object, Number] = {}

    def of(self, value: Value) -> int | Number:
        """A plain integer, or one that depends on codes."""
        if not varies(value):
            return int(value)
        name = key(value)
        if name not in self._known:
            self._known[name] = Number(value, self._index)
        return self._known[name]


def _step(
    graph: Graph, number: NodeId, types: tuple[TensorType, ...], needed: Value, label_: Value, numbers: _Numbers
) -> Step:
    op, reads = graph[number].op, graph.operands(number)
    if isinstance(op, Select):
        return Step(place=numbers._index[op.choice], cases=tuple([reads[case] for case in op.cases]))
    match op:
        case Input():
            return Step(start=hashed(f"input {number}"))
        case Zero():
            return Step()
        case Add():
            return Step(tuple([(one, 1) for one in reads]))
        case Mul():
            return Step(tuple([(one, 1) for one in reads]), product=True)
        case Scale(factor=factor):
            exact = Fraction(repr(float(factor)))
            return Step(((reads[0], exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME),))
        case Concat():
            factors = [lifted(_begin(i), op, types, needed, graph.given) for i in range(len(reads))]
            return Step(tuple([(one, numbers.of(k)) for one, k in zip(reads, factors, strict=True)]))
        case Slice():
            return Step(((reads[0], numbers.of(lifted(_share, op, types, needed, graph.given))),))
        case _ if isinstance(op, _PASSED):
            return Step(((reads[0], 1),))
    plain = numbers.of(label_)
    if not reads:
        return Step(start=plain) if type(plain) is int else Step(start=1, then=(polynomial(plain, False),))
    squared = isinstance(op, Biased) or (type(op).weights is Op.weights and not isinstance(op, POINTWISE))
    then = (polynomial(plain, squared),)
    if isinstance(op, Matmul | Attention | LocalAttention | AxialAttention):
        return Step(tuple([(one, 1) for one in reads[:3]]), product=True, then=then)
    start = hashed("learned") if isinstance(op, BatchNorm) else 0
    several = [(one, 1 if i == 0 else hashed(f"operand {i}")) for i, one in enumerate(reads)]
    return Step(tuple(several), start=start, then=then)


def _number(op: Op, *types: TensorType) -> int:
    """What a law does not touch, as a number: 1 for what does nothing."""
    match op:
        case Dropout(rate=0) | DropPath(rate=0) | MaxPool(kernel=1, stride=1) | AvgPool(kernel=1, stride=1):
            return 1
    result = op.infer(*types)
    if isinstance(op, _FITTED) and result == types[0]:
        return 1
    text = label(op, types, result)
    if isinstance(op, Biased):
        text = text.replace("bias=True", "bias=False")
    return hashed(f"{text} {types}" if type(op).weights is not Op.weights else text)


_BASE = hashed("a place further")


def _begin(i: int) -> Any:
    """The factor of what is put beside others, by how many places are before it."""

    def factor(op: Concat, *types: TensorType) -> int:
        axis = (op.axis if op.axis is not None else types[0].channel_axis) % types[0].rank
        return pow(_BASE, sum(one.shape[axis] for one in types[:i]), PRIME)

    return factor


def _share(op: Slice, x: TensorType) -> int:
    """The factor of a slice: slices side by side come to what they are slices of."""
    axis, start, stop = op.bounds(x)
    return (stop - start) * pow(x.shape[axis], -1, PRIME) * pow(_BASE, -start, PRIME) % PRIME


def _of_products(graph: Graph, number: NodeId) -> bool:
    """Whether a slice may be taken of a product, where laws take it of both factors."""
    read = upstream(graph, number, lambda op: type(op).weights is Op.weights)
    return any(isinstance(graph[one].op, Mul) for one in read)


def _alone(graph: Graph, labels: Mapping[NodeId, Value], needed: Mapping[NodeId, Value]) -> dict[NodeId, int]:
    """Operations that every architecture has, whose like no choice makes: with the number that says what they are."""

    def always(number: NodeId) -> bool:
        return isinstance(graph[number].op, Biased) and not varies(labels[number]) and needed[number] is True

    elsewhere = {leaf for number in labels if not always(number) for leaf in leaves(labels[number])}
    return {number: labels[number] for number in labels if always(number) and labels[number] not in elsewhere}


def _never_zero(graph: Graph, number: NodeId, zero: Mapping[NodeId, Value]) -> bool:
    return all(zero[one] is False for one in (number, *graph.operands(number)))


@dataclass(frozen=True)
class _Behind:
    """A step without names: the number of its kind, and of what it depends on the positions of choices, how many kinds
    of steps, and how many different ends."""

    kind: int
    places: frozenset[int]
    steps: int
    ends: int


class _Network:
    """Steps, where some nodes stand for all that is behind them. Steps that come to the same in every architecture are
    of one kind, whichever nodes they are of."""

    def __init__(
        self, steps: Mapping[NodeId, Step], cuts: Mapping[NodeId, int], zero: Mapping[NodeId, Value], looked: int = 0
    ) -> None:
        self.looked = looked
        self._steps, self._cuts = steps, cuts
        self._kinds: dict[Step, int] = {}
        self.kinds: dict[NodeId, Step] = {}
        self._ranks = _ranks(steps, cuts, zero)
        self._known: dict[NodeId, _Behind] = {}

    def at(self, root: NodeId) -> _Behind:
        """What is behind a node, which does not stand for it here itself."""
        if root not in self._known:
            self._known[root] = self._found(root)
        return self._known[root]

    def mixes(self, group: Sequence[NodeId]) -> bool:
        """Whether several sets of choices are behind the nodes of a group, or it takes long to tell."""
        places: set[frozenset[int]] = set()
        for one in group:
            if self.looked > MOST_LOOKS * len(self._steps):
                return True
            places.add(self.at(one).places)
        return len(places - {frozenset()}) > MOST_SUPPORTS

    def _found(self, root: NodeId) -> _Behind:
        stack, seen = [*self._steps[root].needs], {root}
        while stack:
            one = stack.pop()
            if one not in seen:
                seen.add(one)
                stack += () if one in self._cuts else self._steps[one].needs
        self.looked += len(seen)
        moved: dict[NodeId, int] = {}
        for one in [*sorted(seen - {root}), root]:
            cut = one in self._cuts and one != root
            moved[one] = self._kind(Step(start=self._stand_in(one, root)) if cut else self._steps[one], moved)
        kinds = {*moved.values()}
        places = {place for kind in kinds for place in places_of(self.kinds[kind])}
        ends = {self.kinds[kind].start for kind in kinds if not self.kinds[kind].needs} - {0}
        return _Behind(moved[root], frozenset(places), len(kinds), len(ends))

    def _stand_in(self, one: NodeId, root: NodeId) -> int:
        """The number of what stands for all behind it, and how far behind the root that is, where that is known."""
        first, last = self._ranks.get(one), self._ranks.get(root)
        if first is None or last is None:
            return self._cuts[one]
        return hashed(f"{self._cuts[one]} {last - first}")

    def _kind(self, step: Step, moved: Mapping[NodeId, int]) -> int:
        reads = tuple([(moved[one], factor) for one, factor in step.reads])
        cases = tuple([moved[one] for one in step.cases])
        if len(set(cases)) == 1:
            return cases[0]
        if len(reads) == 1 and reads[0][1] == 1 and not (step.product or step.then or step.start):
            return reads[0][0]
        step = replace(step, reads=reads, cases=cases)
        if step not in self._kinds:
            self.kinds[len(self._kinds)] = step
            self._kinds[step] = len(self._kinds)
        return self._kinds[step]


def _ranks(steps: Mapping[NodeId, Step], cuts: Mapping[NodeId, int], zero: Mapping[NodeId, Value]) -> dict[NodeId, int]:
    """How many of the nodes that stand for others are behind each other before each of them, and before outputs, where
    that is the same in all architectures, for all of the same number."""
    least, most = dict[NodeId, int](), dict[NodeId, int]()
    for number in sorted(steps, key=lambda one: (one < 0, one)):
        step = steps[number]
        if step.cases:
            least[number] = min(least[one] for one in step.cases)
            most[number] = max(most[one] for one in step.cases)
        else:
            own = number in cuts
            least[number] = own + max([least[one] for one in step.needs], default=0)
            most[number] = own + max([most[one] for one in step.needs], default=0)
        if zero.get(number, False) is not False:
            least[number] = 0
    open_ = {cuts[number] for number in cuts if least[number] != most[number]}
    return {
        number: least[number]
        for number in steps
        if least[number] == most[number] and (number < 0 or cuts.get(number, 0) not in open_)
    }


def _chosen(
    network: _Network, groups: Mapping[int | str, Sequence[NodeId]], alive: Mapping[NodeId, Value], numbers: _Numbers
) -> Values:
    """The values of few operations, or outputs, which have all choices behind them that any has."""
    behind = {name: [network.at(one) for one in group] for name, group in groups.items()}
    places = {name: frozenset[int]().union(*[one.places for one in several]) for name, several in behind.items()}
    kinds = dict(network.kinds)
    left = frozenset[int]().union(*places.values())
    roots: list[Root] = []

    def worth(name: int | str) -> float:
        different = {one.kind: one for one in behind[name]}.values()
        ends = max(one.ends for one in different)
        return len(places[name] & left) * min(ends, 3) / (1 + sum(one.steps for one in different))

    while left:
        best = max(groups, key=worth)
        times = Counter([(network.at(one).kind, numbers.of(alive.get(one, True))) for one in groups[best]])
        for (kind, there), often in times.items():
            roots.append(Root(kinds[shortened(kinds, kind)], there if isinstance(there, Number) else None, often))
        left -= places[best]
    return Values(kinds, roots)
