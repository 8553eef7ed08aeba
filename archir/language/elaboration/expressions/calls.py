"""Calls: of operations, blocks, cells and static functions, and pipes into them."""

from __future__ import annotations

import types
from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args, get_origin

from archir.base.errors import Note, RuleError, Span, require, suggest
from archir.base.work import WorkError
from archir.ir.choices.cases import Choice, Value, leaves, parted, same, varies
from archir.ir.choices.conditions import both, either, hull
from archir.ir.choices.lifting import Excluded
from archir.ir.op import Op, attribute_names, attribute_types, needed_attributes
from archir.ir.typing import MOST_ELEMENTS
from archir.language.elaboration.bounds import Bounds
from archir.language.elaboration.cell_cache import Recording, copyable, likeness, replay, tensors
from archir.language.elaboration.context import A_STEP, MOST_CALLS, Frame, Limits, Scope
from archir.language.elaboration.expressions import static
from archir.language.elaboration.expressions.evaluate import Evaluator
from archir.language.elaboration.expressions.values import (
    POISON,
    UNBOUND,
    Block,
    Builtin,
    Items,
    Operation,
    Tensor,
    flat,
    kind,
    show,
)
from archir.language.elaboration.files import Module
from archir.language.elaboration.names.foreign import about_attribute
from archir.language.elaboration.network import is_tensor
from archir.language.syntax import ast

MOST_RANK = 1_000
"""Items of an attribute that is a list."""


@dataclass(frozen=True)
class Given:
    """An argument that was evaluated."""

    name: str | None
    value: Value
    span: Span


@dataclass
class Cell:
    """What is known of a cell's choices: from its first call, and from the call in progress."""

    first: Span
    path: Value = True
    """The condition of the first call."""
    known: dict[str, tuple[Choice, Value]] = field(default_factory=dict)
    """Its choices, and the conditions under which they are there."""
    met: dict[str, Value] = field(default_factory=dict)
    complete: bool = False
    calls: dict[Hashable, Recording] = field(default_factory=dict)


