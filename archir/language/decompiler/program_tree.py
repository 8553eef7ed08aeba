"""Statement tree of a decompiled program.

Statements read and write numbered values, and their arguments are expressions. Statements nest in loops and options
(conditional statements). The depth of an expression is the number of loops around it. A round is one iteration of a
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple

from archir.ir.types import TensorType

Expr = Any
"""An attribute value (a constant), or an instance of one of the expression classes below."""
FRESH_NUMBERS = count(10**12)
"""Supply of unused value numbers, higher than the node numbers of any graph."""


@dataclass(frozen=True)
class ParameterRef:
    """Expression: the value of a parameter of the enclosing block."""

    text: str


@dataclass(frozen=True)
class Size:
    """Expression: the channel count of a value; `word` is the attribute to print, such as `channels` or `features`."""

    value: int
    word: str = "channels"


@dataclass(frozen=True)
class Multiple:
    """Expression: `factor * of // divisor`, such as `3 * width // 4`."""

    of: Expr
    factor: int = 1
    divisor: int = 1


@dataclass(frozen=True)
class FirstRound:
    """Expression: `first` in the first iteration of the innermost loop, `later` in all other iterations.

    `first` and `later` are expressions outside of that loop.
    """

    first: Expr
    later: Expr


@dataclass(frozen=True)
class PerRound:
    """Expression: the item for the current iteration of the innermost loop, from the list `of`.

    The list is an expression outside of that loop.
    """

    of: Expr


@dataclass(frozen=True)
class Outer:
    """Expression that is invariant in the innermost loop; `of` is the same expression outside of that loop."""

    of: Expr


@dataclass(frozen=True)
class ListExpr:
    """Expression: a list whose items are expressions."""

    items: tuple[Expr, ...]


@dataclass(frozen=True)
class Condition:
    """Expression: a comparison (`==`, `!=`) of two expressions, or conditions joined by `and` or `or`, as `sign`
    says."""

    sign: str
    sides: tuple[Expr, ...]


class _Wildcard:
    """Wildcard for an argument whose value does not matter, in an optional part that this call leaves out."""

    def __repr__(self) -> str:
        return "WILD"


WILD = _Wildcard()


@dataclass(frozen=True)
class Step:
    """Call `writes = callee(reads, arguments)` of an operation or a block. `weights` names weights shared with other
    calls."""

    callee: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    arguments: Mapping[str, Expr] = field(default_factory=dict)
    weights: str = ""
    source_name: str = ""
    """Last component of the scope in the source, a candidate name for the variable."""


class Carry(NamedTuple):
    """Loop-carried value, given by four value numbers.

    They are its numbers before the loop, at the start of an iteration, at the end of an iteration, and after the loop.
    """

    before: int
    inside: int
    updated: int
    after: int


@dataclass(frozen=True)
class Loop:
    """Loop that executes its statements `rounds` times."""

    items: tuple[Item, ...]
    rounds: Expr
    carries: tuple[Carry, ...]


@dataclass(frozen=True)
class Option:
    """Conditional statements that compute `result` from `before` if `flag` is true. `after` is `result` if `flag` is
    true, else `before`."""

    items: tuple[Item, ...]
    flag: Expr
    before: int
    result: int
    after: int


Item = Step | Loop | Option


@dataclass
class Body:
    """Body of a block or net: inputs, statements and outputs, and the input types in one of its calls."""

    inputs: tuple[int, ...]
    items: tuple[Item, ...]
    outputs: tuple[int, ...]
    types: tuple[TensorType, ...] = ()


def steps(items: Iterable[Item]) -> Iterator[Step]:
    """Yield all steps, including those inside of loops and options."""
    for item in items:
        if isinstance(item, Step):
            yield item
        else:
            yield from steps(item.items)


def inputs_of(item: Item) -> tuple[int, ...]:
    """Return the values that a statement reads from outside, once per read.

    Reading only a value's size does not count.
    """
    match item:
        case Step():
            return item.reads
        case Option():
            inner_outputs = {number for inner in item.items for number in outputs_of(inner)}
            return (item.before, *(n for inner in item.items for n in inputs_of(inner) if n not in inner_outputs))
        case Loop():
            inner_outputs = {carry.inside for carry in item.carries}
            inner_outputs |= {number for inner in item.items for number in outputs_of(inner)}
            inner = [n for inner_item in item.items for n in inputs_of(inner_item) if n not in inner_outputs]
            return (*(carry.before for carry in item.carries), *inner)


def outputs_of(item: Item) -> tuple[int, ...]:
    """Return the values that a statement defines for later statements."""
    match item:
        case Step():
            return item.writes
        case Option():
            return (item.after,)
        case Loop():
            return tuple(carry.after for carry in item.carries)


def expressions_in(items: Iterable[Item], depth: int = 0) -> Iterator[tuple[int, str, Expr]]:
    """Yield (depth, argument name, expression) for all expressions in the statements, in order."""
    for item in items:
        match item:
            case Step():
                yield from ((depth, name, value) for name, value in item.arguments.items())
            case Loop():
                yield depth, "depth", item.rounds
                yield from expressions_in(item.items, depth + 1)
            case Option():
                yield depth, "full", item.flag
                yield from expressions_in(item.items, depth)


def with_expressions(items: Iterable[Item], expressions: Iterator[Expr]) -> tuple[Item, ...]:
    """Replace all expressions in the statements by those of an iterator, in the order of `expressions_in`."""
    new_items: list[Item] = []
    for item in items:
        match item:
            case Step():
                new_items.append(replace(item, arguments={name: next(expressions) for name in item.arguments}))
            case Loop():
                rounds = next(expressions)
                new_items.append(replace(item, rounds=rounds, items=with_expressions(item.items, expressions)))
            case Option():
                flag = next(expressions)
                new_items.append(replace(item, flag=flag, items=with_expressions(item.items, expressions)))
    return tuple(new_items)


def renumbered(items: Iterable[Item], name: Callable[[int], int]) -> tuple[Item, ...]:
    """Map all value numbers in the statements, including those in sizes, through `name`."""

    def renumber(numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(name(number) for number in numbers)

    new_items: list[Item] = []
    for item in items:
        match item:
            case Step():
                arguments = {key: renumber_sizes(value, name) for key, value in item.arguments.items()}
                new_items.append(
                    replace(item, reads=renumber(item.reads), writes=renumber(item.writes), arguments=arguments)
                )
            case Loop():
                carries = tuple(Carry(*renumber(carry)) for carry in item.carries)
                new_items.append(Loop(renumbered(item.items, name), renumber_sizes(item.rounds, name), carries))
            case Option():
                value_numbers = renumber((item.before, item.result, item.after))
                new_items.append(Option(renumbered(item.items, name), renumber_sizes(item.flag, name), *value_numbers))
    return tuple(new_items)


def renumber_sizes(value: Expr, name: Callable[[int], int]) -> Expr:
    """Map the value numbers of all sizes in an expression through `name`."""
    return rewrite(value, lambda leaf: replace(leaf, value=name(leaf.value)) if isinstance(leaf, Size) else leaf)


def rewrite(value: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Apply `change` to every subexpression of an expression, leaves first, and return the result."""
    match value:
        case Multiple() | Outer() | PerRound():
            value = replace(value, of=rewrite(value.of, change))
        case FirstRound():
            value = FirstRound(rewrite(value.first, change), rewrite(value.later, change))
        case ListExpr():
            value = ListExpr(tuple(rewrite(item, change) for item in value.items))
        case Condition():
            value = Condition(value.sign, tuple(rewrite(item, change) for item in value.sides))
    return change(value)


