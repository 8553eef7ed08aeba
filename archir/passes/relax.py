"""Choices as mixtures: every alternative at once, weighted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.diagrams.cases import Value, fix, support
from archir.diagrams.conditions import either
from archir.ir.graph import Decision, Graph, Node, NodeId
from archir.ir.structure import Mix, Select
from archir.ir.types import TensorType
from archir.ir.verify import typed
from archir.ops.activation import Zero
from archir.ops.arithmetic import Add, Mul
from archir.ops.calibration import Calibrate, DynamicConv
from archir.passes.lift import lift
from archir.passes.prune import prune

Edges = Literal["all", "weighted"]
"""What becomes of a choice that takes several: all alternatives as they are (Liu et al. 2019, DARTS, section 2.2), or
each with a weight of its own (Xu et al. 2020, PC-DARTS, section 3.3)."""

Share = tuple[tuple[str, frozenset[int]], ...]
"""A weight: a product of sums of the weights that choices have at some positions (see `Mix`), sorted by name."""


@dataclass(frozen=True, slots=True)
class Term:
    """A node of the new graph and its weight."""

    node: NodeId
    share: Share = ()


def relax(graph: Graph, paths: Collection[str] | None = None, edges: Edges = "all") -> Graph:
    """Replace choices by mixtures of their alternatives.

    `%3 = select(%1, %2) by op [0, 1]` -> `%3 = mix(%1, %2)`, the weight of %1 being that of the first outcome of `op`.
    `paths` are the choices to relax, by default all; choices of values become choices among operations first (`lift`).
    Mixtures of mixtures, and sums of mixtures, are one mixture; zeros are left out of them. A choice among kinds comes
    to a mixture for each kind and shape, which the operation that takes them all reads. Where all that a choice takes
    is added up, `edges` says how; elsewhere it is a mixture of its outcomes. Raises ArchError (A2001 to A2003) naming
    each choice that cannot be relaxed.
    """
    opened = set(graph.decisions if paths is None else paths)
    _require_plain_inputs(graph, opened)
    return _Relaxation(lift(prune(graph), opened), opened, edges).result()


@dataclass
class _Relaxation:
    """Every node of the old graph as a linear combination of nodes of the new one."""

    graph: Graph
    opened: set[str]
    edges: Edges
    problems: list[Diagnostic] = field(default_factory=list)

    def result(self) -> Graph:
        self.out = self.graph.empty()
        self.types: dict[NodeId, TensorType] = {}
        self.found: dict[NodeId, list[Term]] = {}
        self.single: dict[NodeId, NodeId] = {}
        self.zeros: dict[NodeId, NodeId] = {}
        self.old = typed(self.graph)
        self.sums = _sums(self.graph, self.opened)
        for number in self.graph:
            self.found[number] = self._combination(number)
            if len(self.graph.consumers(number)) > 1 and len(self._types(number)) == 1:
                self.found[number] = [Term(self._node(number))]
        self.out.outputs = {name: self._node(number) for name, number in self.graph.outputs.items()}
        if self.problems:
            raise ArchError(*self.problems)
        self.out.constraints = []
        used = {path for number in self.out for path in self.out[number].op.choices} | {
            op.choice for number in self.out if isinstance(op := self.out[number].op, Select)
        }
        self.out.decisions = {
            path: Decision(decision.choice, self._somewhere(decision.active))
            for path, decision in self.graph.decisions.items()
            if path in used
        }
        return prune(self.out)

    def _somewhere(self, condition: Value) -> Value:
        """Whether a condition holds for some outcomes of the relaxed choices: all of them are there at once."""
        for choice in support(condition):
            if choice.path in self.opened:
                condition = reduce(either, [fix(condition, choice, outcome) for outcome in range(choice.outcomes)])
        return condition

    def _types(self, number: NodeId) -> set[TensorType]:
        return {self.types[term.node] for term in self.found[number]}

    def _combination(self, number: NodeId) -> list[Term]:
        node, operands = self.graph[number], self.graph.operands(number)
        match node.op:
            case Select(choice=path) if path in self.opened:
                return self._alternatives(number, node.op)
            case Add() if self.old[operands[0]] == self.old[operands[1]]:
                return [*self.found[operands[0]], *self.found[operands[1]]]
            case Zero():
                self.zeros[number] = self._add(node, (self._node(operands[0]),), self.old[number])
                return []
            case Calibrate():
                return [Term(self._calibrated(number, node, operands))]
        return [Term(self._add(node, [self._node(operand) for operand in operands], self.old[number]))]

    def _alternatives(self, number: NodeId, op: Select) -> list[Term]:
        """The operands of a selection, weighted."""
        operands = self.graph.operands(number)
        taken = self.sums.get(number)
        if taken is not None:
            name = f"{op.choice}*"
            weights: list[Share] = [
                ((name, frozenset([i])),) if self.edges == "weighted" else () for i in range(len(taken))
            ]
            return [_times(term, w) for o, w in zip(taken, weights, strict=True) for term in self.found[o]]
        terms = []
        for position, operand in enumerate(operands):
            outcomes = frozenset(o for o, case in enumerate(op.cases) if case == position)
            share: Share = ((op.choice, outcomes),)
            terms += [_times(term, share) for term in self.found[operand]]
            if operand in self.zeros:
                self.zeros.setdefault(number, self.zeros[operand])
        return [term for term in terms if all(outcomes for _, outcomes in term.share)]

    def _calibrated(self, number: NodeId, node: Node, operands: Sequence[NodeId]) -> NodeId:
        """F + F * A + sum of F conv K, each of A, K and F a mixture for each shape there is.

        A single choice is what it is expected to be: F + base * A + sum of base conv K, where F has the base, too, with
        the weight of the gates and kernels. So weights that are 0 and 1 give what the choice gives.
        """
        base, *others = operands
        terms = [term for other in others for term in self.found[other]]
        groups: dict[TensorType, list[Term]] = {}
        for term in terms:
            groups.setdefault(self.types[term.node], []).append(term)
        features = [term for kind, group in groups.items() if kind.kind == "feature" for term in group]
        alone = len(others) == 1 and len(groups) > 1
        if alone:
            features += [
                _times(b, t.share) for b in self.found[base] for t in terms if self.types[t.node].kind != "feature"
            ]
        type_ = self.old[number]
        x = total = self._mixed(node, features) if features else self._node(base)
        if alone:
            x = self._node(base)
        for kind, group in groups.items():
            if kind.kind == "feature":
                continue
            factor = self._mixed(node, group)
            op = Mul() if kind.kind == "gate" else DynamicConv()
            part = self._add(Node(op, node.span, node.scope), (x, factor), type_)
            total = self._add(Node(Add(), node.span, node.scope), (total, part), type_)
        return total

    def _node(self, number: NodeId) -> NodeId:
        """The one node that stands for an old one."""
        if number not in self.single:
            terms = self.found[number]
            if not terms:
                self.single[number] = self._zero(number)
            else:
                if len(self._types(number)) > 1:
                    self._refuse(number, terms)
                    terms = terms[:1]
                self.single[number] = self._mixed(self.graph[number], terms)
        return self.single[number]

    def _zero(self, number: NodeId) -> NodeId:
        """The zeros that a node comes to: every term of it was left out."""
        if number in self.zeros:
            return self.zeros[number]
        return next(
            zero for zero in (self._zero_of(operand) for operand in self.graph.operands(number)) if zero is not None
        )

    def _zero_of(self, number: NodeId) -> NodeId | None:
        return self._zero(number) if not self.found[number] else None

    def _mixed(self, node: Node, terms: Iterable[Term]) -> NodeId:
        terms = _collected(terms)
        if len(terms) == 1 and terms[0].share == ():
            return terms[0].node
        names = sorted({name for term in terms for name, _ in term.share})
        if not self.types[terms[0].node].numeric:
            paths = ", ".join(f"`{name}`" for name in names)
            text = f"{paths} cannot be relaxed: alternatives are {self.types[terms[0].node]}, which cannot be weighted"
            self.problems.append(Diagnostic("A2001", text, node.span))
        shares = tuple(tuple(tuple(sorted(dict(term.share).get(name, ()))) for name in names) for term in terms)
        mix = Node(Mix(tuple(names), shares), node.span, node.scope)
        return self._add(mix, [term.node for term in terms], self.types[terms[0].node])

    def _add(self, node: Node, operands: Iterable[NodeId], type_: TensorType) -> NodeId:
        number = self.out.add(node, *operands)
        self.types[number] = type_
        return number

    def _refuse(self, number: NodeId, terms: Sequence[Term]) -> None:
        paths = ", ".join(
            f"`{path}`" for path in sorted({name.removesuffix("*") for t in terms for name, _ in t.share})
        )
        shapes = " and ".join(sorted({str(self.types[term.node]) for term in terms}))
        message = f"{paths} cannot be relaxed: alternatives are {shapes}, and what reads them takes one tensor"
        self.problems.append(Diagnostic("A2001", message, self.graph[number].span))


def _require_plain_inputs(graph: Graph, opened: Collection[str]) -> None:
    """Raise ArchError (A2001) if a choice that is opened decides how large an input is."""
    problems = []
    for name, number in graph.inputs.items():
        decisive = sorted(graph[number].op.choices & {*opened})
        if decisive:
            paths = ", ".join(f"`{path}`" for path in decisive)
            message = f"{paths} cannot be relaxed: the input `{name}` has one size for all alternatives of a mixture"
            hint = "hold it fixed, or search with a strategy that tries one architecture at a time"
            problems.append(Diagnostic("A2001", message, graph[number].span, hint))
    if problems:
        raise ArchError(*problems)


def _times(term: Term, share: Share) -> Term:
    """A term with a further factor. Positions of one choice in both are those it has in both."""
    factors = dict(term.share)
    for name, positions in share:
        factors[name] = factors[name] & positions if name in factors else positions
    return Term(term.node, tuple(sorted(factors.items())))


def _collected(terms: Iterable[Term]) -> list[Term]:
    """Terms of the same node together where that is a sum over one choice's positions."""
    found: dict[tuple[NodeId, tuple[str, ...]], list[Term]] = {}
    for term in terms:
        found.setdefault((term.node, tuple(name for name, _ in term.share)), []).append(term)
    result = []
    for (node, names), group in found.items():
        positions = [share[0][1] for share in (term.share for term in group) if len(share) == 1]
        if len(names) == 1 and sum(map(len, positions)) == len(frozenset().union(*positions)):
            result.append(Term(node, ((names[0], frozenset().union(*positions)),)))
        else:
            result += group
    return result


