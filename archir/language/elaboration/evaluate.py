"""Evaluates expressions, except for calls and choices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from archir.diagnostics.errors import RuleError, Span
from archir.diagnostics.hints import suggest
from archir.diagrams.conditions import if_else, negate, restrict
from archir.diagrams.diagram import Value, leaves, varies
from archir.diagrams.lifting import Excluded
from archir.ir.op import OPS, Op
from archir.ir.types import TensorType
from archir.language.elaboration import equality, static
from archir.language.elaboration.context import Context
from archir.language.elaboration.lists import Element
from archir.language.elaboration.module import Library, Module
from archir.language.elaboration.network import add_node, is_tensor, merge_values, node_of, node_scope
from archir.language.elaboration.values import POISON, UNBOUND, Builtin, Items, Operation, Tensor, kind, not_applied
from archir.language.syntax import ast
from archir.ops.activation import Power, Scale, Shift
from archir.ops.arithmetic import Add, Div, Mul, Sub
from archir.ops.shape import Slice


# names
def evaluate_name(context: Context, tree: ast.Name) -> Value:
    """Evaluate a name: of a variable, definition, operation or built-in function."""
    value = context.frame.env.get(tree.text)
    if value is None and tree.text not in context.frame.env:
        return look_up(context, tree, context.frame.module)
    if not varies(value):
        if value is UNBOUND:
            return context.error("A0204", f"`{tree.text}` is not assigned here", tree.span)
        return value

    def check(leaf: Value) -> Value:
        if leaf is UNBOUND:
            raise RuleError(f"`{tree.text}` is not assigned here", code="A0204")
        return leaf

    return context.checked(tree.span, check, value)


def look_up(context: Context, tree: ast.Name, module: Module) -> Value:
    """Look up a name at the top level of a file: definition, import, operation or built-in function."""
    name = tree.text
    if name in module.names or name in module.imported:
        return module.lookup(name)
    op = OPS.find(name)
    if op is not None and not op.internal:
        return Operation(op)
    if name in static.FUNCTIONS or name in static.FOLDS:
        return Builtin(name)
    if name in context.frame.local_names:
        return context.error("A0204", f"`{name}` is used before it is assigned", tree.span)
    if module.incomplete:
        return POISON
    from archir.language.elaboration.unknown_names import unknown_name

    unknown = unknown_name(tree, visible_names(context, module), module)
    return context.error(unknown.code, unknown.message, tree.span, unknown.hint)


def visible_names(context: Context, module: Module) -> Iterator[str]:
    """Yield the names that can be used in the current frame."""
    yield from (name for name, value in context.frame.env.items() if value is not UNBOUND)
    yield from known_names(module)


def evaluate_literal(context: Context, tree: ast.Literal) -> Value:
    """Return the value of a literal."""
    return tree.value


# arithmetic and logic
def evaluate_chain(context: Context, tree: ast.Chain) -> Value:
    """Evaluate a chain of arithmetic operators from left to right."""
    value = context.eval(tree.first)
    for op, operand in tree.links:
        value = apply_binary(context, op, value, context.eval(operand), tree.first.span.to(operand.span))
    return value


def apply_binary(context: Context, op: str, a: Value, b: Value, span: Span) -> Value:
    """Evaluate `a op b`, where each operand is a number or a tensor."""
    if a is POISON or b is POISON:
        return POISON
    if not (is_tensor(a) or is_tensor(b)):
        return context.lift(span, lambda x, y: static.binary(op, x, y), a, b)
    return by_tensor_kind(context, partial(_apply_to_tensor, context, op, span), (a, b), span)


def _apply_to_tensor(context: Context, op: str, span: Span, a: Value, b: Value) -> Value:
    if not (is_tensor(a) or is_tensor(b)):
        return apply_binary(context, op, a, b, span)
    if is_tensor(a) and is_tensor(b):
        return _apply_elementwise(context, op, a, b, span)
    tensor, number = (a, b) if is_tensor(a) else (b, a)
    if op == "**" and is_tensor(a):
        return _add_power(context, tensor, context.lift(span, lambda x: _scalar_operand("+", x), number), span)
    if op == "/" and is_tensor(b):
        return apply_binary(context, "*", _add_power(context, tensor, -1.0, span), number, span)
    if op not in ("*", "+") and not (op in ("-", "/") and is_tensor(a)):
        hint = "write `-x + 1` for `1 - x`" if op == "-" else None
        return context.error("A0404", f"`{op}` does not work on {kind(a)} and {kind(b)}", span, hint)
    amount = context.lift(span, lambda x: _scalar_operand(op, x), number)
    node = node_of(context, tensor, span)
    if node is None or amount is POISON:
        return POISON
    operation = Scale(amount) if op in ("*", "/") else Shift(amount)
    return add_node(context, operation, (node,), span, node_scope(context, operation.name, False))


def _add_power(context: Context, tensor: Value, exponent: Value, span: Span) -> Value:
    node = node_of(context, tensor, span)
    if node is None or exponent is POISON:
        return POISON
    return add_node(context, Power(exponent), (node,), span, node_scope(context, Power.name, False))


def by_tensor_kind(
    context: Context, rule: Callable[..., Value], values: Sequence[Value], span: Span, position: int = 0
) -> Value:
    """Apply a rule to values, separately for the choices under which a value is a tensor and those under which it
    is not.

    Each value before `position` is already known to be always a tensor or never one.
    """
    if position == len(values):
        return rule(*values)
    value = context.restricted(values[position])
    if not varies(value) or len({type(leaf) is Tensor for leaf in leaves(value)}) < 2:
        return by_tensor_kind(context, rule, values, span, position + 1)

    def in_branch() -> Value:
        return by_tensor_kind(context, rule, [context.restricted(item) for item in values], span, position + 1)

    return evaluate_branches(
        context, context.lift(span, lambda leaf: type(leaf) is Tensor, value), in_branch, in_branch, span
    )


def _apply_elementwise(context: Context, op: str, a: Value, b: Value, span: Span) -> Value:
    kinds: dict[str, type[Op]] = {"+": Add, "-": Sub, "*": Mul, "/": Div}
    if op not in kinds:
        return context.error(
            "A0404", f"`{op}` does not work on two tensors", span, "tensors have `+`, `-`, `*` and `/`"
        )
    left, right = node_of(context, a, span), node_of(context, b, span)
    if left is None or right is None:
        return POISON
    operation = kinds[op]()
    return add_node(context, operation, (left, right), span, node_scope(context, operation.name, False))


def evaluate_signed(context: Context, tree: ast.Signed) -> Value:
    """Evaluate a signed operand; `-x` of a tensor multiplies it by -1."""
    return by_tensor_kind(context, partial(_apply_sign, context, tree), [context.eval(tree.operand)], tree.span)


def _apply_sign(context: Context, tree: ast.Signed, value: Value) -> Value:
    if is_tensor(value):
        return value if tree.sign == "+" else apply_binary(context, "*", value, -1, tree.span)
    return context.lift(tree.span, lambda x: static.sign(tree.sign, x), value)


def evaluate_range(context: Context, tree: ast.Range) -> Value:
    """Evaluate a half-open range."""
    return context.lift(tree.span, static.integer_range, context.eval(tree.start), context.eval(tree.stop))


def evaluate_comparison(context: Context, tree: ast.Comparison) -> Value:
    """Evaluate a chain of comparisons such as `a < b <= c`; it is true if all of them are."""
    result: Value = True
    left, left_span = context.eval(tree.first), tree.first.span
    for op, operand in tree.links:
        right = context.eval(operand)
        span = left_span.to(operand.span)
        result = context.lift(span, _and, result, apply_comparison(context, op, left, right, span))
        left, left_span = right, operand.span
    return result


def apply_comparison(context: Context, op: str, a: Value, b: Value, span: Span) -> Value:
    """Evaluate one comparison. Reports A0311 if, for all outcomes, the kinds of the operands are never equal."""
    if op not in equality.RULES:
        return context.lift(span, lambda x, y: static.compare(op, x, y), a, b)
    equal = context.lift(span, equality.RULES[op], a, b)
    if equal is POISON:
        return POISON
    outcomes = set(leaves(context.restricted(equal)))
    if outcomes == {None}:
        return context.lift(span, lambda x, y: equality.raise_never_equal(op, x, y), a, b)
    is_positive = op in ("==", "in")
    return context.lift(span, lambda leaf: bool(leaf) is is_positive, equal)


def evaluate_not(context: Context, tree: ast.Not) -> Value:
    """Evaluate a negation."""
    return context.lift(tree.span, lambda x: not x, context.condition(tree.operand))


def evaluate_logical(context: Context, tree: ast.Logical) -> Value:
    """Evaluate `and` or `or` with short-circuiting: operands after the deciding one are not evaluated."""
    result: Value = tree.word == "and"
    for operand in tree.operands:
        undecided = result if tree.word == "and" else context.lift(tree.span, lambda x: not x, result)
        if undecided is False or undecided is POISON:
            return result
        value = result
        with context.under(undecided) as possible:
            value = context.condition(operand) if possible else result
        if value is POISON:
            return POISON
        result = if_else(undecided, value, result)
    return result


def evaluate_if_else(context: Context, tree: ast.IfElse) -> Value:
    """Evaluate `a if condition else b`: one branch, or both if the condition depends on choices."""
    condition = context.condition(tree.condition)
    if condition is POISON:
        return POISON
    return evaluate_branches(
        context, condition, lambda: context.eval(tree.then), lambda: context.eval(tree.orelse), tree.span
    )


def evaluate_branches(context: Context, condition: Value, then: Element, orelse: Element, span: Span) -> Value:
    """Evaluate two branches under opposite conditions and merge their values; only one if the condition is
    constant."""
    condition = restrict(condition, context.guard)
    if condition is True:
        return then()
    if condition is False:
        return orelse()
    values: dict[bool, Value] = {}
    for holds, value in ((True, then), (False, orelse)):
        with context.under(condition if holds else negate(condition)):
            values[holds] = value()
    if len(values) < 2:
        return first_or_excluded(values.values())
    return POISON if POISON in values.values() else merge_values(context, condition, values[True], values[False], span)


def first_or_excluded(values: Collection[Value]) -> Value:
    """Return the first value. Raises Excluded if there is none because the stated constraints exclude all
    alternatives."""
    if not values:
        raise Excluded
    return next(iter(values))


# parts of values
def evaluate_index(context: Context, tree: ast.Index) -> Value:
    """Evaluate `items[position]`."""
    value, position = context.eval(tree.value), context.eval(tree.position)
    return context.lift(tree.span, static.index, value, position)


def evaluate_slice(context: Context, tree: ast.Slice) -> Value:
    """Evaluate `items[start:stop]`; for a tensor, slice its channels."""
    value = context.eval(tree.value)
    start, stop = (None if bound is None else context.eval(bound) for bound in (tree.start, tree.stop))
    return by_tensor_kind(context, lambda here: _slice(context, tree, here, start, stop), [value], tree.span)


def _slice(context: Context, tree: ast.Slice, value: Value, start: Value, stop: Value) -> Value:
    if not is_tensor(value):
        return context.lift(tree.span, static.slice_items, value, start, stop)
    start, stop = (
        context.lift(tree.span, lambda x: x if x is None else static.integer(x, "a slice bound"), bound)
        for bound in (start, stop)
    )
    node = node_of(context, value, tree.span)
    if node is None or start is POISON or stop is POISON:
        return POISON
    return add_node(
        context, Slice(0 if start is None else start, stop), (node,), tree.span, node_scope(context, "slice", False)
    )


def evaluate_attribute(context: Context, tree: ast.Attribute) -> Value:
    """Evaluate `value.name`: a static property of a tensor, or a definition in an imported library."""
    value = context.eval(tree.value)
    if isinstance(value, Library):
        if tree.name.text in value.module.names:
            return value.module.names[tree.name.text]
        if value.module.incomplete:
            return POISON
        hint = suggest(tree.name.text, value.module.names)
        return context.error("A0201", f"the library has no `{tree.name}`", tree.name.span, hint)

    def read(leaf: Value) -> Value:
        if not isinstance(leaf, Tensor):
            raise RuleError(f"{kind(leaf)} has no attributes", not_applied(leaf), "A0205")
        if tree.name.text not in ATTRIBUTES:
            from archir.language.elaboration.unknown_names import tensor_attribute_hint

            hint = tensor_attribute_hint(tree.name.text, ATTRIBUTES, context.frame.module)
            raise RuleError(f"a tensor has no attribute `{tree.name}`", hint, "A0205")
        return attribute(context.types[leaf.node], tree.name.text)

    return context.restricted(context.lift(tree.name.span, read, value))


def _and(a: bool, b: bool) -> bool:
    return a and b


def _scalar_operand(op: str, x: Value) -> float:
    """Return the number by which to scale or shift a tensor for `tensor op x`."""
    if not static.is_number(x):
        raise RuleError(f"`{op}` does not work on a tensor and {kind(x)}", not_applied(x), "A0301")
    if op == "-":
        return static.to_float(static.sign("-", x))
    return static.to_float(static.binary("/", 1, x) if op == "/" else x)


def known_names(module: Module) -> Iterator[str]:
    """Yield the names that can be used anywhere in a file: definitions, imports, operations and built-in functions."""
    yield from module.names
    yield from module.imported
    yield from (name for name, op in OPS.items() if not op.internal)
    yield from static.FUNCTIONS
    yield from static.FOLDS


ATTRIBUTES: dict[str, Callable[[TensorType], Value]] = {
    "shape": lambda x: Items(x.dims),
    "rank": lambda x: x.rank,
    "dtype": lambda x: x.dtype,
    "kind": lambda x: x.kind,
    "channels": lambda x: x.dims[x.channel_axis],
    "features": lambda x: x.dims[x.channel_axis],
    "depth": lambda x: _axis(x, -3, (4,), "depth"),
    "height": lambda x: _axis(x, -2, (3, 4), "height"),
    "width": lambda x: _axis(x, -1, (3, 4), "width"),
    "tokens": lambda x: _axis(x, 0, (2,), "tokens"),
}
"""Static properties of tensors: maps each name to a function of the tensor type."""


def attribute(x: TensorType, name: str) -> Value:
    """Return a static property of a tensor type. Raises RuleError (A0402) if it has none, such as the height of a
    vector."""
    if name in ("channels", "features") and x.rank == 0:
        raise RuleError(f"{x} has no channels", code="A0402")
    return ATTRIBUTES[name](x)


def _axis(x: TensorType, axis: int, ranks: tuple[int, ...], name: str) -> Value:
    if x.rank not in ranks:
        raise RuleError(f"{x} has no {name}", code="A0402")
    return x.dims[axis]
