"""The syntax tree: one frozen class for each construct; every node has the span of its text."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from archir.diagnostics.errors import Span


@dataclass(frozen=True)
class Tree:
    """Base class of syntax nodes.

    `depth` is the height of the tree, which the parser bounds so that walking the tree may recurse.
    """

    span: Span = field(repr=False, compare=False)
    depth: int = field(repr=False, compare=False)


class Expr(Tree):
    """An expression."""


class Statement(Tree):
    """A statement."""


@dataclass(frozen=True)
class Name(Expr):
    """An identifier: as an expression, or where a construct names something."""

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
    """`first op operand op operand ...`: arithmetic operators of one precedence level, evaluated from the left."""

    first: Expr
    links: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Comparison(Expr):
    """`a < b <= c`: true if every neighbouring pair compares true."""

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

    With `own`, each combination of the values that the arguments may have gets a call with separate weights.
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
    """`name: value` of a choice."""

    name: Name
    value: Expr


@dataclass(frozen=True)
class Choose(Expr):
    """Base class of the three forms of `choose`: an optional label and tags."""

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
    """`pattern | pattern => value` of a `match`; the `else` arm has no patterns."""

    patterns: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True)
class Match(Expr):
    """`match subject { arms }`."""

    subject: Expr
    arms: tuple[Arm, ...]


@dataclass(frozen=True)
class Type(Tree):
    """A tensor type: `f32[3, 32, 32]`."""

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
    """A parameter of a block, cell or net, with its default."""

    name: Name
    default: Expr | None


@dataclass(frozen=True)
class Item(Tree):
    """Base class of items: what may appear at the top level of a file."""


@dataclass(frozen=True)
class Import(Item):
    """`import std.attention` (a dotted path) or `import "blocks.arch"` (a relative file), with an optional `as
    alias`."""

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
    """A `block`, `cell` or `net`; `word` is the keyword."""

    word: str
    name: Name
    params: tuple[Param, ...]
    body: Body
    own: bool = False


@dataclass(frozen=True)
class File(Tree):
    """The syntax tree of a whole file."""

    items: tuple[Item, ...]
