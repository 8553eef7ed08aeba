"""Expressions, but for calls and choices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial

from archir.diagnostics.errors import RuleError, Span, suggest
from archir.diagrams.cases import Value, leaves, varies
from archir.diagrams.conditions import if_else, negate, restrict
from archir.diagrams.lifting import Excluded
from archir.ir.op import OPS, Op
from archir.ir.types import TensorType
from archir.language.elaboration import equality, static
from archir.language.elaboration.files import Module
from archir.language.elaboration.lists import Element, Lists
from archir.language.elaboration.network import is_tensor
from archir.language.elaboration.unknown import about_attribute_of_tensor, about_name
from archir.language.elaboration.values import (
    POISON,
    UNBOUND,
    Builtin,
    Items,
    Library,
    Operation,
    Tensor,
    kind,
    not_applied,
)
from archir.language.syntax import ast
from archir.ops.activation import Power, Scale, Shift
from archir.ops.arithmetic import Add, Div, Mul, Sub
from archir.ops.shape import Slice


class Evaluator(Lists):
    """Evaluates expressions to values."""

    def eval(self, tree: ast.Expr) -> Value:
        """The value of an expression under the condition at hand; POISON if it was complained about."""
        self.step(tree.span)
        value: Value = getattr(self, _method(type(tree).__name__))(tree)
        return value

    # names

    def eval_name(self, tree: ast.Name) -> Value:
        """A variable, definition, operation or function."""
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
        """What a name means at the top level of a file."""
        name = tree.text
        if name in module.names or name in module.imported:
            return module.lookup(name)
        if name in OPS and not OPS[name].internal:
            return Operation(OPS[name])
        if name in static.FUNCTIONS or name in static.FOLDS:
            return Builtin(name)
        if name in self.frame.local:
            return self.error("A0204", f"`{name}` is used before it is assigned", tree.span)
        if module.incomplete:
            return POISON
        return self.error("A0201", f"there is no `{name}`", tree.span, about_name(tree, self.known(module), module))

    def known(self, module: Module) -> Iterator[str]:
        """Names that would mean something."""
        yield from (name for name, value in self.frame.env.items() if value is not UNBOUND)
        yield from known_names(module)

    def eval_literal(self, tree: ast.Literal) -> Value:
        """A literal."""
        return tree.value

    # arithmetic and logic

    def eval_chain(self, tree: ast.Chain) -> Value:
        """Arithmetic from the left."""
        value = self.eval(tree.first)
        for op, operand in tree.rest:
            value = self.binary(op, value, self.eval(operand), tree.first.span.to(operand.span))
        return value

    def binary(self, op: str, a: Value, b: Value, span: Span) -> Value:
        """`a op b`, of numbers or tensors."""
        if a is POISON or b is POISON:
            return POISON
        if not (is_tensor(a) or is_tensor(b)):
            return self.lift(span, lambda x, y: static.binary(op, x, y), a, b)
        return self.by_kind(partial(self._with_tensor, op, span), (a, b), span)

    def _with_tensor(self, op: str, span: Span, a: Value, b: Value) -> Value:
        if not (is_tensor(a) or is_tensor(b)):
            return self.binary(op, a, b, span)
        if is_tensor(a) and is_tensor(b):
            return self._elementwise(op, a, b, span)
        tensor, number = (a, b) if is_tensor(a) else (b, a)
        if op == "**" and is_tensor(a):
            return self._power(tensor, self.lift(span, lambda x: _operand("+", x), number), span)
        if op == "/" and is_tensor(b):
            return self.binary("*", self._power(tensor, -1.0, span), number, span)
        if op not in ("*", "+") and not (op in ("-", "/") and is_tensor(a)):
            hint = "write `-x + 1` for `1 - x`" if op == "-" else None
            return self.error("A0404", f"`{op}` does not work on {kind(a)} and {kind(b)}", span, hint)
        amount = self.lift(span, lambda x: _operand(op, x), number)
        node = self.node(tensor, span)
        if node is None or amount is POISON:
            return POISON
        made = Scale(amount) if op in ("*", "/") else Shift(amount)
        return self.add(made, (node,), span, self.named(made.name, False))

    def _power(self, tensor: Value, exponent: Value, span: Span) -> Value:
        node = self.node(tensor, span)
        if node is None or exponent is POISON:
            return POISON
        return self.add(Power(exponent), (node,), span, self.named(Power.name, False))

    def by_kind(self, rule: Callable[..., Value], values: Sequence[Value], span: Span, position: int = 0) -> Value:
        """What a rule makes of values; where choices make one of them a tensor, or something else, of each by itself.

        Those before `position` are known to be the one or the other.
        """
        if position == len(values):
            return rule(*values)
        value = self.here(values[position])
        if not varies(value) or len({type(leaf) is Tensor for leaf in leaves(value)}) < 2:
            return self.by_kind(rule, values, span, position + 1)

        def there() -> Value:
            return self.by_kind(rule, [self.here(one) for one in values], span, position + 1)

        return self.either(self.lift(span, lambda leaf: type(leaf) is Tensor, value), there, there, span)

    def _elementwise(self, op: str, a: Value, b: Value, span: Span) -> Value:
        kinds: dict[str, type[Op]] = {"+": Add, "-": Sub, "*": Mul, "/": Div}
        if op not in kinds:
            return self.error(
                "A0404", f"`{op}` does not work on two tensors", span, "tensors have `+`, `-`, `*` and `/`"
            )
        left, right = self.node(a, span), self.node(b, span)
        if left is None or right is None:
            return POISON
        made = kinds[op]()
        return self.add(made, (left, right), span, self.named(made.name, False))

    def eval_signed(self, tree: ast.Signed) -> Value:
        """A sign; `-x` of a tensor scales by -1."""
        return self.by_kind(partial(self._signed, tree), [self.eval(tree.operand)], tree.span)

    def _signed(self, tree: ast.Signed, value: Value) -> Value:
        if is_tensor(value):
            return value if tree.sign == "+" else self.binary("*", value, -1, tree.span)
        return self.lift(tree.span, lambda x: static.sign(tree.sign, x), value)

    def eval_range(self, tree: ast.Range) -> Value:
        """A half-open range."""
        return self.lift(tree.span, static.interval, self.eval(tree.start), self.eval(tree.stop))

    def eval_comparison(self, tree: ast.Comparison) -> Value:
        """A chain of comparisons: all of them hold."""
        result: Value = True
        left, left_span = self.eval(tree.first), tree.first.span
        for op, operand in tree.rest:
            right = self.eval(operand)
            span = left_span.to(operand.span)
            result = self.lift(span, _both, result, self.compare(op, left, right, span))
            left, left_span = right, operand.span
        return result

    def compare(self, op: str, a: Value, b: Value, span: Span) -> Value:
        """One comparison. What could not hold for any outcome of the choices, since kinds differ, is refused."""
        if op not in equality.RULES:
            return self.lift(span, lambda x, y: static.compare(op, x, y), a, b)
        found = self.lift(span, equality.RULES[op], a, b)
        if found is POISON:
            return POISON
        reached = set(leaves(self.here(found)))
        if reached == {None}:
            return self.lift(span, lambda x, y: equality.refuse(op, x, y), a, b)
        wanted = op in ("==", "in")
        return self.lift(span, lambda leaf: bool(leaf) is wanted, found)

    def eval_not(self, tree: ast.Not) -> Value:
        """Negation."""
        return self.lift(tree.span, lambda x: not x, self.condition(tree.operand))

    def condition(self, tree: ast.Expr) -> Value:
        """An expression that must be true or false."""
        return self.checked(tree.span, static.truth, self.eval(tree))

    def eval_logical(self, tree: ast.Logical) -> Value:
        """`and`, `or`; what does not matter is not evaluated."""
        result: Value = tree.word == "and"
        for operand in tree.operands:
            open_ = result if tree.word == "and" else self.lift(tree.span, lambda x: not x, result)
            if open_ is False or open_ is POISON:
                return result
            value = result
            with self.under(open_) as possible:
                value = self.condition(operand) if possible else result
            if value is POISON:
                return POISON
            result = if_else(open_, value, result)
        return result

    def eval_if_else(self, tree: ast.IfElse) -> Value:
        """The branch that the condition picks."""
        condition = self.condition(tree.condition)
        if condition is POISON:
            return POISON
        return self.either(condition, lambda: self.eval(tree.then), lambda: self.eval(tree.otherwise), tree.span)

    def either(self, condition: Value, one: Element, other: Element, span: Span) -> Value:
        """Both of two values under their conditions, merged; only one if the condition is settled."""
        condition = restrict(condition, self.path)
        if condition is True:
            return one()
        if condition is False:
            return other()
        values: dict[bool, Value] = {}
        for holds, value in ((True, one), (False, other)):
            with self.under(condition if holds else negate(condition)):
                values[holds] = value()
        if len(values) < 2:
            return self.only(values.values())
        return POISON if POISON in values.values() else self.merged(condition, values[True], values[False], span)

    def only(self, values: Collection[Value]) -> Value:
        """What the other alternatives leave, which the requirements rule out. Raises Excluded if nothing is left."""
        if not values:
            raise Excluded
        return next(iter(values))

    # parts of values

    def eval_index(self, tree: ast.Index) -> Value:
        """`items[position]`."""
        value, position = self.eval(tree.value), self.eval(tree.position)
        return self.lift(tree.span, static.index, value, position)

    def eval_slice(self, tree: ast.Slice) -> Value:
        """`items[start:stop]`; of a tensor, a slice of its channels."""
        value = self.eval(tree.value)
        start, stop = (None if bound is None else self.eval(bound) for bound in (tree.start, tree.stop))
        return self.by_kind(lambda here: self._sliced(tree, here, start, stop), [value], tree.span)

    def _sliced(self, tree: ast.Slice, value: Value, start: Value, stop: Value) -> Value:
        if not is_tensor(value):
            return self.lift(tree.span, static.part, value, start, stop)
        start, stop = (
            self.lift(tree.span, lambda x: x if x is None else static.integer(x, "a slice bound"), bound)
            for bound in (start, stop)
        )
        node = self.node(value, tree.span)
        if node is None or start is POISON or stop is POISON:
            return POISON
        return self.add(Slice(0 if start is None else start, stop), (node,), tree.span, self.named("slice", False))

    def eval_attribute(self, tree: ast.Attribute) -> Value:
        """A static property of a tensor, or a name of a library."""
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
                hint = about_attribute_of_tensor(tree.name.text, ATTRIBUTES, self.frame.module)
                raise RuleError(f"a tensor has no attribute `{tree.name}`", hint, "A0205")
            return attribute(self.types[leaf.node], tree.name.text)

        return self.here(self.lift(tree.name.span, read, value))

    @abstractmethod
    def eval_call(self, tree: ast.Call) -> Value:
        """A call."""

    @abstractmethod
    def eval_pipe(self, tree: ast.Pipe) -> Value:
        """A pipe."""

    @abstractmethod
    def eval_match(self, tree: ast.Match) -> Value:
        """A match."""

    @abstractmethod
    def eval_choose_value(self, tree: ast.ChooseValue) -> Value:
        """A choice among values."""

    @abstractmethod
    def eval_choose_one(self, tree: ast.ChooseOne) -> Value:
        """A choice among expressions."""

    @abstractmethod
    def eval_choose_subset(self, tree: ast.ChooseSubset) -> Value:
        """A choice of some of a list."""


@cache
def _method(kind_of: str) -> str:
    return "eval" + "".join(f"_{char.lower()}" if char.isupper() else char for char in kind_of)


def _both(a: bool, b: bool) -> bool:
    return a and b


def _operand(op: str, x: Value) -> float:
    """The number that a tensor is scaled or shifted by under `op`."""
    if not static.is_number(x):
        raise RuleError(f"`{op}` does not work on a tensor and {kind(x)}", not_applied(x), "A0301")
    if op == "-":
        return static.decimal(static.sign("-", x))
    return static.decimal(static.binary("/", 1, x) if op == "/" else x)


def known_names(module: Module) -> Iterator[str]:
    """Names that mean something everywhere in a file."""
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
"""Static properties of tensors."""


def attribute(x: TensorType, name: str) -> Value:
    """A static property of a tensor of this type. RuleError if it has none, such as the height of a vector."""
    if name in ("channels", "features") and x.rank == 0:
        raise RuleError(f"{x} has no channels", code="A0402")
    return ATTRIBUTES[name](x)


def _axis(x: TensorType, axis: int, ranks: tuple[int, ...], name: str) -> Value:
    if x.rank not in ranks:
        raise RuleError(f"{x} has no {name}", code="A0402")
    return x.dims[axis]
