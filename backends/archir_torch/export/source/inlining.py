"""Source code of lowering rules: as an inlined expression, or as the functions that the rule consists of.

A rule whose body is a single `return` is partially evaluated: parameters are replaced by their values, and branches
that attributes decide are removed, so that `global_avg_pool` of a map becomes `x.mean((2, 3))`.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from typing import Any


def expression(
    function: Callable[..., Any], operands: Sequence[str], ranks: Sequence[int], values: Mapping[str, Any]
) -> str | None:
    """Return the source of `function(*operands, **values)` as one expression, or None if that is not possible.

    `ranks` are the numbers of axes of the operands, including the batch axis. The values are constants.
    """
    tree = definition(function)
    names = [argument.arg for argument in tree.args.args]
    if tree.args.vararg is not None or len(names) != len(operands):
        return None
    bindings: dict[str, ast.expr] = {
        name: ast.parse(text, mode="eval").body for name, text in zip(names, operands, strict=True)
    }
    bindings |= {name: ast.parse(repr(value), mode="eval").body for name, value in values.items()}
    partial = _PartialEvaluator(bindings, dict(zip(operands, ranks, strict=True)))
    result = _return_expression([statement for statement in tree.body if not _is_docstring(statement)], partial)
    return None if result is None or partial.is_unresolved else ast.unparse(ast.fix_missing_locations(result))


def _return_expression(body: Sequence[ast.stmt], partial: _PartialEvaluator) -> ast.expr | None:
    """Return the expression that statements return, if constants decide all branches; otherwise None."""
    for statement in body:
        match statement:
            case ast.Return(value=ast.expr() as value):
                result: ast.expr = partial.visit(ast.parse(ast.unparse(value), mode="eval").body)
                return result
            case ast.If(test=test, orelse=[]):
                outcome = partial.visit(ast.parse(ast.unparse(test), mode="eval").body)
                if not isinstance(outcome, ast.Constant):
                    return None
                if outcome.value:
                    return _return_expression(statement.body, partial)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Name(id=name)):
                bound = partial.values.get(name)
                if not isinstance(bound, ast.Tuple) or len(bound.elts) != len(targets):
                    return None
                partial.values |= {t.id: v for t, v in zip(targets, bound.elts, strict=True) if isinstance(t, ast.Name)}
            case _:
                return None
    return None


class _PartialEvaluator(ast.NodeTransformer):
    """Partial evaluator: replaces parameters by their values and selects branches that constants decide.

    `is_unresolved` becomes True if the result still contains a conditional or a generator expression.
    """

    def __init__(self, values: Mapping[str, ast.expr], ranks: Mapping[str, int]) -> None:
        self.values, self.ranks = dict(values), ranks
        self.is_unresolved = False

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.values.get(node.id, node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="dim"), args=[]):
                operand = ast.unparse(self.visit(value))
                if operand in self.ranks:
                    return ast.Constant(self.ranks[operand])
        self.generic_visit(node)
        node.args = [part for argument in node.args for part in _unpack_starred(argument)]
        node.keywords = [keyword for keyword in node.keywords if not _is_default(node, keyword)]
        while node.args and isinstance(node.func, ast.Attribute) and _is_default_argument(node):
            node.args.pop()
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        return _fold(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        if all(isinstance(value, ast.Constant) for value in node.values):
            truths = [bool(value.value) for value in node.values if isinstance(value, ast.Constant)]
            return ast.Constant(any(truths) if isinstance(node.op, ast.Or) else all(truths))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test = self.visit(node.test)
        if isinstance(test, ast.Constant):
            branch: ast.expr = self.visit(node.body if test.value else node.orelse)
            return branch
        self.is_unresolved = True
        node.test, node.body, node.orelse = test, self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return _fold(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        """Evaluate a generator expression; its loop variables shadow parameters of the same name."""
        self.is_unresolved = True
        loop_names = {
            target.id for part in node.generators for target in ast.walk(part.target) if isinstance(target, ast.Name)
        }
        outer, self.values = self.values, {name: value for name, value in self.values.items() if name not in loop_names}
        self.generic_visit(node)
        self.values = outer
        return node


def evaluate_text(text: str, values: Mapping[str, ast.expr]) -> str:
    """Partially evaluate statements: replace names by their values, and remove branches that these values decide."""
    return ast.unparse(ast.fix_missing_locations(_PartialEvaluator(values, {}).visit(ast.parse(text))))


def specialise_rule(function: Callable[..., Any], ranks: Sequence[int], fixed: Mapping[str, Any]) -> str:
    """Return the source of a lowering rule specialised to operand ranks and to fixed values of some parameters.

    Fixed parameters are removed from its signature, and branches that ranks or values decide are resolved.
    """
    tree = definition(function)
    names = [argument.arg for argument in tree.args.args[: len(ranks)]]
    values: dict[str, ast.expr] = {name: ast.Constant(value) for name, value in fixed.items()}
    partial = _PartialEvaluator(values, dict(zip(names, ranks, strict=False)))
    body: list[ast.stmt] = []
    for statement in tree.body:
        match statement:
            case ast.If(test=test, body=inner, orelse=[]):
                condition = partial.visit(ast.parse(ast.unparse(test), mode="eval").body)
                if isinstance(condition, ast.Constant):
                    body += inner if condition.value else []
                    if condition.value and isinstance(inner[-1], ast.Return):
                        break
                    continue
        body.append(statement)
    stored = {n.id for part in body for n in ast.walk(part) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if body == tree.body or (stored & fixed.keys()):
        return sources(function)[function.__name__]
    shorter = ast.FunctionDef(tree.name, _drop_parameters(tree.args, fixed), body, [], tree.returns)
    if fixed:
        shorter.body = ast.parse(evaluate_text("\n".join(map(ast.unparse, body)), values)).body
    return ast.unparse(ast.fix_missing_locations(shorter))


def _drop_parameters(signature: ast.arguments, names: Container[str]) -> ast.arguments:
    """Return a function signature without the given parameters, which must have defaults."""
    plain = len(signature.args) - len(signature.defaults)
    args = [(parameter, i) for i, parameter in enumerate(signature.args) if parameter.arg not in names]
    keyword_only = [
        (o, d) for o, d in zip(signature.kwonlyargs, signature.kw_defaults, strict=True) if o.arg not in names
    ]
    return ast.arguments(
        posonlyargs=[],
        args=[parameter for parameter, _ in args],
        defaults=[signature.defaults[i - plain] for _, i in args if i >= plain],
        kwonlyargs=[parameter for parameter, _ in keyword_only],
        kw_defaults=[default for _, default in keyword_only],
    )


def _unpack_starred(argument: ast.expr) -> list[ast.expr]:
    """Unpack a starred tuple argument: `*(2, 3)` becomes `2, 3`."""
    if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Tuple):
        return argument.value.elts
    return [argument]


def _fold(node: ast.expr) -> ast.expr:
    """Return an expression evaluated to a constant if all its operands are constants.

    Otherwise returns the expression itself.
    """
    try:
        value = _constant_value(node)
    except ValueError:
        return node
    return ast.Constant(value)


def _constant_value(node: ast.expr) -> Any:
    """Evaluate an expression of constants. Raises ValueError if it contains anything else."""
    match node:
        case ast.Constant():
            return node.value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_constant_value(operand)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            a, b = _constant_value(left), _constant_value(right)
            table: dict[type[ast.cmpop], Callable[[], bool]] = {
                ast.Eq: lambda: a == b,
                ast.NotEq: lambda: a != b,
                ast.Lt: lambda: a < b,
                ast.Gt: lambda: a > b,
                ast.GtE: lambda: a >= b,
                ast.Is: lambda: a is b,
                ast.IsNot: lambda: a is not b,
            }
            if type(op) in table:
                return table[type(op)]()
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _constant_value(left) + _constant_value(right)
    raise ValueError(node)


_DEFAULTS = {
    "inplace": False, "approximate": "none", "keepdim": False, "scale": None, "attn_mask": None, "is_causal": False,
}  # fmt: skip
"""Default values of keyword arguments of torch functions; arguments with these values are not emitted."""


def _is_default(call: ast.Call, keyword: ast.keyword) -> bool:
    """Return whether a keyword argument of a method call has its default value."""
    return (
        keyword.arg in _DEFAULTS
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value == _DEFAULTS[keyword.arg]
        and isinstance(call.func, ast.Attribute)
    )


def _is_default_argument(call: ast.Call) -> bool:
    """Return whether the last positional argument of a call is the `inplace=False` of an activation."""
    last = call.args[-1]
    activation = isinstance(call.func, ast.Attribute) and call.func.attr in ("relu", "relu6")
    return activation and len(call.args) == 2 and isinstance(last, ast.Constant) and last.value is False


def _is_docstring(statement: ast.stmt) -> bool:
    """Return whether a statement is a string expression, such as a docstring."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


@cache
def definition(function: Callable[..., Any]) -> ast.FunctionDef:
    """Return the syntax tree of a lowering rule's function."""
    result = _definitions(function.__module__)[function.__name__]
    assert isinstance(result, ast.FunctionDef)
    return result


@cache
def _definitions(module: str) -> dict[str, ast.stmt]:
    """Return the top-level functions, classes and constants of a module by name."""
    result: dict[str, ast.stmt] = {}
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                result[name] = node
            case ast.Assign(targets=[ast.Name(id=name)]):
                result[name] = node
    return result


def sources(function: Callable[..., Any]) -> dict[str, str]:
    """Return the source of a lowering rule and of all definitions in its module on which it depends.

    They are returned by name, dependencies first.
    """
    module = function.__module__
    definitions = _definitions(module)
    text = inspect.getsource(sys.modules[module])
    result: dict[str, str] = {}

    def gather(name: str) -> None:
        node = definitions[name]
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in definitions and part.id != name and part.id not in result:
                gather(part.id)
        lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
        result[name] = "\n".join(lines)

    gather(function.__name__)
    return result