class Caller(Evaluator):
    """Evaluates calls."""

    assigned: ast.Name | None = None
    """The variable that the expression at hand is assigned to, which names a choice without a label."""

    def __init__(self, limits: Limits, module: Module, name: str) -> None:
        super().__init__(limits, module, name)
        self.start()
        self.bounds = Bounds()
        self.work = Bounds(calls=True)
        self.cells: dict[str, Cell] = {}
        self.cell: Cell | None = None

    def eval_call(self, tree: ast.Call) -> Value:
        """`callee(arguments)`."""
        return self.call_tree(tree, ())

    def eval_pipe(self, tree: ast.Pipe) -> Value:
        """`first |> target |> ...`."""
        value, span = self.eval(tree.first), tree.first.span
        for target in tree.targets:
            value = self.feed(target, Given(None, value, span))
            span = span.to(target.span)
        return value

    def feed(self, target: ast.Expr, given: Given, here: bool = False) -> Value:
        """The target of a pipe, with the value that is piped into it. `here`: in the scope at hand, not one below."""
        match target:
            case ast.Call():
                return self.call_tree(target, (given,), here)
            case ast.Pipe():
                value, span = self.feed(target.first, given), given.span
                for further in target.targets:
                    value = self.feed(further, Given(None, value, span))
                return value
            case ast.ChooseOne():
                return self.choose_one(target, given)
            case ast.Match():
                return self.match(target, given)
            case ast.IfElse():
                condition = self.condition(target.condition)
                if condition is POISON:
                    return POISON
                then, otherwise = target.then, target.otherwise
                return self.either(
                    condition, lambda: self.feed(then, given), lambda: self.feed(otherwise, given), target.span
                )
        return self.call(self.eval(target), [given], target.span, here)

    def choose_one(self, tree: ast.ChooseOne, given: Given | None) -> Value:
        """A choice among expressions, or among targets of a pipe."""
        raise AssertionError

    def match(self, tree: ast.Match, given: Given | None) -> Value:
        """A match, into whose arms a value may be piped."""
        raise AssertionError

    def call_tree(self, tree: ast.Call, first: Sequence[Given], here: bool = False) -> Value:
        """A call, with arguments that come before the written ones."""
        callee = self.eval(tree.callee)
        given = [*first]
        label, self.assigned = self.assigned, None
        for argument in tree.arguments:
            name = argument.name.text if argument.name else None
            span = argument.name.span if argument.name else argument.value.span
            given.append(Given(name, self.eval(argument.value), span))
        self.assigned = label
        if callee is POISON or any(argument.value is POISON for argument in given):
            return POISON
        if tree.own or (isinstance(callee, Block) and callee.definition.own):
            given = [replace(argument, value=self._one_tensor(argument)) for argument in given]
            if any(argument.value is POISON for argument in given):
                return POISON
            if any(varies(argument.value) for argument in given):
                return self._own(callee, given, tree.span)
        return self.call(callee, given, tree.span, here)

    def call(self, callee: Value, given: list[Given], span: Span, here: bool = False) -> Value:
        """A call of whatever the callee is, for each of the things it may be."""
        if callee is POISON or any(argument.value is POISON for argument in given):
            return POISON
        if varies(callee):
            return self._each_case(callee, lambda leaf: self.call(leaf, given, span), span)
        if isinstance(callee, Operation):
            return self.call_op(callee.op, given, span, here)
        if isinstance(callee, Block):
            return self.call_block(callee, given, span, here)
        if isinstance(callee, Builtin):
            return self.call_builtin(callee.name, given, span)
        hints = {int: "to scale, write `x * 2`", Tensor: "operations are called: `x |> relu`", Items: "`items[0]`"}
        hint = next((hint for type_, hint in hints.items() if isinstance(callee, type_)), None)
        return self.error("A0206", f"{kind(callee)} cannot be called", span, hint)

    def _each_case(self, value: Value, then: Any, span: Span) -> Value:
        """`then` of each leaf, run where the value is that leaf."""
        found: list[tuple[Value, Value]] = []
        for leaf, condition in parted(value):
            with self.under(condition) as possible:
                if possible:
                    found.append((condition, then(leaf)))
        return self.cases(found, span)

    def cases(self, found: list[tuple[Value, Value]], span: Span) -> Value:
        """Values merged by the conditions that they were found under, of which the last is what the others leave."""
        if any(value is POISON for _, value in found):
            return POISON
        result = self.only([value for _, value in found])
        for condition, value in found[1:]:
            result = self.merged(condition, value, result, span)
        return result

    def _one_tensor(self, argument: Given) -> Value:
        """A tensor as one node, whatever it depends on; any other value as it is."""
        try:
            return self.settled(argument.value, set(), argument.span)
        except RuleError as error:
            return self.refuse(error, argument.span)

    def _own(self, callee: Value, given: list[Given], span: Span) -> Value:
        """A call for each combination of values that its arguments may have, with weights of its own."""
        varied = [argument.value for argument in given if varies(argument.value)]
        combined = self.lift(span, lambda *values: Items(values), *varied)
        if combined is POISON:
            return POISON

        def one(leaf: Items) -> Value:
            values = iter(leaf)
            plain = [Given(a.name, next(values) if varies(a.value) else a.value, a.span) for a in given]
            return self.call(callee, plain, span)

        return self._each_case(combined, one, span) if varies(combined) else one(combined)

    # static functions

    def call_builtin(self, name: str, given: list[Given], span: Span) -> Value:
        """A static function; `sum` adds tensors, too."""
        named = next((argument for argument in given if argument.name), None)
        if named is not None:
            return self.error("A0203", f"`{name}` takes no named arguments", named.span)
        values = [argument.value for argument in given]
        if name in static.FOLDS:
            if not values:
                return self.error("A0207", f"`{name}` needs a list or several values", span)
            items = values[0] if len(values) == 1 else self.items(values, span)
            return self._fold(name, self.checked(span, static.sequence, items), span)
        least, most, rule = static.FUNCTIONS[name]
        if name in static.DEEP:
            values = [self.checked(span, flat, value) for value in values]
        if not least <= len(values) <= most:
            wanted = str(least) if least == most else f"{least} or more"
            return self.error("A0207", f"`{name}` takes {wanted} arguments, got {len(values)}", span)
        return self.lift(span, rule, *values)

    def _fold(self, name: str, items: Value, span: Span) -> Value:
        if items is POISON:
            return POISON
        if varies(items):
            return self._each_case(items, lambda leaf: self._fold(name, leaf, span), span)
        start, rule = static.FOLDS[name]
        self.spend(A_STEP * len(items), span)
        if len(items) > 10_000:
            return self.error("A0603", f"`{name}` of a list of {len(items)} items", span)
        if not items:
            return start if start is not None else self.error("A0308", f"`{name}` of an empty list", span)
        total: Value = items[0] if name in ("sum", "min", "max") else start
        for item in items[1:] if name in ("sum", "min", "max") else items:
            total = self.binary("+", total, item, span) if name == "sum" else self.lift(span, rule, total, item)
        return total

    # operations

    def call_op(self, op: type[Op], given: list[Given], span: Span, here: bool) -> Value:
        """A node of the operation; one for each of the lists of operands that there may be."""
        variadic = op.operands[:1] and op.operands[0].startswith("*")
        lists = [i for i, argument in enumerate(given) if argument.name is None and _is_list_somewhere(argument.value)]
        if variadic and lists:
            first = given[lists[0]]

            def one(leaf: Value) -> Value:
                known = [replace(first, value=leaf) if argument is first else argument for argument in given]
                return self.call_op(op, known, span, here)

            return self._each_case(first.value, one, span)
        operands: list[tuple[Value, Span]] = []
        attributes: dict[str, Value] = {}
        names = attribute_names(op)
        positional = iter(names)
        for argument in given:
            if (
                argument.name is None
                and not attributes
                and self._is_operand(op, argument, len(operands), bool(variadic))
            ):
                operands += self._operands(argument) if variadic else [(argument.value, argument.span)]
                continue
            name = argument.name or next(positional, None)
            if name is None:
                takes = [_counted(len(op.operands), "tensor"), *([_counted(len(names), "attribute")] if names else [])]
                return self.error("A0207", f"`{op.name}` takes {' and '.join(takes)} at the most", argument.span)
            if name in op.operands and name not in names and op.operands.index(name) == len(operands):
                operands.append((argument.value, argument.span))
                continue
            if name not in names:
                hint = about_attribute(name, names)
                return self.error("A0203", f"`{op.name}` has no attribute `{name}`", argument.span, hint)
            if name in attributes:
                return self.error("A0207", f"`{op.name}` is given `{name}` twice", argument.span)
            attributes[name] = self.attribute_value(op, name, argument)
        for value, place in operands:
            if not is_tensor(value) and value is not POISON:
                text = f"`{op.name}`'s operand must be a tensor, got {kind(value)}"
                return self.error("A0404", text, place, f"write `x |> {op.name}(...)`")
        nodes = [self.node(value, place, f"`{op.name}`'s operand") for value, place in operands]
        missing = op.operands[len(nodes) : len(op.operands) - op.optional]
        if missing and not (variadic and nodes):
            wanted = missing[0].lstrip("*")
            return self.error("A0207", f"`{op.name}` needs a tensor `{wanted}`", span)
        for name in needed_attributes(op):
            if name not in attributes:
                return self.error("A0207", f"`{op.name}` needs `{name}`", span)
        if None in nodes or any(value is POISON for value in attributes.values()):
            return POISON
        return self.add(
            op(**attributes), tuple(node for node in nodes if node is not None), span, self.named(op.name, here)
        )

    def _is_operand(self, op: type[Op], argument: Given, have: int, variadic: bool) -> bool:
        if variadic:
            return is_tensor(argument.value) or isinstance(argument.value, Items)
        if have >= len(op.operands):
            return False
        return is_tensor(argument.value) or have < len(op.operands) - op.optional

    def _operands(self, argument: Given) -> list[tuple[Value, Span]]:
        value = argument.value
        return [(item, argument.span) for item in value] if isinstance(value, Items) else [(value, argument.span)]

    def attribute_value(self, op: type[Op], name: str, argument: Given) -> Value:
        """An attribute's value in its declared type."""
        wanted = attribute_types(op)[name]
        what = f"`{name}` of `{op.name}`"
        value = self.checked(argument.span, flat, argument.value)
        return self.checked(argument.span, lambda leaf: convert(leaf, wanted, what), value)

    # blocks

    def call_block(self, block: Block, given: list[Given], span: Span, here: bool) -> Value:
        """A block expanded in place, in a scope of its own; a cell's choices are made once."""
        frame = self._entered(block, span)
        least = self.bounds.block(block)
        if len(self.graph) + least > self.limits.nodes:
            self.too_many_nodes(span)
        least_work = (A_STEP + 1) * self.work.block(block)
        if least_work > self.budget.left:
            self.refuse(WorkError(), span)
        cell = block.definition.word == "cell"
        scope = self.scope if here and not self.scope.used else self.scope.child(block.name)
        made = Scope(scope.path, block.name) if cell else scope
        if not self.bind_params(frame, made, block, given, span):
            return POISON
        self.graph.blocks[scope.path] = block.name
        if cell:
            return self._in_cell(block, frame, made, span)
        return self._in_frame(frame, scope, block.definition)

    def _entered(self, block: Block, span: Span) -> Frame:
        depth, again = 0, False
        caller: Frame | None = self.frame
        while caller is not None:
            again |= caller.block is not None and caller.block.definition is block.definition
            caller, depth = caller.caller, depth + 1
        if again and block.definition.word == "cell":
            self.stop("A0210", f"`{block.name}` calls itself", span, "a cell chooses once: a `block` may call itself")
        if again and depth > MOST_CALLS:
            hint = "it needs a case in which it does not, such as `return x if n == 0 else ...`"
            self.stop("A0210", f"`{block.name}` calls itself more than {MOST_CALLS} levels deep", span, hint)
        if depth > MOST_CALLS:
            self.stop("A0602", f"calls nest deeper than {MOST_CALLS} levels", span)
        return Frame(block.module, block=block, called=span, caller=self.frame, local=block.local)

    def bind_params(self, frame: Frame, scope: Scope, block: Block, given: list[Given], span: Span) -> bool:
        """Put arguments, and defaults that are evaluated in a scope, into the callee's frame; whether they fit."""
        params = block.definition.params
        names = [param.name.text for param in params]
        note = Note(f"`{block.name}` is defined here", block.definition.name.span)
        self.spend(len(given) * len(names) / 64, span)
        for position, argument in enumerate(given):
            name = argument.name if argument.name else names[position] if position < len(names) else None
            if name is None:
                text = f"`{block.name}` takes {len(names)} arguments, got {len(given)}"
                self.error("A0207", text, argument.span, None, note)
                return False
            if name not in names:
                self.error(
                    "A0203", f"`{block.name}` has no parameter `{name}`", argument.span, suggest(name, names), note
                )
                return False
            if name in frame.env:
                self.error("A0207", f"`{block.name}` is given `{name}` twice", argument.span, None, note)
                return False
            frame.env[name] = argument.value
        caller, self.frame = self.frame, frame
        outer, self.scope = self.scope, scope
        try:
            for param in params:
                if param.name.text not in frame.env:
                    if param.default is None:
                        self.frame = caller
                        self.error("A0207", f"`{block.name}` needs `{param.name}`", span, None, note)
                        return False
                    name, default = f"{block.name}.{param.name}", param.default
                    whole = block.definition.word == "cell"
                    frame.env[param.name.text] = self._once(name, default, span) if whole else self.eval(default)
        finally:
            self.frame, self.scope = caller, outer
        return not any(value is POISON for value in frame.env.values())

    def _once(self, name: str, default: ast.Expr, span: Span) -> Value:
        """A default of a cell, which makes its choices once, as cells do, for all calls that have it."""
        cell = self.cells.setdefault(name, Cell(span))
        outer, self.cell = self.cell, cell
        cell.met = {}
        try:
            value = self.eval(default)
        finally:
            self.cell = outer
        if value is not POISON or not cell.complete:
            self._compare_cell(name, cell, span)
        return value

    def _in_cell(self, block: Block, frame: Frame, scope: Scope, span: Span) -> Value:
        cell = self.cells.setdefault(block.name, Cell(span))
        question = likeness(self, block, frame.env) if self.path is True else None
        known = cell.calls.get(question) if question is not None else None
        if known is not None and len(self.graph) + known.stop - known.start <= self.limits.nodes:
            return replay(self, known, scope.path, tensors(frame.env))
        start, called, problems = len(self.graph), len(self.graph.blocks), len(self.problems)
        arguments = tensors(frame.env)
        outer, self.cell = self.cell, cell
        cell.met = {}
        try:
            result = self._in_frame(frame, scope, block.definition)
        finally:
            self.cell = outer
        if result is not POISON or not cell.complete:
            self._compare_cell(block.name, cell, span)
        if question is not None and copyable(result) and len(self.problems) == problems:
            blocks = [(path[len(scope.path) :], name) for path, name in list(self.graph.blocks.items())[called:]]
            cell.calls[question] = Recording(start, len(self.graph), scope.path, arguments, tuple(blocks), result)
        return result

    def _compare_cell(self, name: str, cell: Cell, span: Span) -> None:
        if not cell.complete:
            cell.complete, cell.path = True, self.path
            cell.known = {path: (self.graph.decisions[path].choice, active) for path, active in cell.met.items()}
            return
        own = {choice for choice, _ in cell.known.values()}
        for path in [*cell.known, *cell.met]:
            known, met = cell.known.get(path), cell.met.get(path)
            if known is None or met is None or not _agree((cell.path, known[1]), (self.path, met), own):
                self.cell_differs(name, path, cell, span)
                return

    def cell_differs(self, name: str, path: str, cell: Cell, span: Span) -> Value:
        """Report that two calls of a cell do not make the same choices."""
        text = f"the choice `{path}` of cell `{name}` does not come out alike in two calls"
        hint = "a cell's choices must not depend on its arguments; a `block` has its own"
        return self.error("A0507", text, span, hint, Note("the other call", cell.first))

    def _in_frame(self, frame: Frame, scope: Scope, definition: ast.Definition) -> Value:
        caller, self.frame = self.frame, frame
        try:
            with self.inside(scope):
                self.execute(definition.body)
                return self.result(frame, definition)
        finally:
            self.frame = caller

    def execute(self, body: ast.Body) -> None:
        """Run statements."""
        raise AssertionError

    def result(self, frame: Frame, definition: ast.Definition) -> Value:
        """What a frame returned, merged over the conditions under which it did."""
        if not frame.returned:
            name = definition.name
            return self.error("A0211", f"`{name}` returns nothing", name.span, "end it with `return x`")
        returns: Value = False
        value: Value = UNBOUND
        for condition, one in reversed(frame.returned):
            if one is POISON:
                return POISON
            if one is not UNBOUND:
                value = one if value is UNBOUND else self.merged(condition, one, value, definition.name.span)
            returns = either(returns, condition)
        missing = self.checked(definition.name.span, lambda here: _returns(here, definition.name.text), returns)
        if value is UNBOUND:
            raise Excluded
        return POISON if missing is POISON else value


