"""Evaluates expressions, except for calls and choices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial

from archir.diagnostics.errors import RuleError, Span
from archir.diagnostics.hints import suggest
from archir.diagrams.conditions import if_else, negate, restrict
from archir.diagrams.diagram import Value, leaves, varies
from archir.diagrams.lifting import Excluded
from archir.ir.op import OPS, Op
from archir.ir.types import TensorType
from archir.language.elaboration import equality, static
from archir.language.elaboration.lists import Element, ListEvaluator
from archir.language.elaboration.module import Library, Module
from archir.language.elaboration.network import is_tensor
from archir.language.elaboration.values import POISON, UNBOUND, Builtin, Items, Operation, Tensor, kind, not_applied
from archir.language.syntax import ast
from archir.ops.activation import Power, Scale, Shift
from archir.ops.arithmetic import Add, Div, Mul, Sub
from archir.ops.shape import Slice


class ExpressionEvaluator(ListEvaluator):
    """Evaluates expressions to values."""

    def eval(self, tree: ast.Expr) -> Value:
        """Evaluate an expression under the path condition; return POISON after an error."""
        self.step(tree.span)
        value: Value = getattr(self, _method(type(tree).__name__))(tree)
        return value

    # names

    def eval_name(self, tree: ast.Name) -> Value:
        """Evaluate a name: of a variable, definition, operation or built-in function."""
        value = self.frame.env.get(tree.text)
        if value is None and tree.text not in self.frame.env:
            return self.definition(tree, self.frame.module)
        if not varies(value):
            if value is UNBOUND:
                return self.error("A0204", f"`{tree.text}` is not assigned here", tree.span)
            return value

        def check(leaf: Value) -> Value:
            if leaf is UNBOUND:
                raise RuleError(f"`{tree.text}` is not assigned here", code="A0204")
            return leaf

        return self.checked(tree.span, check, value)

    def definition(self, tree: ast.Name, module: Module) -> Value:
        """Look up a name at the top level of a file: definition, import, operation or built-in function."""
        name = tree.text
        if name in module.names or name in module.imported:
            return module.lookup(name)
        op = OPS.find(name)
        if op is not None and not op.internal:
            return Operation(op)
        if name in static.FUNCTIONS or name in static.FOLDS:
            return Builtin(name)
        if name in self.frame.local_names:
            return self.error("A0204", f"`{name}` is used before it is assigned", tree.span)
        if module.incomplete:
            return POISON
        from archir.language.elaboration.unknown_names import unknown_name

        unknown = unknown_name(tree, self.visible_names(module), module)
        return self.error(unknown.code, unknown.message, tree.span, unknown.hint)

    def visible_names(self, module: Module) -> Iterator[str]:
        """Yield the names that can be used in the current frame."""
        yield from (name for name, value in self.frame.env.items() if value is not UNBOUND)
        yield from known_names(module)

    def eval_literal(self, tree: ast.Literal) -> Value:
        """Return the value of a literal."""
        return tree.value

    # arithmetic and logic

    def eval_chain(self, tree: ast.Chain) -> Value:
        """Evaluate a chain of arithmetic operators from left to right."""
        value = self.eval(tree.first)
        for op, operand in tree.links:
            value = self.binary(op, value, self.eval(operand), tree.first.span.to(operand.span))
        return value

    def binary(self, op: str, a: Value, b: Value, span: Span) -> Value:
        """Evaluate `a op b`, where each operand is a number or a tensor."""
        if a is POISON or b is POISON:
            return POISON
        if not (is_tensor(a) or is_tensor(b)):
            return self.lift(span, lambda x, y: static.binary(op, x, y), a, b)
        return self.by_tensor_kind(partial(self._with_tensor, op, span), (a, b), span)

    def _with_tensor(self, op: str, span: Span, a: Value, b: Value) -> Value:
        if not (is_tensor(a) or is_tensor(b)):
            return self.binary(op, a, b, span)
        if is_tensor(a) and is_tensor(b):
            return self._elementwise(op, a, b, span)
        tensor, number = (a, b) if is_tensor(a) else (b, a)
        if op == "**" and is_tensor(a):
            return self._power(tensor, self.lift(span, lambda x: _scalar_operand("+", x), number), span)
        if op == "/" and is_tensor(b):
            return self.binary("*", self._power(tensor, -1.0, span), number, span)
        if op not in ("*", "+") and not (op in ("-", "/") and is_tensor(a)):
            hint = "write `-x + 1` for `1 - x`" if op == "-" else None
            return self.error("A0404", f"`{op}` does not work on {kind(a)} and {kind(b)}", span, hint)
        amount = self.lift(span, lambda x: _scalar_operand(op, x), number)
        node = self.node(tensor, span)
        if node is None or amount is POISON:
            return POISON
        operation = Scale(amount) if op in ("*", "/") else Shift(amount)
        return self.add(operation, (node,), span, self.node_scope(operation.name, False))

    def _power(self, tensor: Value, exponent: Value, span: Span) -> Value:
        node = self.node(tensor, span)
        if node is None or exponent is POISON:
            return POISON
        return self.add(Power(exponent), (node,), span, self.node_scope(Power.name, False))

    def by_tensor_kind(
        self, rule: Callable[..., Value], values: Sequence[Value], span: Span, position: int = 0
    ) -> Value:
        """Apply a rule to values, separately for the choices under which a value is a tensor and those under which it
        is not.

        Each value before `position` is already known to be always a tensor or never one.
        """
        if position == len(values):
            return rule(*values)
        value = self.restricted(values[position])
        if not varies(value) or len({type(leaf) is Tensor for leaf in leaves(value)}) < 2:
            return self.by_tensor_kind(rule, values, span, position + 1)

        def in_branch() -> Value:
            return self.by_tensor_kind(rule, [self.restricted(item) for item in values], span, position + 1)

        return self.branch(self.lift(span, lambda leaf: type(leaf) is Tensor, value), in_branch, in_branch, span)

    def _elementwise(self, op: str, a: Value, b: Value, span: Span) -> Value:
        kinds: dict[str, type[Op]] = {"+": Add, "-": Sub, "*": Mul, "/": Div}
        if op not in kinds:
            return self.error(
                "A0404", f"`{op}` does not work on two tensors", span, "tensors have `+`, `-`, `*` and `/`"
            )
        left, right = self.node(a, span), self.node(b, span)
        if left is None or right is None:
            return POISON
        operation = kinds[op]()
        return self.add(operation, (left, right), span, self.node_scope(operation.name, False))

    def eval_signed(self, tree: ast.Signed) -> Value:
        """Evaluate a signed operand; `-x` of a tensor multiplies it by -1."""
        return self.by_tensor_kind(partial(self._signed, tree), [self.eval(tree.operand)], tree.span)

    def _signed(self, tree: ast.Signed, value: Value) -> Value:
        if is_tensor(value):
            return value if tree.sign == "+" else self.binary("*", value, -1, tree.span)
        return self.lift(tree.span, lambda x: static.sign(tree.sign, x), value)

    def eval_range(self, tree: ast.Range) -> Value:
        """Evaluate a half-open range."""
        return self.lift(tree.span, static.integer_range, self.eval(tree.start), self.eval(tree.stop))

    def eval_comparison(self, tree: ast.Comparison) -> Value:
        """Evaluate a chain of comparisons such as `a < b <= c`; it is true if all of them are."""
        result: Value = True
        left, left_span = self.eval(tree.first), tree.first.span
        for op, operand in tree.links:
            right = self.eval(operand)
            span = left_span.to(operand.span)
            result = self.lift(span, _and, result, self.compare(op, left, right, span))
            left, left_span = right, operand.span
        return result

    def compare(self, op: str, a: Value, b: Value, span: Span) -> Value:
        """Evaluate one comparison. Reports A0311 if, for all outcomes, the kinds of the operands are never equal."""
        if op not in equality.RULES:
            return self.lift(span, lambda x, y: static.compare(op, x, y), a, b)
        equal = self.lift(span, equality.RULES[op], a, b)
        if equal is POISON:
            return POISON
        outcomes = set(leaves(self.restricted(equal)))
        if outcomes == {None}:
            return self.lift(span, lambda x, y: equality.raise_never_equal(op, x, y), a, b)
        is_positive = op in ("==", "in")
        return self.lift(span, lambda leaf: bool(leaf) is is_positive, equal)

    def eval_not(self, tree: ast.Not) -> Value:
        """Evaluate a negation."""
        return self.lift(tree.span, lambda x: not x, self.condition(tree.operand))

    def condition(self, tree: ast.Expr) -> Value:
        """Evaluate an expression that must be a bool."""
        return self.checked(tree.span, static.boolean, self.eval(tree))

    def eval_logical(self, tree: ast.Logical) -> Value:
        """Evaluate `and` or `or` with short-circuiting: operands after the deciding one are not evaluated."""
        result: Value = tree.word == "and"
        for operand in tree.operands:
            undecided = result if tree.word == "and" else self.lift(tree.span, lambda x: not x, result)
            if undecided is False or undecided is POISON:
                return result
            value = result
            with self.under(undecided) as possible:
                value = self.condition(operand) if possible else result
            if value is POISON:
                return POISON
            result = if_else(undecided, value, result)
        return result

    def eval_if_else(self, tree: ast.IfElse) -> Value:
        """Evaluate `a if condition else b`: one branch, or both if the condition depends on choices."""
        condition = self.condition(tree.condition)
        if condition is POISON:
            return POISON
        return self.branch(condition, lambda: self.eval(tree.then), lambda: self.eval(tree.orelse), tree.span)

    def branch(self, condition: Value, then: Element, orelse: Element, span: Span) -> Value:
        """Evaluate two branches under opposite conditions and merge their values; only one if the condition is
        constant."""
        condition = restrict(condition, self.guard)
        if condition is True:
            return then()
        if condition is False:
            return orelse()
        values: dict[bool, Value] = {}
        for holds, value in ((True, then), (False, orelse)):
            with self.under(condition if holds else negate(condition)):
                values[holds] = value()
        if len(values) < 2:
            return self.first_or_excluded(values.values())
        return POISON if POISON in values.values() else self.merge(condition, values[True], values[False], span)

    def first_or_excluded(self, values: Collection[Value]) -> Value:
        """Return the first value. Raises Excluded if there is none because the stated constraints exclude all
        alternatives."""
        if not values:
            raise Excluded
        return next(iter(values))

    # parts of values

    def eval_index(self, tree: ast.Index) -> Value:
        """Evaluate `items[position]`."""
        value, position = self.eval(tree.value), self.eval(tree.position)
        return self.lift(tree.span, static.index, value, position)

    def eval_slice(self, tree: ast.Slice) -> Value:
        """Evaluate `items[start:stop]`; for a tensor, slice its channels."""
        value = self.eval(tree.value)
        start, stop = (None if bound is None else self.eval(bound) for bound in (tree.start, tree.stop))
        return self.by_tensor_kind(lambda here: self._sliced(tree, here, start, stop), [value], tree.span)

    def _sliced(self, tree: ast.Slice, value: Value, start: Value, stop: Value) -> Value:
        if not is_tensor(value):
            return self.lift(tree.span, static.slice_items, value, start, stop)
        start, stop = (
            self.lift(tree.span, lambda x: x if x is None else static.integer(x, "a slice bound"), bound)
            for bound in (start, stop)
        )
        node = self.node(value, tree.span)
        if node is None or start is POISON or stop is POISON:
            return POISON
        return self.add(Slice(0 if start is None else start, stop), (node,), tree.span, self.node_scope("slice", False))

    def eval_attribute(self, tree: ast.Attribute) -> Value:
        """Evaluate `value.name`: a static property of a tensor, or a definition in an imported library."""
        value = self.eval(tree.value)
        if isinstance(value, Library):
            if tree.name.text in value.module.names:
                return value.module.names[tree.name.text]
            if value.module.incomplete:
                return POISON
            hint = suggest(tree.name.text, value.module.names)
            return self.error("A0201", f"the library has no `{tree.name}`", tree.name.span, hint)

        def read(leaf: Value) -> Value:
            if not isinstance(leaf, Tensor):
                raise RuleError(f"{kind(leaf)} has no attributes", not_applied(leaf), "A0205")
            if tree.name.text not in ATTRIBUTES:
                from archir.language.elaboration.unknown_names import tensor_attribute_hint

                hint = tensor_attribute_hint(tree.name.text, ATTRIBUTES, self.frame.module)
                raise RuleError(f"a tensor has no attribute `{tree.name}`", hint, "A0205")
            return attribute(self.types[leaf.node], tree.name.text)

        return self.restricted(self.lift(tree.name.span, read, value))

    @abstractmethod
    def eval_call(self, tree: ast.Call) -> Value:
        """Evaluate a call."""

    @abstractmethod
    def eval_pipe(self, tree: ast.Pipe) -> Value:
        """Evaluate a pipe."""

    @abstractmethod
    def eval_match(self, tree: ast.Match) -> Value:
        """Evaluate a match."""

    @abstractmethod
    def eval_choose_value(self, tree: ast.ChooseValue) -> Value:
        """Evaluate a choice among values."""

    @abstractmethod
    def eval_choose_one(self, tree: ast.ChooseOne) -> Value:
        """Evaluate a choice among expressions."""

    @abstractmethod
    def eval_choose_subset(self, tree: ast.ChooseSubset) -> Value:
        """Evaluate a choice of some items of a list."""


@cache
def _method(kind_of: str) -> str:
    """Return the name of the method that evaluates a class of syntax nodes: `IfElse` -> `eval_if_else`."""
    return "eval" + "".join(f"_{char.lower()}" if char.isupper() else char for char in kind_of)


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
