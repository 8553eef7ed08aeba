"""Graph construction: infers types as nodes are added, and adds `select` nodes for tensors that depend on
choices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from archir.diagnostics.errors import RuleError, Span, require
from archir.diagrams.conditions import conjoin, if_else
from archir.diagrams.diagram import Choice, Diagram, Value, first_leaf, leaves, support, varies
from archir.diagrams.lifting import lift
from archir.ir.graph import Node, NodeId
from archir.ir.op import Op
from archir.ir.structure import Select, require_mergeable
from archir.ir.types import TensorType
from archir.ir.typing import LazyTypes, infer_op, join_types, lift_rule
from archir.ir.verify import resolve_shapes, weight_shapes
from archir.language.elaboration.context import NODE_WORK, Context
from archir.language.elaboration.frame import Scope
from archir.language.elaboration.values import POISON, UNBOUND, Tensor, kind, not_applied


def is_tensor(value: Value) -> bool:
    """Return True if a value is a tensor for at least some outcomes of the choices."""
    return type(value) is Tensor or (varies(value) and any(type(leaf) is Tensor for leaf in leaves(value)))


def _shapes_text(shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> str:
    return ", ".join(f"{name} {list(shape)}" for name, shape in shapes) or "nothing"


def _type_of(types: LazyTypes, tensor: Tensor) -> TensorType:
    return types[tensor.node]


def add_node(context: Context, op: Op, operands: tuple[NodeId, ...], span: Span, scope: str) -> Value:
    """Add a node and return its tensor.

    If type inference fails, the error is reported. The result is then POISON or, with `limits.guess`, a tensor of a
    guessed type if possible.
    """
    context.step(span)
    if len(context.graph) >= context.limits.nodes:
        too_many_nodes(context, span)
    try:
        type_, if_required = _infer_type(context, op, tuple([context.types[operand] for operand in operands]))
    except RuleError as error:
        from archir.language.elaboration.provenance import size_source_notes

        size_notes = (
            size_source_notes(context.graph, context.types, operands, error) if "shapes differ" in error.message else ()
        )
        poison = context.report_rule_error(error, span, f"{op.name}: ", size_notes)
        return _add_guessed(context, op, operands, span, scope) if context.limits.guess else poison
    if not _check_lookups(context, op, operands, span):
        return POISON
    number = append_node(context, Node(op, context.frame.user_span(span), scope), operands, context.guard)
    context.types[number] = type_
    if if_required:
        context.valid_if_required.add(number)
    if type(op).weights is not Op.weights and context.weight_owners.setdefault(scope, number) != number:
        return _check_shared_weights(context, number, context.weight_owners[scope], span)
    return Tensor(number)


def _add_guessed(context: Context, op: Op, operands: tuple[NodeId, ...], span: Span, scope: str) -> Value:
    """Add a node although its operands have a type error; it gets the type of the first operand.

    Returns POISON if the ranks of the operands differ.
    """
    if not operands or type(op).ties is not Op.ties or len({context.types[operand].rank for operand in operands}) > 1:
        return POISON
    number = append_node(context, Node(op, context.frame.user_span(span), scope), operands, context.guard)
    context.types[number] = context.types[operands[0]]
    return Tensor(number)


def _check_shared_weights(context: Context, number: NodeId, other: NodeId, span: Span) -> Value:
    """Return the tensor of node `number`, which shares the weights of `other`.

    Reports an error and returns POISON if their weight shapes differ for choices under which both nodes exist.
    """

    def shapes(of: NodeId) -> Value:
        op, operands = context.graph[of].op, [context.types[operand] for operand in context.graph.operands(of)]
        return lift_rule(
            weight_shapes, op, operands, context.graph.creation_conditions[of], context.assumptions, resolve_shapes
        )

    def compare(shapes_here: Value, shapes_there: Value) -> int:
        if shapes_here != shapes_there:
            text = (
                f"the shared weights `{context.graph[number].scope}` would be {_shapes_text(shapes_here)} here "
                f"and {_shapes_text(shapes_there)} in another call"
            )
            raise RuleError(text, code="A0409")
        return number

    both_exist = conjoin(context.graph.creation_conditions[number], context.graph.creation_conditions[other])
    if both_exist is False:
        return Tensor(number)
    try:
        lift(compare, shapes(number), shapes(other), under=both_exist, assumptions=context.assumptions)
    except RuleError as error:
        return context.report_rule_error(error, span, f"{context.graph[number].op.name}: ")
    return Tensor(number)


def _infer_type(context: Context, op: Op, types: tuple[TensorType, ...]) -> tuple[TensorType, bool]:
    """Return the type of a node's result, and whether it is valid only for architectures that satisfy the
    constraints.

    Results are cached because networks are repetitive.
    """
    is_constant = not (op.varying_attributes or any(x.is_varying for x in types))
    cache_key = (
        op,
        types,
        True if is_constant else context.guard,
    )  # types without choices do not depend on the condition
    if cache_key not in context.type_cache:
        try:
            context.type_cache[cache_key] = infer_op(op, types, context.guard), False
        except RuleError:
            if not context.assumptions:
                raise
            if_required = infer_op(op, types, context.guard, None, context.assumptions), True
            if is_constant:
                return if_required
            context.type_cache[cache_key] = if_required
    return context.type_cache[cache_key]


def too_many_nodes(context: Context, span: Span) -> None:
    """Report A0601, the graph is too large, and end elaboration."""
    context.abort(
        "A0601", f"the graph has more than {context.limits.nodes} nodes", span, "raise the limit with --max-work UNITS"
    )


def append_node(
    context: Context, node: Node, operands: tuple[NodeId, ...], path: Value, work: int = NODE_WORK
) -> NodeId:
    """Append a node that exists under the condition `path`, without type inference; return its number."""
    number = context.graph.add(node, *operands)
    context.graph.creation_conditions[number] = path
    context.budget.left -= work  # checked by the next `step`
    return number


def node_of(context: Context, value: Value, span: Span, what: str = "this") -> NodeId | None:
    """Return the node of a tensor, adding `select` nodes if the tensor depends on choices; None after an error."""
    value = context.restricted(value)
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
        value = context.lift(span, check, value)
        if value is POISON:
            return None
    try:
        return _select_checked(context, value, span)
    except RuleError as error:
        context.report_rule_error(error, span)
        return None


def _select_checked(context: Context, value: Value, span: Span) -> NodeId:
    number = _select_node(context, value, span)
    _ = context.types[number]  # infers the type, to raise its errors here
    return number


def _select_node(context: Context, value: Value, span: Span) -> NodeId:
    """Return the node of a tensor, adding `select` nodes if the tensor depends on choices.

    The type of a select node is inferred when the type is first read, because those of nested select nodes may
    never be needed.
    """
    if type(value) is Tensor:
        return value.node
    if value not in context.select_nodes:
        choice: Choice = value.choice
        operands = [_select_node(context, branch, span) for branch in value.branches]
        distinct = list(dict.fromkeys(operands))
        if len(distinct) == 1:
            return distinct[0]
        op = Select(choice.path, tuple(distinct.index(operand) for operand in operands))
        _check_mergeable(context, value, distinct)
        node = Node(op, context.frame.user_span(span), choice.path)
        number = context.select_nodes[value] = append_node(context, node, tuple(distinct), True)
        context.types.defer(number, partial(join_types, value, partial(_type_of, context.types)))
    return context.select_nodes[value]


def merge_values(context: Context, condition: Value, then: Value, orelse: Value, span: Span) -> Value:
    """Return the value that is `then` where the condition holds and `orelse` elsewhere.

    Tensors that depend on choices other than those of the condition become select nodes first. This keeps
    diagrams small and nests the select nodes as in the program.
    """
    kept_choices = set(support(condition))
    then, orelse = (collapse_tensor(context, value, kept_choices, span) for value in (then, orelse))
    return if_else(condition, then, orelse)


def collapse_tensor(context: Context, value: Value, kept_choices: set[Choice], span: Span) -> Value:
    """Replace a choice-dependent tensor by a single select node.

    Two kinds of values are returned unchanged: values that are not tensors for all outcomes, and tensors that
    depend on a single choice that is in `kept_choices`.
    """
    if not varies(value):
        return value
    depends = support(value)
    if len(depends) == 1 and depends[0] in kept_choices:
        return value
    if not all(type(leaf) is Tensor for leaf in leaves(value)):
        return value
    return Tensor(_select_checked(context, value, span))


def _check_mergeable(context: Context, value: Diagram, nodes: list[NodeId]) -> None:
    """Raise RuleError unless all alternatives have the same rank and element type."""
    try:
        require_mergeable([context.types[first_leaf(branch).node] for branch in value.branches])
        return
    except RuleError:
        pass
    try:
        require_mergeable([context.types[node] for node in nodes])
    except RuleError as error:
        raise RuleError(f"`{value.choice.path}`: {error.message}", error.hint, error.code) from None


def node_scope(context: Context, name: str, in_scope: bool) -> str:
    """Return the scope for a new node.

    If `in_scope` is set and the current scope is still empty, this is the current scope itself; otherwise it is a
    new component below the current scope.
    """
    if in_scope and not context.scope.used:
        return context.scope.path
    child: Scope = context.scope.child(name)
    return child.path


def _check_lookups(context: Context, op: Op, operands: tuple[NodeId, ...], span: Span) -> bool:
    """Check that table indices which the program itself computes are in range for all choices.

    Reports an error and returns False if some index may be out of range.
    """
    if type(op).limits is Op.limits:
        return True
    types = [context.types[operand] for operand in operands]
    guard, assumptions = context.guard, context.assumptions
    for position, operand in enumerate(operands):
        for source in _integer_sources(context, operand):
            source_op = context.graph[source].op
            try:
                limit = lift_rule(
                    lambda op, *types, position=position: op.limits(*types)[position], op, types, guard, assumptions
                )
                types_around = [context.types[number] for number in (source, *context.graph.operands(source))]
                integers = lift_rule(lambda op, *types: op.between(*types), source_op, types_around, guard, assumptions)
                lift(_check_range, limit, integers, under=guard, assumptions=assumptions)
            except RuleError as error:
                context.report_rule_error(error, span, f"{op.name}: ")
                return False
    return True


def _integer_sources(context: Context, number: NodeId) -> Iterator[NodeId]:
    """Yield the nodes from which a node's integers come, looking through select nodes."""
    seen, stack = set(), [number]
    while stack:
        node = stack.pop()
        if node in seen or context.types[node].is_floating:
            continue
        seen.add(node)
        op = context.graph[node].op
        if type(op).between is not Op.between:
            yield node
        elif isinstance(op, Select):
            stack += context.graph.operands(node)


def _check_range(limit: int | None, integers: tuple[int, int] | None) -> bool:
    """Raise RuleError if integers from `integers[0]` to `integers[1]` are not all in `0..limit`; None means unknown."""
    if limit is None or integers is None:
        return True
    low, high = integers
    require(low >= 0, f"{low} is looked up, and indices start at 0")
    require(high < limit, f"{high} is looked up, and there are {limit}: from 0 to {limit - 1}")
    return True
