"""Continuous relaxation: replaces choices by mixtures, i.e. weighted sums of all alternatives."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.diagrams.conditions import disjoin
from archir.diagrams.diagram import Value, fix_choice, support
from archir.ir.graph import Decision, Graph, Node, NodeId
from archir.ir.structure import Mix, Select
from archir.ir.types import TensorType
from archir.ir.verify import checked_types
from archir.ops.activation import Zero
from archir.ops.arithmetic import Add, Mul
from archir.ops.calibration import Calibrate, DynamicConv
from archir.passes.lift import lift
from archir.passes.prune import prune

Edges = Literal["all", "weighted"]
"""How to relax a choice of several alternatives whose tensors are added up.

`all` adds all alternatives without weights (Liu et al. 2019, DARTS, section 2.2). `weighted` gives each alternative a
weight (Xu et al. 2020, PC-DARTS, section 3.3).
"""

Share = tuple[tuple[str, frozenset[int]], ...]
"""Weight of a term, as a product of factors, sorted by the name of their choice.

Each factor is the sum of a choice's architecture weights at some indices (see `Mix`).
"""


@dataclass(frozen=True, slots=True)
class Term:
    """A summand of a linear combination: a node of the new graph, with its weight."""

    node: NodeId
    share: Share = ()


def relax(graph: Graph, paths: Collection[str] | None = None, edges: Edges = "all") -> Graph:
    """Replace choices by mixtures of their alternatives.

    `%3 = select(%1, %2) by op [0, 1]` -> `%3 = mix(%1, %2)`, where the weight of %1 is that of the first outcome of
    `op`. `paths` are the choices to relax; by default, all. Choices of values are first turned into choices among
    operations (`lift`). Nested mixtures and sums of mixtures are flattened into one mixture, without zero terms. A
    choice among kinds becomes one mixture for each kind and shape, and the operation that reads the choice reads all of
    these mixtures. `edges` says how to relax a choice of several alternatives whose tensors are all added up;
    otherwise, such a choice becomes a mixture over its outcomes. Raises ArchError (A2001 to A2003) for each choice that
    cannot be relaxed.
    """
    opened = set(graph.decisions if paths is None else paths)
    _check_inputs(graph, opened)
    return _Relaxation(lift(prune(graph), opened), opened, edges).result()


@dataclass
class _Relaxation:
    """One run of `relax`, which expresses each old node as a linear combination of nodes of the new graph."""

    graph: Graph
    relaxed: set[str]
    edges: Edges
    problems: list[Diagnostic] = field(default_factory=list)

    def result(self) -> Graph:
        """Return the relaxed graph. Raises ArchError (A2001) with all problems."""
        self.out = self.graph.empty_copy()
        self.types: dict[NodeId, TensorType] = {}
        self.terms: dict[NodeId, list[Term]] = {}
        self.copies: dict[NodeId, NodeId] = {}
        self.zeros: dict[NodeId, NodeId] = {}
        self.old_types = checked_types(self.graph)
        self.sums = _sums(self.graph, self.relaxed)
        for number in self.graph:
            self.terms[number] = self._combination(number)
            if len(self.graph.consumers(number)) > 1 and len(self._types(number)) == 1:
                self.terms[number] = [Term(self._copy(number))]
        self.out.outputs = {name: self._copy(number) for name, number in self.graph.outputs.items()}
        if self.problems:
            raise ArchError(*self.problems)
        self.out.constraints = []
        used = {path for number in self.out for path in self.out[number].op.choices} | {
            op.choice for number in self.out if isinstance(op := self.out[number].op, Select)
        }
        self.out.decisions = {
            path: Decision(decision.choice, self._satisfiable(decision.active))
            for path, decision in self.graph.decisions.items()
            if path in used
        }
        return prune(self.out)

    def _satisfiable(self, condition: Value) -> Value:
        """Return a condition that holds if `condition` holds for some outcomes of the relaxed choices.

        In the relaxed graph, all alternatives of these choices exist at the same time.
        """
        for choice in support(condition):
            if choice.path in self.relaxed:
                condition = reduce(
                    disjoin, [fix_choice(condition, choice, outcome) for outcome in range(choice.outcome_count)]
                )
        return condition

    def _types(self, number: NodeId) -> set[TensorType]:
        """Return the types of the terms in the linear combination that an old node equals."""
        return {self.types[term.node] for term in self.terms[number]}

    def _combination(self, number: NodeId) -> list[Term]:
        """Return the terms of the linear combination of new nodes that an old node equals."""
        node, operands = self.graph[number], self.graph.operands(number)
        match node.op:
            case Select(choice=path) if path in self.relaxed:
                return self._weighted_alternatives(number, node.op)
            case Add() if self.old_types[operands[0]] == self.old_types[operands[1]]:
                return [*self.terms[operands[0]], *self.terms[operands[1]]]
            case Zero():
                self.zeros[number] = self._add(node, (self._copy(operands[0]),), self.old_types[number])
                return []
            case Calibrate():
                return [Term(self._calibrated(number, node, operands))]
        return [Term(self._add(node, [self._copy(operand) for operand in operands], self.old_types[number]))]

    def _weighted_alternatives(self, number: NodeId, op: Select) -> list[Term]:
        """Return the terms of a relaxed `select`: those of each operand, times the weight of its outcomes."""
        operands = self.graph.operands(number)
        summands = self.sums.get(number)
        if summands is not None:
            name = f"{op.choice}*"
            weights: list[Share] = [
                ((name, frozenset([i])),) if self.edges == "weighted" else () for i in range(len(summands))
            ]
            return [_scaled(term, w) for o, w in zip(summands, weights, strict=True) for term in self.terms[o]]
        terms = []
        for position, operand in enumerate(operands):
            outcomes = frozenset(o for o, case in enumerate(op.cases) if case == position)
            share: Share = ((op.choice, outcomes),)
            terms += [_scaled(term, share) for term in self.terms[operand]]
            if operand in self.zeros:
                self.zeros.setdefault(number, self.zeros[operand])
        return [term for term in terms if all(outcomes for _, outcomes in term.share)]

    def _calibrated(self, number: NodeId, node: Node, operands: Sequence[NodeId]) -> NodeId:
        """Append F + F * A + sum of F conv K and return its node.

        F, A and K are mixtures of the features, gates and kernels. There is one mixture for each kind and shape. If the
        only operand besides the base is a choice among kinds, the result is the expectation over this choice, F + base
        * A + sum of base conv K, where the features F also include the base weighted by the gates and kernels. With
        weights of 0 and 1, this equals the result for the selected alternative.
        """
        base, *others = operands
        terms = [term for other in others for term in self.terms[other]]
        groups: dict[TensorType, list[Term]] = {}
        for term in terms:
            groups.setdefault(self.types[term.node], []).append(term)
        features = [term for kind, group in groups.items() if kind.kind == "feature" for term in group]
        is_mixed_choice = len(others) == 1 and len(groups) > 1
        if is_mixed_choice:
            features += [
                _scaled(b, t.share) for b in self.terms[base] for t in terms if self.types[t.node].kind != "feature"
            ]
        type_ = self.old_types[number]
        x = total = self._mixed(node, features) if features else self._copy(base)
        if is_mixed_choice:
            x = self._copy(base)
        for kind, group in groups.items():
            if kind.kind == "feature":
                continue
            factor = self._mixed(node, group)
            op = Mul() if kind.kind == "gate" else DynamicConv()
            part = self._add(Node(op, node.span, node.scope), (x, factor), type_)
            total = self._add(Node(Add(), node.span, node.scope), (total, part), type_)
        return total

    def _copy(self, number: NodeId) -> NodeId:
        """Return the new graph's node that computes an old node.

        Records a problem (A2001) if the terms of the old node differ in type, so that they cannot be added.
        """
        if number not in self.copies:
            terms = self.terms[number]
            if not terms:
                self.copies[number] = self._zero(number)
            else:
                if len(self._types(number)) > 1:
                    self._report_types(number, terms)
                    terms = terms[:1]
                self.copies[number] = self._mixed(self.graph[number], terms)
        return self.copies[number]

    def _zero(self, number: NodeId) -> NodeId:
        """Return a zero tensor for a node that equals a sum without terms."""
        if number in self.zeros:
            return self.zeros[number]
        return next(
            zero for zero in (self._zero_of(operand) for operand in self.graph.operands(number)) if zero is not None
        )

    def _zero_of(self, number: NodeId) -> NodeId | None:
        """Return the zero tensor of a node if its sum has no terms; None if it has terms."""
        return self._zero(number) if not self.terms[number] else None

    def _mixed(self, node: Node, terms: Iterable[Term]) -> NodeId:
        """Append a mixture of terms and return it; a single term without weight is returned as its node.

        Records a problem (A2001) if the terms are integers.
        """
        terms = _combine_terms(terms)
        if len(terms) == 1 and terms[0].share == ():
            return terms[0].node
        names = sorted({name for term in terms for name, _ in term.share})
        if not self.types[terms[0].node].is_floating:
            paths = ", ".join(f"`{name}`" for name in names)
            text = f"{paths} cannot be relaxed: alternatives are {self.types[terms[0].node]}, not floating-point"
            self.problems.append(Diagnostic("A2001", text, node.span))
        shares = tuple(tuple(tuple(sorted(dict(term.share).get(name, ()))) for name in names) for term in terms)
        mix = Node(Mix(tuple(names), shares), node.span, node.scope)
        return self._add(mix, [term.node for term in terms], self.types[terms[0].node])

    def _add(self, node: Node, operands: Iterable[NodeId], type_: TensorType) -> NodeId:
        """Append a node to the new graph and record its type."""
        number = self.out.add(node, *operands)
        self.types[number] = type_
        return number

    def _report_types(self, number: NodeId, terms: Sequence[Term]) -> None:
        """Record a problem (A2001): alternatives differ in type, but the operation that reads them takes one tensor."""
        paths = ", ".join(
            f"`{path}`" for path in sorted({name.removesuffix("*") for t in terms for name, _ in t.share})
        )
        shapes = " and ".join(sorted({str(self.types[term.node]) for term in terms}))
        message = f"{paths} cannot be relaxed: alternatives are {shapes}, and their consumer takes one tensor"
        self.problems.append(Diagnostic("A2001", message, self.graph[number].span))


def _check_inputs(graph: Graph, relaxed: Collection[str]) -> None:
    """Raise ArchError (A2001) if the size of an input depends on a choice that is to be relaxed."""
    problems = []
    for name, number in graph.inputs.items():
        dependencies = sorted(graph[number].op.choices & {*relaxed})
        if dependencies:
            paths = ", ".join(f"`{path}`" for path in dependencies)
            message = f"{paths} cannot be relaxed: the input `{name}` has one size for all alternatives of a mixture"
            hint = "fix the choice, or search with a strategy that tries one architecture at a time"
            problems.append(Diagnostic("A2001", message, graph[number].span, hint))
    if problems:
        raise ArchError(*problems)


def _scaled(term: Term, share: Share) -> Term:
    """Return a term with its weight multiplied by `share`.

    If the term's weight and `share` both have a factor for the same choice, the indices of these factors are
    intersected.
    """
    factors = dict(term.share)
    for name, positions in share:
        factors[name] = factors[name] & positions if name in factors else positions
    return Term(term.node, tuple(sorted(factors.items())))


def _combine_terms(terms: Iterable[Term]) -> list[Term]:
    """Merge terms of the same node if their weights are sums over disjoint indices of the same choice."""
    groups: dict[tuple[NodeId, tuple[str, ...]], list[Term]] = {}
    for term in terms:
        groups.setdefault((term.node, tuple(name for name, _ in term.share)), []).append(term)
    result = []
    for (node, names), group in groups.items():
        positions = [share[0][1] for share in (term.share for term in group) if len(share) == 1]
        if len(names) == 1 and sum(map(len, positions)) == len(frozenset().union(*positions)):
            result.append(Term(node, ((names[0], frozenset().union(*positions)),)))
        else:
            result += group
    return result


@dataclass(frozen=True, slots=True)
class _Taken:
    """One of the k tensors that a choice takes: its index, its `select` node, and the possible alternatives.

    The alternatives are nodes, by their position.
    """

    index: int
    number: NodeId
    alternatives: dict[int, NodeId]


def _sums(graph: Graph, relaxed: Collection[str]) -> dict[NodeId, tuple[NodeId, ...]]:
    """Find the relaxed choices of k alternatives whose k tensors are all added up in one sum.

    Returns a mapping of the `select` nodes of these choices: the first one maps to the nodes of all alternatives, the
    others to ().
    """
    groups: dict[tuple[str, NodeId], list[_Taken]] = {}
    for number in graph:
        op = graph[number].op
        if isinstance(op, Select) and op.choice in relaxed and graph.decisions[op.choice].choice.k is not None:
            for index in range(graph.decisions[op.choice].choice.k or 0):
                reads = _alternatives_at(graph, number, op, index)
                if reads is not None:
                    groups.setdefault((op.choice, _sum(graph, number)), []).append(_Taken(index, number, reads))
                    break
    summands: dict[NodeId, tuple[NodeId, ...]] = {}
    for (path, _), taken in groups.items():
        choice = graph.decisions[path].choice
        nodes = {position: node for slot in taken for position, node in slot.alternatives.items()}
        consistent = all(slot.alternatives.items() <= nodes.items() for slot in taken)
        if consistent and sorted(slot.index for slot in taken) == list(range(choice.k or 0)):
            all_nodes = tuple(node for _, node in sorted(nodes.items()))
            summands |= {slot.number: all_nodes if slot.index == 0 else () for slot in taken}
    return summands


def _alternatives_at(graph: Graph, number: NodeId, op: Select, index: int) -> dict[int, NodeId] | None:
    """Return the nodes of the alternatives that a `select` may yield if it yields taken tensor number `index`.

    Returns None if the `select` yields anything else for some outcome.
    """
    operands, reads = graph.operands(number), dict[int, NodeId]()
    for subset, case in zip(graph.decisions[op.choice].choice.subsets, op.cases, strict=True):
        if reads.setdefault(subset[index], operands[case]) != operands[case]:
            return None
    return reads


def _sum(graph: Graph, number: NodeId) -> NodeId:
    """Return the node of the sum that a node contributes to, directly or through additions.

    The result is the last addition, or the `calibrate` that reads the node. If the node is not added to anything, the
    result is the node itself.
    """
    while len(consumers := graph.consumers(number)) == 1 and number not in graph.outputs.values():
        (consumer,) = consumers
        if isinstance(graph[consumer].op, Calibrate) and graph.operands(consumer)[0] != number:
            return consumer
        if not isinstance(graph[consumer].op, Add):
            break
        number = consumer
    return number