def subexpressions(value: Expr) -> Iterator[Expr]:
    """Yield an expression and all its subexpressions."""
    yield value
    match value:
        case Multiple() | Outer() | PerRound():
            yield from subexpressions(value.of)
        case FirstRound():
            yield from subexpressions(value.first)
            yield from subexpressions(value.later)
        case ListExpr():
            for item in value.items:
                yield from subexpressions(item)
        case Condition():
            for item in value.sides:
                yield from subexpressions(item)


def sizes_read_by(item: Item) -> Iterator[int]:
    """Yield the values whose sizes a statement reads."""
    for _, _, value in expressions_in([item]):
        yield from (part.value for part in subexpressions(value) if isinstance(part, Size))


def is_constant(value: Expr) -> bool:
    """Return True if an expression is a constant and not an instance of an expression class."""
    return not isinstance(value, ParameterRef | Size | Multiple | FirstRound | PerRound | Outer | ListExpr | Condition)


def structure_of(body: Body) -> object:
    """Return a comparison key for the structure of a body, which ignores value numbers and the values of arguments."""
    numbering: dict[int, int] = {}

    def index(number: int) -> int:
        return numbering.setdefault(number, len(numbering))

    def key(item: Item) -> object:
        match item:
            case Step():
                return (
                    item.callee,
                    *map(index, item.reads),
                    "->",
                    *map(index, item.writes),
                    *item.arguments,
                    item.weights,
                )
            case Loop():
                starts = [(index(carry.before), index(carry.inside)) for carry in item.carries]
                inner = tuple(map(key, item.items))
                return "loop", *starts, inner, *((index(c.updated), index(c.after)) for c in item.carries)
            case Option():
                return "option", index(item.before), tuple(map(key, item.items)), index(item.result), index(item.after)

    return tuple(map(index, body.inputs)), tuple(map(key, body.items)), tuple(map(index, body.outputs))