@dataclass(frozen=True, slots=True)
class _Slot:
    """One of the tensors that a choice takes: which, the selection, and the node of each alternative it may be."""

    index: int
    number: NodeId
    reads: dict[int, NodeId]


def _sums(graph: Graph, opened: Collection[str]) -> dict[NodeId, tuple[NodeId, ...]]:
    """The selections of what a choice takes, where one sum reads all of them: the first of them with the nodes of all
    alternatives, the others with none."""
    groups: dict[tuple[str, NodeId], list[_Slot]] = {}
    for number in graph:
        op = graph[number].op
        if isinstance(op, Select) and op.choice in opened and graph.decisions[op.choice].choice.take is not None:
            for index in range(graph.decisions[op.choice].choice.take or 0):
                reads = _reads(graph, number, op, index)
                if reads is not None:
                    groups.setdefault((op.choice, _sum(graph, number)), []).append(_Slot(index, number, reads))
                    break
    found: dict[NodeId, tuple[NodeId, ...]] = {}
    for (path, _), slots in groups.items():
        choice = graph.decisions[path].choice
        together = {position: node for slot in slots for position, node in slot.reads.items()}
        agree = all(slot.reads.items() <= together.items() for slot in slots)
        if agree and sorted(slot.index for slot in slots) == list(range(choice.take or 0)):
            everything = tuple(node for _, node in sorted(together.items()))
            found |= {slot.number: everything if slot.index == 0 else () for slot in slots}
    return found


def _reads(graph: Graph, number: NodeId, op: Select, index: int) -> dict[int, NodeId] | None:
    """The node of each alternative, if a selection is the one that is taken at `index`."""
    operands, reads = graph.operands(number), dict[int, NodeId]()
    for subset, case in zip(graph.decisions[op.choice].choice.subsets, op.cases, strict=True):
        if reads.setdefault(subset[index], operands[case]) != operands[case]:
            return None
    return reads


def _sum(graph: Graph, number: NodeId) -> NodeId:
    """The sum that a node is a term of: the last addition, or what takes terms of all kinds; else the node itself."""
    while len(consumers := graph.consumers(number)) == 1 and number not in graph.outputs.values():
        (consumer,) = consumers
        if isinstance(graph[consumer].op, Calibrate) and graph.operands(consumer)[0] != number:
            return consumer
        if not isinstance(graph[consumer].op, Add):
            break
        number = consumer
    return number
