"""The syntax tree: one frozen class per construct, each with the span it was written at."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from archir.diagnostics.errors import Span


@dataclass(frozen=True)
class Tree:
    """Any piece of syntax. `depth` is the height of the tree, bounded when parsing so that walking it may recurse."""

    span: Span = field(repr=False, compare=False)
    depth: int = field(repr=False, compare=False)


class Expr(Tree):
    """An expression."""


class Statement(Tree):
    """A statement."""


@dataclass(frozen=True)
class Name(Expr):
    """A name, as an expression or wherever something is given one."""

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
    """`for targets in items` inside a comprehension."""

    targets: tuple[Name, ...]
    items: Expr


@dataclass(frozen=True)
class Filter(Tree):
    """`if condition` inside a comprehension."""

    condition: Expr


@dataclass(frozen=True)
class Comprehension(Expr):
    """`[item for ... if ...]`."""

    item: Expr
    parts: tuple[For | Filter, ...]


@dataclass(frozen=True)
class Chain(Expr):
    """`first op operand op operand ...`, applied from the left; arithmetic of one precedence level."""

    first: Expr
    rest: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Comparison(Expr):
    """`a < b <= c`: each neighbouring pair holds."""

    first: Expr
    rest: tuple[tuple[str, Expr], ...]


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
    """`start..stop`, without `stop`."""

    start: Expr
    stop: Expr


@dataclass(frozen=True)
class IfElse(Expr):
    """`then if condition else otherwise`."""

    then: Expr
    condition: Expr
    otherwise: Expr


@dataclass(frozen=True)
class Argument(Tree):
    """An argument of a call."""

    name: Name | None
    value: Expr


@dataclass(frozen=True)
class Call(Expr):
    """`callee(arguments)`; `own` keeps separate weights per alternative of what its arguments depend on."""

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
    """What the three forms of `choose` have in common."""

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

    take: Expr
    items: Expr
    where: Expr | None


@dataclass(frozen=True)
class Arm(Tree):
    """`pattern | pattern => value`; no patterns: `else`."""

    patterns: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True)
class Match(Expr):
    """`match subject { arms }`."""

    subject: Expr
    arms: tuple[Arm, ...]


@dataclass(frozen=True)
class Type(Tree):
    """`f32[3, 32, 32]`."""

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
    """`if condition { ... } else { ... }`."""

    condition: Expr
    then: Body
    otherwise: Body


@dataclass(frozen=True)
class Require(Statement):
    """`require condition`."""

    condition: Expr


@dataclass(frozen=True)
class Param(Tree):
    """A parameter and its default."""

    name: Name
    default: Expr | None


@dataclass(frozen=True)
class Item(Tree):
    """Something at the top level of a file."""


@dataclass(frozen=True)
class Import(Item):
    """`import std.attention` (a dotted path) or `import "blocks.arch"` (a relative file), maybe `as alias`."""

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
    """A `block`, `cell` or `net`."""

    word: str
    name: Name
    params: tuple[Param, ...]
    body: Body
    own: bool = False


@dataclass(frozen=True)
class File(Tree):
    """A whole file."""

    items: tuple[Item, ...]
