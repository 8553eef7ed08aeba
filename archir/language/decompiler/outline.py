"""Programs before they are text: statements that read and write numbered values, and expressions in place of numbers.

Statements nest: rounds of a loop, what is there or not. An expression stands at a depth, that of the loops around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple

from archir.ir.types import TensorType

Expr = Any
"""A constant as attributes have it, or one of the classes below."""
FRESH = count(10**12)
"""Numbers of values that no graph has."""


@dataclass(frozen=True)
class Name:
    """A parameter of the block."""

    text: str


@dataclass(frozen=True)
class Size:
    """The channels of a value."""

    value: int
    word: str = "channels"


@dataclass(frozen=True)
class Times:
    """A multiple: `3 * width // 4`."""

    of: Expr
    times: int = 1
    over: int = 1


@dataclass(frozen=True)
class First:
    """One value in the first round of the loop at hand, another in the others. Both are of the depth outside."""

    first: Expr
    rest: Expr


@dataclass(frozen=True)
class Column:
    """An item of a list, by the round of the loop at hand. The list is of the depth outside."""

    of: Expr


@dataclass(frozen=True)
class Up:
    """What the loop at hand does not change: an expression of the depth outside."""

    of: Expr


@dataclass(frozen=True)
class Many:
    """A list with expressions in it."""

    items: tuple[Expr, ...]


@dataclass(frozen=True)
class Test:
    """Whether two expressions are as the sign says, or one of several tests holds."""

    sign: str
    sides: tuple[Expr, ...]


class _Wild:
    """What a call that lacks an option would give for it: anything."""

    def __repr__(self) -> str:
        return "WILD"


WILD = _Wild()


@dataclass(frozen=True)
class Step:
    """`writes = callee(reads, arguments)`: an operation or a block. `weights` names what it shares with others."""

    callee: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    arguments: Mapping[str, Expr] = field(default_factory=dict)
    weights: str = ""
    word: str = ""
    """What it was called in the source."""


class Carry(NamedTuple):
    """A value that goes from round to round: before the loop, as a round reads it, as it leaves it, and after all."""

    before: int
    inside: int
    left: int
    after: int


@dataclass(frozen=True)
class Loop:
    """The same statements, again and again."""

    items: tuple[Item, ...]
    rounds: Expr
    carries: tuple[Carry, ...]


@dataclass(frozen=True)
class Option:
    """Statements that make `result` of `before`, if the flag says so; `after` is either."""

    items: tuple[Item, ...]
    flag: Expr
    before: int
    result: int
    after: int


Item = Step | Loop | Option


@dataclass
class Body:
    """The statements of a block, its inputs and results, and the types of the inputs in one call of it."""

    inputs: tuple[int, ...]
    items: tuple[Item, ...]
    outputs: tuple[int, ...]
    types: tuple[TensorType, ...] = ()


def steps(items: Iterable[Item]) -> Iterator[Step]:
    """All steps, those inside of others too."""
    for item in items:
        if isinstance(item, Step):
            yield item
        else:
            yield from steps(item.items)


def read_by(item: Item) -> tuple[int, ...]:
    """The values from outside that a statement reads, each as often as it does, but for sizes."""
    match item:
        case Step():
            return item.reads
        case Option():
            made = {number for inner in item.items for number in written_by(inner)}
            return (item.before, *(n for inner in item.items for n in read_by(inner) if n not in made))
        case Loop():
            made = {carry.inside for carry in item.carries}
            made |= {number for inner in item.items for number in written_by(inner)}
            inner = [n for one in item.items for n in read_by(one) if n not in made]
            return (*(carry.before for carry in item.carries), *inner)


def written_by(item: Item) -> tuple[int, ...]:
    """The values that a statement makes for others after it."""
    match item:
        case Step():
            return item.writes
        case Option():
            return (item.after,)
        case Loop():
            return tuple(carry.after for carry in item.carries)


def values(items: Iterable[Item], depth: int = 0) -> Iterator[tuple[int, str, Expr]]:
    """All expressions with their depth and what they are called, in order."""
    for item in items:
        match item:
            case Step():
                yield from ((depth, name, value) for name, value in item.arguments.items())
            case Loop():
                yield depth, "depth", item.rounds
                yield from values(item.items, depth + 1)
            case Option():
                yield depth, "full", item.flag
                yield from values(item.items, depth)


def filled(items: Iterable[Item], found: Iterator[Expr]) -> tuple[Item, ...]:
    """The same statements with other expressions, in the order of `values`."""
    made: list[Item] = []
    for item in items:
        match item:
            case Step():
                made.append(replace(item, arguments={name: next(found) for name in item.arguments}))
            case Loop():
                rounds = next(found)
                made.append(replace(item, rounds=rounds, items=filled(item.items, found)))
            case Option():
                flag = next(found)
                made.append(replace(item, flag=flag, items=filled(item.items, found)))
    return tuple(made)


def renamed(items: Iterable[Item], name: Callable[[int], int]) -> tuple[Item, ...]:
    """The same statements on other values; sizes too."""

    def many(numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(name(number) for number in numbers)

    made: list[Item] = []
    for item in items:
        match item:
            case Step():
                arguments = {key: sized(value, name) for key, value in item.arguments.items()}
                made.append(replace(item, reads=many(item.reads), writes=many(item.writes), arguments=arguments))
            case Loop():
                carries = tuple(Carry(*many(carry)) for carry in item.carries)
                made.append(Loop(renamed(item.items, name), sized(item.rounds, name), carries))
            case Option():
                ends = many((item.before, item.result, item.after))
                made.append(Option(renamed(item.items, name), sized(item.flag, name), *ends))
    return tuple(made)


def sized(value: Expr, name: Callable[[int], int]) -> Expr:
    """An expression with the sizes of other values."""
    return rewritten(value, lambda leaf: replace(leaf, value=name(leaf.value)) if isinstance(leaf, Size) else leaf)


def rewritten(value: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """An expression, changed from its leaves on."""
    match value:
        case Times() | Up() | Column():
            value = replace(value, of=rewritten(value.of, change))
        case First():
            value = First(rewritten(value.first, change), rewritten(value.rest, change))
        case Many():
            value = Many(tuple(rewritten(item, change) for item in value.items))
        case Test():
            value = Test(value.sign, tuple(rewritten(item, change) for item in value.sides))
    return change(value)


def parts(value: Expr) -> Iterator[Expr]:
    """An expression and everything in it."""
    yield value
    match value:
        case Times() | Up() | Column():
            yield from parts(value.of)
        case First():
            yield from parts(value.first)
            yield from parts(value.rest)
        case Many():
            for item in value.items:
                yield from parts(item)
        case Test():
            for item in value.sides:
                yield from parts(item)


def sizes_in(item: Item) -> Iterator[int]:
    """The values whose sizes a statement asks for."""
    for _, _, value in values([item]):
        yield from (part.value for part in parts(value) if isinstance(part, Size))


def is_constant(value: Expr) -> bool:
    """Whether an expression is a plain value."""
    return not isinstance(value, Name | Size | Times | First | Column | Up | Many | Test)


def form(body: Body) -> object:
    """What statements are but for their expressions and the numbers of values: equal for those of one shape."""
    known: dict[int, int] = {}

    def of(number: int) -> int:
        return known.setdefault(number, len(known))

    def one(item: Item) -> object:
        match item:
            case Step():
                return item.callee, *map(of, item.reads), "->", *map(of, item.writes), *item.arguments, item.weights
            case Loop():
                ends = [(of(carry.before), of(carry.inside)) for carry in item.carries]
                inner = tuple(map(one, item.items))
                return "loop", *ends, inner, *((of(c.left), of(c.after)) for c in item.carries)
            case Option():
                return "option", of(item.before), tuple(map(one, item.items)), of(item.result), of(item.after)

    return tuple(map(of, body.inputs)), tuple(map(one, body.items)), tuple(map(of, body.outputs))
