"""Nodes of the graph under construction: typed as they are added, selected where values depend on choices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from archir.diagnostics.errors import RuleError, Span, require
from archir.diagrams.cases import Case, Choice, Value, first, leaves, support, varies
from archir.diagrams.conditions import both, if_else
from archir.diagrams.lifting import lift
from archir.ir.graph import Node, NodeId
from archir.ir.op import Op
from archir.ir.structure import Select, merge
from archir.ir.types import TensorType
from archir.ir.typing import Typing, infer_op, joined_type, lifted
from archir.ir.verify import told, weight_shapes
from archir.language.elaboration.context import A_NODE, Context, Scope
from archir.language.elaboration.makers import makers
from archir.language.elaboration.values import POISON, UNBOUND, Tensor, kind, not_applied


def is_tensor(value: Value) -> bool:
    """Whether a value is a tensor, for some outcome of the choices at least."""
    return type(value) is Tensor or (varies(value) and any(type(leaf) is Tensor for leaf in leaves(value)))


def _worded(shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> str:
    return ", ".join(f"{name} {list(shape)}" for name, shape in shapes) or "nothing"


def _type_of(types: Typing, tensor: Tensor) -> TensorType:
    return types[tensor.node]


class Network(Context):
    """Adds nodes, and turns tensors that depend on choices into `select` nodes."""

    def start(self) -> None:
        """Begin with no nodes."""
        self.types = Typing()
        self.selected: dict[Case, NodeId] = {}
        """The select nodes, by what they stand for."""
        self._weighed: dict[str, NodeId] = {}
        self.excused: set[NodeId] = set()
        """Nodes that only what is required makes right."""
        self._inferred: dict[tuple[Op, tuple[TensorType, ...], Value], tuple[TensorType, bool]] = {}

    def add(self, op: Op, operands: tuple[NodeId, ...], span: Span, scope: str) -> Value:
        """A new node as a tensor; POISON if its rule refuses the operands."""
        self.step(span)
        if len(self.graph) >= self.limits.nodes:
            self.too_many_nodes(span)
        try:
            type_, excused = self._infer(op, tuple([self.types[operand] for operand in operands]))
        except RuleError as error:
            made = makers(self.graph, self.types, operands, error) if "shapes differ" in error.message else ()
            found = self.refuse(error, span, f"{op.name}: ", made)
            return self._guessed(op, operands, span, scope) if self.limits.guess else found
        if not _looked_up(self, op, operands, span):
            return POISON
        number = self.append(Node(op, self.frame.place(span), scope), operands, self.path)
        self.types[number] = type_
        if excused:
            self.excused.add(number)
        if type(op).weights is not Op.weights and self._weighed.setdefault(scope, number) != number:
            return self._shared(number, self._weighed[scope], span)
        return Tensor(number)

    def _guessed(self, op: Op, operands: tuple[NodeId, ...], span: Span, scope: str) -> Value:
        """A node that is wrong, with the type that it would have if its operands were alike."""
        if type(op).ties is not Op.ties or len({self.types[operand].rank for operand in operands}) > 1:
            return POISON
        number = self.append(Node(op, self.frame.place(span), scope), operands, self.path)
        self.types[number] = self.types[operands[0]]
        return Tensor(number)

    def _shared(self, number: NodeId, other: NodeId, span: Span) -> Value:
        """A node whose weights another one has, too; POISON unless they are alike wherever both are made."""

        def shapes(of: NodeId) -> Value:
            op, operands = self.graph[of].op, [self.types[operand] for operand in self.graph.operands(of)]
            return lifted(weight_shapes, op, operands, self.graph.made[of], self.given, told)

        def compare(here: Value, there: Value) -> int:
            if here != there:
                text = (
                    f"the shared `{self.graph[number].scope}` would be {_worded(here)}, and {_worded(there)} elsewhere"
                )
                raise RuleError(text, code="A0409")
            return number

        together = both(self.graph.made[number], self.graph.made[other])
        if together is False:
            return Tensor(number)
        try:
            lift(compare, shapes(number), shapes(other), under=together, given=self.given)
        except RuleError as error:
            return self.refuse(error, span, f"{self.graph[number].op.name}: ")
        return Tensor(number)

    def _infer(self, op: Op, types: tuple[TensorType, ...]) -> tuple[TensorType, bool]:
        """The type of a node's result here, and whether it takes what is required to make it right.

        Networks repeat themselves: what is known is not worked out again.
        """
        plain = not (op.varied or any(x.varied for x in types))
        question = (op, types, True if plain else self.path)  # what depends on no choice is the same everywhere
        if question not in self._inferred:
            try:
                self._inferred[question] = infer_op(op, types, self.path), False
            except RuleError:
                if not self.given:
                    raise
                excused = infer_op(op, types, self.path, None, self.given), True
                if plain:
                    return excused
                self._inferred[question] = excused
        return self._inferred[question]

    def too_many_nodes(self, span: Span) -> None:
        """Stop: the graph gets too large."""
        self.stop(
            "A0601", f"the graph has more than {self.limits.nodes} nodes", span, "raise the limit with --limit NODES"
        )

    def append(self, node: Node, operands: tuple[NodeId, ...], path: Value, work: int = A_NODE) -> NodeId:
        """A new node, made under a condition."""
        number = self.graph.add(node, *operands)
        self.graph.made[number] = path
        self.budget.left -= work  # the next step tells
        return number

    def node(self, value: Value, span: Span, what: str = "this") -> NodeId | None:
        """The node of a tensor; `select` nodes are made where it depends on choices. None if it is no tensor."""
        value = self.here(value)
        if value is POISON:
            return None
        if type(value) is Tensor:
            return value.node

        def check(leaf: Value) -> Value:
            if leaf is UNBOUND:
                raise RuleError(f"{what} is not assigned here", code="A0204")
            if type(leaf) is not Tensor:
                raise RuleError(f"{what} must be a tensor, got {kind(leaf)}", not_applied(leaf), "A0404")
            return leaf

        if not all(type(leaf) is Tensor for leaf in leaves(value)):
            value = self.lift(span, check, value)
            if value is POISON:
                return None
        try:
            return self._select(value, span)
        except RuleError as error:
            self.refuse(error, span)
            return None

    def _select(self, value: Value, span: Span) -> NodeId:
        number = self._selection(value, span)
        _ = self.types[number]  # refused here, if at all
        return number

    def _selection(self, value: Value, span: Span) -> NodeId:
        """The node of a tensor; its type is found when it is asked for: of selections in selections, nobody does."""
        if type(value) is Tensor:
            return value.node
        if value not in self.selected:
            choice: Choice = value.choice
            operands = [self._selection(branch, span) for branch in value.branches]
            distinct = list(dict.fromkeys(operands))
            if len(distinct) == 1:
                return distinct[0]
            op = Select(choice.path, tuple(distinct.index(operand) for operand in operands))
            self._check_alike(value, distinct)
            node = Node(op, self.frame.place(span), choice.path)
            number = self.selected[value] = self.append(node, tuple(distinct), True)
            self.types.later(number, partial(joined_type, value, partial(_type_of, self.types)))
        return self.selected[value]

    def merged(self, condition: Value, one: Value, other: Value, span: Span) -> Value:
        """`one` where the condition holds, `other` elsewhere.

        Tensors that depend on choices the condition knows nothing of are selected first: diagrams stay small, and
        selections nest as the program does.
        """
        about = set(support(condition))
        one, other = (self.settled(value, about, span) for value in (one, other))
        return if_else(condition, one, other)

    def settled(self, value: Value, about: set[Choice], span: Span) -> Value:
        """A tensor that depends on choices, none of them in `about`, as one node; any other value as it is."""
        if not varies(value):
            return value
        depends = support(value)
        if len(depends) == 1 and depends[0] in about:
            return value
        if not all(type(leaf) is Tensor for leaf in leaves(value)):
            return value
        return Tensor(self._select(value, span))

    def _check_alike(self, value: Case, nodes: list[NodeId]) -> None:
        """RuleError unless the alternatives agree in rank and element type."""
        try:
            merge([self.types[first(branch).node] for branch in value.branches])
            return
        except RuleError:
            pass
        try:
            merge([self.types[node] for node in nodes])
        except RuleError as error:
            raise RuleError(f"`{value.choice.path}`: {error.message}", error.hint, error.code) from None

    def named(self, name: str, here: bool) -> str:
        """The scope of a new node: the scope at hand itself, or a component of it."""
        if here and not self.scope.used:
            return self.scope.path
        made: Scope = self.scope.child(name)
        return made.path


def _looked_up(network: Network, op: Op, operands: tuple[NodeId, ...], span: Span) -> bool:
    """Whether integers that the program itself makes are below what they are looked up in, whatever is chosen."""
    if type(op).limits is Op.limits:
        return True
    types = [network.types[operand] for operand in operands]
    under, given = network.path, network.given
    for place, operand in enumerate(operands):
        for source in _makers(network, operand):
            made = network.graph[source].op
            try:
                limit = lifted(lambda op, *types, place=place: op.limits(*types)[place], op, types, under, given)
                around = [network.types[one] for one in (source, *network.graph.operands(source))]
                integers = lifted(lambda op, *types: op.between(*types), made, around, under, given)
                lift(_within, limit, integers, under=under, given=given)
            except RuleError as error:
                network.refuse(error, span, f"{op.name}: ")
                return False
    return True


def _makers(network: Network, number: NodeId) -> Iterator[NodeId]:
    """The nodes that make all integers of a node, which may be any of them."""
    seen, stack = set(), [number]
    while stack:
        one = stack.pop()
        if one in seen or network.types[one].numeric:
            continue
        seen.add(one)
        op = network.graph[one].op
        if type(op).between is not Op.between:
            yield one
        elif isinstance(op, Select):
            stack += network.graph.operands(one)


def _within(limit: int | None, integers: tuple[int, int] | None) -> bool:
    if limit is None or integers is None:
        return True
    low, high = integers
    require(low >= 0, f"{low} is looked up, and what is looked up begins at 0")
    require(high < limit, f"{high} is looked up, and there are {limit}: from 0 to {limit - 1}")
    return True
