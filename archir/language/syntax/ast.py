"""Syntax tree: one frozen dataclass per construct. Every node has the source span of its text."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from archir.diagnostics.errors import Span


@dataclass(frozen=True)
class Tree:
    """Base class of syntax nodes.

    `depth` is the height of the subtree. The parser limits the height, so that code that walks the tree may be
    recursive.
    """

    span: Span = field(repr=False, compare=False)
    depth: int = field(repr=False, compare=False)


class Expr(Tree):
    """An expression."""


class Statement(Tree):
    """A statement."""


@dataclass(frozen=True)
class Name(Expr):
    """An identifier, used as an expression or as the name that a construct defines or refers to."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Literal(Expr):
    """A number, string, boolean or `none`."""

    value: int | float | Fraction | str | bool | None


@dataclass(frozen=True)
class Sequence(Expr):
    """A list `[a, b]` or a tuple `(a, b)`."""

    items: tuple[Expr, ...]


@dataclass(frozen=True)
class For(Tree):
    """`for targets in items` in a comprehension."""

    targets: tuple[Name, ...]
    items: Expr


@dataclass(frozen=True)
class Filter(Tree):
    """`if condition` in a comprehension."""

    condition: Expr


@dataclass(frozen=True)
class Comprehension(Expr):
    """`[item for ... if ...]`."""

    item: Expr
    parts: tuple[For | Filter, ...]


@dataclass(frozen=True)
class Chain(Expr):
    """`first op operand op operand ...`: arithmetic operators of one precedence level, left-associative."""

    first: Expr
    links: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Comparison(Expr):
    """`a < b <= c`: true if all pairs of adjacent operands compare true."""

    first: Expr
    links: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Signed(Expr):
    """`-a` or `+a`."""

    sign: str
    operand: Expr


@dataclass(frozen=True)
class Not(Expr):
    """`not a`."""

    operand: Expr


@dataclass(frozen=True)
class Logical(Expr):
    """`a and b and ...` or `a or b or ...`."""

    word: str
    operands: tuple[Expr, ...]


@dataclass(frozen=True)
class Range(Expr):
    """`start..stop`: the integers from `start` to `stop - 1`."""

    start: Expr
    stop: Expr


@dataclass(frozen=True)
class IfElse(Expr):
    """`then if condition else orelse`."""

    then: Expr
    condition: Expr
    orelse: Expr


@dataclass(frozen=True)
class Argument(Tree):
    """A positional or named argument of a call."""

    name: Name | None
    value: Expr


@dataclass(frozen=True)
class Call(Expr):
    """`callee(arguments)`.

    With `own`, there is one call per combination of possible argument values, each with separate weights.
    """

    callee: Expr
    arguments: tuple[Argument, ...]
    own: bool = False


@dataclass(frozen=True)
class Attribute(Expr):
    """`value.name`."""

    value: Expr
    name: Name


@dataclass(frozen=True)
class Index(Expr):
    """`value[position]`."""

    value: Expr
    position: Expr


@dataclass(frozen=True)
class Slice(Expr):
    """`value[start:stop]`."""

    value: Expr
    start: Expr | None
    stop: Expr | None


@dataclass(frozen=True)
class Pipe(Expr):
    """`first |> target |> ...`."""

    first: Expr
    targets: tuple[Expr, ...]


@dataclass(frozen=True)
class Alternative(Tree):
    """`name: value`, an alternative of a `choose`."""

    name: Name
    value: Expr


@dataclass(frozen=True)
class Choose(Expr):
    """Base class of the three forms of `choose`; each has an optional label and tags."""

    label: Name | None
    tags: tuple[str, ...]


@dataclass(frozen=True)
class ChooseValue(Choose):
    """`choose kernel(3, 5, 7)`."""

    values: tuple[Expr, ...]


@dataclass(frozen=True)
class ChooseOne(Choose):
    """`choose op { name: expr ... }`."""

    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True)
class ChooseSubset(Choose):
    """`choose inputs 2 of [a, b, c] where condition`."""

    count: Expr
    items: Expr
    where: Expr | None


@dataclass(frozen=True)
class Arm(Tree):
    """`pattern | pattern => value`, an arm of a `match`; the `else` arm has no patterns."""

    patterns: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True)
class Match(Expr):
    """`match subject { arms }`."""

    subject: Expr
    arms: tuple[Arm, ...]


@dataclass(frozen=True)
class Type(Tree):
    """A tensor type such as `f32[3, 32, 32]`."""

    dtype: Name
    dims: tuple[Expr, ...]


Body = tuple[Statement, ...]


@dataclass(frozen=True)
class Input(Statement):
    """`input name: type`."""

    name: Name
    type: Type


@dataclass(frozen=True)
class Output(Statement):
    """`output name = value`."""

    name: Name
    value: Expr


@dataclass(frozen=True)
class Return(Statement):
    """`return a, b`."""

    values: tuple[Expr, ...]


@dataclass(frozen=True)
class Assign(Statement):
    """`a, b = value`."""

    targets: tuple[Name, ...]
    value: Expr


@dataclass(frozen=True)
class ForLoop(Statement):
    """`for targets in items { body }`."""

    targets: tuple[Name, ...]
    items: Expr
    body: Body


@dataclass(frozen=True)
class Repeat(Statement):
    """`repeat times as index { body }`."""

    times: Expr
    index: Name | None
    body: Body


@dataclass(frozen=True)
class If(Statement):
    """`if condition { then } else { orelse }`."""

    condition: Expr
    then: Body
    orelse: Body


@dataclass(frozen=True)
class Require(Statement):
    """`require condition`."""

    condition: Expr


@dataclass(frozen=True)
class Param(Tree):
    """A parameter of a block, cell or net; `default` is None if it is required."""

    name: Name
    default: Expr | None


@dataclass(frozen=True)
class Item(Tree):
    """Base class of top-level constructs: imports, constants and definitions."""


@dataclass(frozen=True)
class Import(Item):
    """`import std.attention` (library, by dotted path) or `import "blocks.arch"` (file, by relative path),
    optionally with `as alias`."""

    path: str
    relative: bool
    alias: Name | None


@dataclass(frozen=True)
class Const(Item):
    """`const NAME = value`."""

    name: Name
    value: Expr


@dataclass(frozen=True)
class Definition(Item):
    """Definition of a `block`, `cell` or `net`; `word` is that keyword."""

    word: str
    name: Name
    params: tuple[Param, ...]
    body: Body
    own: bool = False


@dataclass(frozen=True)
class File(Tree):
    """The syntax tree of a whole file."""

    items: tuple[Item, ...]
