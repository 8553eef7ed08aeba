"""Builds syntax nodes from the parser's reductions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

from lark import Token

from archir.diagnostics.errors import Source, Span, fail
from archir.language.syntax import ast

T = TypeVar("T", bound=ast.Tree)
Place = tuple[int, int]
"""Start and end offset of a node in the source text."""

MAX_DEPTH = 200
"""Maximum height of a syntax tree."""
MAX_DIGITS = 400
"""Maximum number of digits in a numeric literal, not counting underscores."""
SUFFIXES = {"K": 10**3, "M": 10**6, "G": 10**9, "ns": 1, "us": 10**3, "ms": 10**6}
"""Factor for each suffix of numeric literals; times are in nanoseconds."""

_LITERAL_WORDS = {"true", "false", "none"}
"""Words for literals; the grammar accepts them as names in some positions, where the builder rejects them."""


def _depth(*children: Any) -> int:
    deepest = 0
    for child in children:
        if isinstance(child, ast.Tree):
            deepest = max(deepest, child.depth)
        elif isinstance(child, tuple):
            deepest = max(deepest, _depth(*child))
    return deepest


class Builder:
    """Parser callbacks, one method per grammar rule, each called with the rule's children in order."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def _make(self, kind: Callable[..., T], place: Place, *fields: Any) -> T:
        span = Span(self.source, *place)
        depth = 1 + _depth(*fields)
        if depth > MAX_DEPTH:
            raise fail(
                "A0104",
                f"the expression nests deeper than {MAX_DEPTH} levels",
                Span(self.source, span.start, span.start + 1),
            )
        return kind(span, depth, *fields)

    def _word(self, token: Token) -> ast.Name:
        assert token.start_pos is not None
        return ast.Name(Span(self.source, token.start_pos, token.start_pos + len(token)), 1, str(token))

    def _name(self, token: Token) -> ast.Name:
        name = self._word(token)
        if token in _LITERAL_WORDS:
            raise fail("A0102", f"`{token}` is a value and cannot be a name", name.span)
        return name

    def _maybe_name(self, token: Token | None) -> ast.Name | None:
        return None if token is None else self._name(token)

    # items

    def start(self, place: Place, items: list[Any]) -> ast.File:
        return self._make(ast.File, place, _drop_none(items))

    def import_library(self, place: Place, names: list[Any]) -> ast.Import:
        *path, alias = names
        return self._make(ast.Import, place, ".".join(path), False, self._maybe_name(alias))

    def import_file(self, place: Place, parts: list[Any]) -> ast.Import:
        path, alias = parts
        return self._make(ast.Import, place, str(path)[1:-1], True, self._maybe_name(alias))

    def const(self, place: Place, parts: list[Any]) -> ast.Const:
        return self._make(ast.Const, place, self._name(parts[0]), parts[1])

    def own(self, place: Place, words: list[Any]) -> bool:
        return bool(words)

    def block(self, place: Place, parts: list[Any]) -> ast.Definition:
        own, name, params, body = parts
        return self._make(ast.Definition, place, "block", self._name(name), params, body, own)

    def cell(self, place: Place, parts: list[Any]) -> ast.Definition:
        own, name, params, body = parts
        return self._make(ast.Definition, place, "cell", self._name(name), params, body, own)

    def net(self, place: Place, parts: list[Any]) -> ast.Definition:
        name, params, body = parts
        return self._make(ast.Definition, place, "net", self._name(name), params or (), body)

    def params(self, place: Place, params: list[Any]) -> tuple[ast.Param, ...]:
        return _drop_none(params)

    def param(self, place: Place, parts: list[Any]) -> ast.Param:
        return self._make(ast.Param, place, self._name(parts[0]), parts[1])

    # statements

    def body(self, place: Place, statements: list[Any]) -> ast.Body:
        return _drop_none(statements)

    def input(self, place: Place, parts: list[Any]) -> ast.Input:
        return self._make(ast.Input, place, self._name(parts[0]), parts[1])

    def tensor_type(self, place: Place, parts: list[Any]) -> ast.Type:
        return self._make(ast.Type, place, self._name(parts[0]), _drop_none(parts[1:]))

    def output(self, place: Place, parts: list[Any]) -> ast.Output:
        name = self._name(parts[0])
        return self._make(ast.Output, place, name, name if parts[1] is None else parts[1])

    def return_statement(self, place: Place, values: list[Any]) -> ast.Return:
        return self._make(ast.Return, place, _drop_none(values))

    def assign(self, place: Place, parts: list[Any]) -> ast.Assign:
        return self._make(ast.Assign, place, *parts)

    def targets(self, place: Place, names: list[Any]) -> tuple[ast.Name, ...]:
        return tuple(self._name(name) for name in names)

    def for_statement(self, place: Place, parts: list[Any]) -> ast.ForLoop:
        return self._make(ast.ForLoop, place, *parts)

    def repeat(self, place: Place, parts: list[Any]) -> ast.Repeat:
        times, index, body = parts
        return self._make(ast.Repeat, place, times, self._maybe_name(index), body)

    def if_statement(self, place: Place, parts: list[Any]) -> ast.If:
        condition, then, orelse = parts
        if isinstance(orelse, ast.If):
            orelse = (orelse,)
        return self._make(ast.If, place, condition, then, orelse or ())

    def require(self, place: Place, parts: list[Any]) -> ast.Require:
        return self._make(ast.Require, place, *parts)

    # expressions

    def if_else(self, place: Place, parts: list[Any]) -> ast.IfElse:
        return self._make(ast.IfElse, place, *parts)

    def pipe(self, place: Place, parts: list[Any]) -> ast.Pipe:
        return self._make(ast.Pipe, place, parts[0], tuple(parts[1:]))

    def any_of(self, place: Place, operands: list[Any]) -> ast.Logical:
        return self._make(ast.Logical, place, "or", tuple(operands))

    def all_of(self, place: Place, operands: list[Any]) -> ast.Logical:
        return self._make(ast.Logical, place, "and", tuple(operands))

    def not_(self, place: Place, parts: list[Any]) -> ast.Not:
        return self._make(ast.Not, place, *parts)

    def compare(self, place: Place, words: list[Any]) -> str:
        return " ".join(words)

    def comparison(self, place: Place, parts: list[Any]) -> ast.Comparison:
        return self._make(ast.Comparison, place, parts[0], _pairs(parts))

    def interval(self, place: Place, parts: list[Any]) -> ast.Range:
        return self._make(ast.Range, place, *parts)

    def chain(self, place: Place, parts: list[Any]) -> ast.Chain:
        return self._make(ast.Chain, place, parts[0], _pairs(parts))

    def power(self, place: Place, parts: list[Any]) -> ast.Chain:
        return self._make(ast.Chain, place, parts[0], (("**", parts[2]),))

    def signed(self, place: Place, parts: list[Any]) -> ast.Signed:
        return self._make(ast.Signed, place, str(parts[0]), parts[1])

    def call(self, place: Place, parts: list[Any]) -> ast.Call:
        return self._make(ast.Call, place, parts[0], _drop_none(parts[1:]))

    def own_call(self, place: Place, parts: list[Any]) -> ast.Call:
        call = parts[0]
        if not isinstance(call, ast.Call):
            call = self._make(ast.Call, place, call, ())
        return self._make(ast.Call, place, call.callee, call.arguments, True)

    def argument(self, place: Place, parts: list[Any]) -> ast.Argument:
        return self._make(ast.Argument, place, self._maybe_name(parts[0]), parts[1])

    def attribute(self, place: Place, parts: list[Any]) -> ast.Attribute:
        return self._make(ast.Attribute, place, parts[0], self._name(parts[1]))

    def index(self, place: Place, parts: list[Any]) -> ast.Index:
        return self._make(ast.Index, place, *parts)

    def bound(self, place: Place, parts: list[Any]) -> ast.Expr | None:
        bound: ast.Expr | None = parts[0]
        return bound

    def part(self, place: Place, parts: list[Any]) -> ast.Slice:
        return self._make(ast.Slice, place, *parts)

    def name(self, place: Place, parts: list[Any]) -> ast.Name:
        return self._name(parts[0])

    def integer(self, place: Place, parts: list[Any]) -> ast.Literal:
        digits, factor = _split_suffix(str(parts[0]))
        if len(digits) > MAX_DIGITS:
            raise fail("A0106", f"a number has more than {MAX_DIGITS} digits", self._make(ast.Literal, place, 0).span)
        return self._make(ast.Literal, place, int(digits) * factor)

    def decimal(self, place: Place, parts: list[Any]) -> ast.Literal:
        digits, factor = _split_suffix(str(parts[0]))
        if factor > 1 and len(digits) <= MAX_DIGITS:
            exact = Fraction(digits) * factor
            return self._make(ast.Literal, place, exact.numerator if exact.denominator == 1 else exact)
        value = float(digits) if len(digits) <= MAX_DIGITS else float("inf")
        if value == float("inf"):
            raise fail("A0106", "this number is too large", self._make(ast.Literal, place, 0).span)
        return self._make(ast.Literal, place, value)

    def string(self, place: Place, parts: list[Any]) -> ast.Literal:
        return self._make(ast.Literal, place, str(parts[0])[1:-1])

    def true(self, place: Place, parts: list[Any]) -> ast.Literal:
        return self._make(ast.Literal, place, True)

    def false(self, place: Place, parts: list[Any]) -> ast.Literal:
        return self._make(ast.Literal, place, False)

    def none(self, place: Place, parts: list[Any]) -> ast.Literal:
        return self._make(ast.Literal, place, None)

    def sequence(self, place: Place, items: list[Any]) -> ast.Sequence:
        return self._make(ast.Sequence, place, _drop_none(items))

    def comprehension(self, place: Place, parts: list[Any]) -> ast.Comprehension:
        return self._make(ast.Comprehension, place, parts[0], tuple(parts[1:]))

    def comprehension_for(self, place: Place, parts: list[Any]) -> ast.For:
        return self._make(ast.For, place, *parts)

    def comprehension_if(self, place: Place, parts: list[Any]) -> ast.Filter:
        return self._make(ast.Filter, place, *parts)

    def tags(self, place: Place, tags: list[Any]) -> tuple[str, ...]:
        return tuple(str(tag)[1:] for tag in tags)

    def choose_value(self, place: Place, parts: list[Any]) -> ast.ChooseValue:
        label, tags, *values = parts
        return self._make(ast.ChooseValue, place, self._maybe_name(label), tags, _drop_none(values))

    def choose_one(self, place: Place, parts: list[Any]) -> ast.ChooseOne:
        label, tags, *alternatives = parts
        return self._make(ast.ChooseOne, place, self._maybe_name(label), tags, _drop_none(alternatives))

    def alternative(self, place: Place, parts: list[Any]) -> ast.Alternative:
        return self._make(ast.Alternative, place, self._word(parts[0]), parts[1])

    def choose_subset(self, place: Place, parts: list[Any]) -> ast.ChooseSubset:
        label, tags, count, items, where = parts
        return self._make(ast.ChooseSubset, place, self._maybe_name(label), tags, count, items, where)

    def match(self, place: Place, parts: list[Any]) -> ast.Match:
        return self._make(ast.Match, place, parts[0], _drop_none(parts[1:]))

    def arm(self, place: Place, parts: list[Any]) -> ast.Arm:
        return self._make(ast.Arm, place, *parts)

    def pattern(self, place: Place, patterns: list[Any]) -> tuple[ast.Expr, ...]:
        return _drop_none(patterns)

    def otherwise(self, place: Place, parts: list[Any]) -> tuple[ast.Expr, ...]:
        return ()


def _drop_none(children: list[Any]) -> tuple[Any, ...]:
    return tuple(child for child in children if child is not None)


def _pairs(parts: list[Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((str(op), operand) for op, operand in zip(parts[1::2], parts[2::2], strict=True))


def _split_suffix(text: str) -> tuple[str, int]:
    digits = text.rstrip("KMGnums")
    return digits.replace("_", ""), SUFFIXES.get(text[len(digits) :], 1)