def _is_list_somewhere(value: Value) -> bool:
    return varies(value) and any(isinstance(leaf, Items) for leaf in leaves(value))


def _agree(one: tuple[Value, Value], other: tuple[Value, Value], own: Container[Choice]) -> bool:
    """Whether a choice is there alike in two calls of a cell, each with the condition of the call and of the choice:
    where both are made, and seen from the cell's `own` choices alone."""
    (path, active), (path_2, active_2) = one, other
    if not same(both(active, path_2), both(active_2, path)):
        return False
    path, active, path_2, active_2 = (hull(condition, own) for condition in (path, active, path_2, active_2))
    return same(both(active, path_2), both(active_2, path))


def _returns(here: bool, name: str) -> bool:
    if not here:
        raise RuleError(f"`{name}` does not return on every path", code="A0211")
    return here


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def convert(value: Value, wanted: Any, what: str) -> Value:
    """A plain value in an attribute's declared type. RuleError if it does not fit."""
    options = get_args(wanted) if isinstance(wanted, types.UnionType) else (wanted,)
    if value is None and type(None) in options:
        return None
    for option in options:
        if option is int and isinstance(value, int) and not isinstance(value, bool):
            return _sized(value, what)
        if option is bool and isinstance(value, bool):
            return value
        if option is str and isinstance(value, str):
            return value
        if option is float and static.is_number(value):
            return static.decimal(value)
        if get_origin(option) is Literal and value in get_args(option):
            return value
        if get_origin(option) is tuple and isinstance(value, (Items, range)):
            require(len(value) <= MOST_RANK, f"{what} has more than {MOST_RANK} items", code="A0603")
            return tuple(_sized(static.integer(item, f"each item of {what}"), what) for item in value)
    if int in options and (static.is_number(value) or not isinstance(value, (str, Items, Tensor))):
        return static.integer(value, what)
    raise RuleError(f"{what} must be {_wanted(options)}, got {show(value)}", code="A0309")


def _sized(value: int, what: str) -> int:
    require(abs(value) <= MOST_ELEMENTS, f"{what} must be less than 2**63", code="A0309")
    return value


def _wanted(options: Sequence[Any]) -> str:
    words = {int: "an integer", bool: "true or false", str: "a string", float: "a number", type(None): "none"}
    found = []
    for option in options:
        if get_origin(option) is Literal:
            found += [f'"{name}"' for name in get_args(option)]
        else:
            found.append(words.get(option, "a list of integers"))
    return " or ".join(found)
