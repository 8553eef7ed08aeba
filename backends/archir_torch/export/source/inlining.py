"""Rules as source: the expression a rule comes down to for given attributes, or the functions it is made of.

A rule whose body is one `return` is partially evaluated: parameters are replaced by what they stand for and branches
that attributes decide are dropped, so that `global_avg_pool` of a map becomes `x.mean((2, 3))`.
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
    """The text of `function(*operands, **values)`, or None if it is more than an expression.

    `ranks` are the operands' numbers of axes with the batch axis. Values are constants.
    """
    tree = definition(function)
    names = [argument.arg for argument in tree.args.args]
    if tree.args.vararg is not None or len(names) != len(operands):
        return None
    known: dict[str, ast.expr] = {
        name: ast.parse(text, mode="eval").body for name, text in zip(names, operands, strict=True)
    }
    known |= {name: ast.parse(repr(value), mode="eval").body for name, value in values.items()}
    partial = _Partial(known, dict(zip(operands, ranks, strict=True)))
    result = _returned([statement for statement in tree.body if not _is_docstring(statement)], partial)
    return None if result is None or partial.open else ast.unparse(ast.fix_missing_locations(result))


def _returned(body: Sequence[ast.stmt], partial: _Partial) -> ast.expr | None:
    """The expression that statements return, if constants decide all the others."""
    for statement in body:
        match statement:
            case ast.Return(value=ast.expr() as value):
                found: ast.expr = partial.visit(ast.parse(ast.unparse(value), mode="eval").body)
                return found
            case ast.If(test=test, orelse=[]):
                decided = partial.visit(ast.parse(ast.unparse(test), mode="eval").body)
                if not isinstance(decided, ast.Constant):
                    return None
                if decided.value:
                    return _returned(statement.body, partial)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Name(id=name)):
                known = partial.known.get(name)
                if not isinstance(known, ast.Tuple) or len(known.elts) != len(targets):
                    return None
                partial.known |= {t.id: v for t, v in zip(targets, known.elts, strict=True) if isinstance(t, ast.Name)}
            case _:
                return None
    return None


class _Partial(ast.NodeTransformer):
    """Replaces parameters and takes the branches that constants decide."""

    def __init__(self, known: Mapping[str, ast.expr], ranks: Mapping[str, int]) -> None:
        self.known, self.ranks = dict(known), ranks
        self.open = False

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.known.get(node.id, node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="dim"), args=[]):
                operand = ast.unparse(self.visit(value))
                if operand in self.ranks:
                    return ast.Constant(self.ranks[operand])
        self.generic_visit(node)
        node.args = [part for argument in node.args for part in _parts(argument)]
        node.keywords = [keyword for keyword in node.keywords if not _is_default(node, keyword)]
        while node.args and isinstance(node.func, ast.Attribute) and _is_default_argument(node):
            node.args.pop()
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        return _folded(node)

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
        self.open = True
        node.test, node.body, node.orelse = test, self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return _folded(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        """What it runs over has names of its own, which hide others."""
        self.open = True
        own = {one.id for part in node.generators for one in ast.walk(part.target) if isinstance(one, ast.Name)}
        known, self.known = self.known, {name: value for name, value in self.known.items() if name not in own}
        self.generic_visit(node)
        self.known = known
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.expr:
        self.generic_visit(node)
        return node


def filled(text: str, known: Mapping[str, ast.expr]) -> str:
    """Statements with what names stand for, and without what is decided by that."""
    return ast.unparse(ast.fix_missing_locations(_Partial(known, {}).visit(ast.parse(text))))


def specialised(function: Callable[..., Any], ranks: Sequence[int], fixed: Mapping[str, Any]) -> str:
    """The source of a rule for operands of these ranks, where these parameters have these values: it takes them no
    longer, and branches that either decides are gone."""
    tree = definition(function)
    names = [argument.arg for argument in tree.args.args[: len(ranks)]]
    known: dict[str, ast.expr] = {name: ast.Constant(value) for name, value in fixed.items()}
    partial = _Partial(known, dict(zip(names, ranks, strict=False)))
    body: list[ast.stmt] = []
    for statement in tree.body:
        match statement:
            case ast.If(test=test, body=inner, orelse=[]):
                decided = partial.visit(ast.parse(ast.unparse(test), mode="eval").body)
                if isinstance(decided, ast.Constant):
                    body += inner if decided.value else []
                    if decided.value and isinstance(inner[-1], ast.Return):
                        break
                    continue
        body.append(statement)
    stored = {n.id for part in body for n in ast.walk(part) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if body == tree.body or (stored & fixed.keys()):
        return sources(function)[function.__name__]
    shorter = ast.FunctionDef(tree.name, _without(tree.args, fixed), body, [], tree.returns)
    if fixed:
        shorter.body = ast.parse(filled("\n".join(map(ast.unparse, body)), known)).body
    return ast.unparse(ast.fix_missing_locations(shorter))


def _without(signature: ast.arguments, names: Container[str]) -> ast.arguments:
    """The parameters of a function but for these, which have defaults."""
    plain = len(signature.args) - len(signature.defaults)
    args = [(one, i) for i, one in enumerate(signature.args) if one.arg not in names]
    only = [(o, d) for o, d in zip(signature.kwonlyargs, signature.kw_defaults, strict=True) if o.arg not in names]
    return ast.arguments(
        posonlyargs=[],
        args=[one for one, _ in args],
        defaults=[signature.defaults[i - plain] for _, i in args if i >= plain],
        kwonlyargs=[one for one, _ in only],
        kw_defaults=[default for _, default in only],
    )


def _parts(argument: ast.expr) -> list[ast.expr]:
    """`*(2, 3)` as `2, 3`."""
    if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Tuple):
        return argument.value.elts
    return [argument]


def _folded(node: ast.expr) -> ast.expr:
    """A constant, if the expression has constants only."""
    try:
        value = _constant(node)
    except ValueError:
        return node
    return ast.Constant(value)


def _constant(node: ast.expr) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_constant(operand)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            a, b = _constant(left), _constant(right)
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
            return _constant(left) + _constant(right)
    raise ValueError(node)


_DEFAULTS = {
    "inplace": False, "approximate": "none", "keepdim": False, "scale": None, "attn_mask": None, "is_causal": False,
}  # fmt: skip


def _is_default(call: ast.Call, keyword: ast.keyword) -> bool:
    return (
        keyword.arg in _DEFAULTS
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value == _DEFAULTS[keyword.arg]
        and isinstance(call.func, ast.Attribute)
    )


def _is_default_argument(call: ast.Call) -> bool:
    last = call.args[-1]
    activation = isinstance(call.func, ast.Attribute) and call.func.attr in ("relu", "relu6")
    return activation and len(call.args) == 2 and isinstance(last, ast.Constant) and last.value is False


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


@cache
def definition(function: Callable[..., Any]) -> ast.FunctionDef:
    """The syntax tree of a rule."""
    found = _definitions(function.__module__)[function.__name__]
    assert isinstance(found, ast.FunctionDef)
    return found


@cache
def _definitions(module: str) -> dict[str, ast.stmt]:
    """Functions, classes and constants of a file by name."""
    found: dict[str, ast.stmt] = {}
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = node
            case ast.Assign(targets=[ast.Name(id=name)]):
                found[name] = node
    return found


def sources(function: Callable[..., Any]) -> dict[str, str]:
    """The source of a rule and of everything in its file that it uses, by name, what is used coming first."""
    module = function.__module__
    definitions = _definitions(module)
    text = inspect.getsource(sys.modules[module])
    found: dict[str, str] = {}

    def gather(name: str) -> None:
        node = definitions[name]
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in definitions and part.id != name and part.id not in found:
                gather(part.id)
        lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
        found[name] = "\n".join(lines)

    gather(function.__name__)
    return found
