"""Blocks of a program: modules of one structure are calls of one block."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from archir.ir.graph import Graph, NodeId
from archir.ir.op import OPS
from archir.ir.typing import Types
from archir.language.decompiler.operations import LIBRARY, idiomatic
from archir.language.decompiler.optional import joined
from archir.language.decompiler.outline import (
    FRESH,
    Body,
    Column,
    Expr,
    First,
    Item,
    Many,
    Name,
    Step,
    Test,
    Times,
    Up,
    filled,
    form,
    renamed,
    steps,
    values,
)
from archir.language.decompiler.parameters import Parameters
from archir.language.decompiler.recurrences import recurrent
from archir.language.decompiler.regions import CONTAINERS, Region
from archir.language.decompiler.repeats import UnlikeError, looped, merge
from archir.language.decompiler.spelling import arguments, snake
from archir.language.decompiler.stages import staged

FEW = 3
"""Operations in a row, one behind the other, that are written where they are called."""
SMALL = 8
"""Statements of a block with one call that are written in its place."""

WHOLE = 25
"""Statements of a block that the net itself calls, once, which are written in it."""


@dataclass
class Definition:
    """A block: its statements, and its parameters with the values that they have in each call."""

    name: str
    body: Body
    parameters: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    container: bool = False


class Program:
    """The blocks of a network, and the body of the net itself."""

    def __init__(self, graph: Graph, types: Types, shared: Mapping[NodeId, str], plain: bool = False) -> None:
        self.graph, self.types, self.shared, self.plain = graph, types, shared, plain
        self.definitions: dict[str, Definition] = {}
        self._made: dict[int, tuple[Item, ...]] = {}

    def of(self, root: Region) -> Body:
        """The body of the net. Blocks are made on the way."""
        for group in _groups(root):
            bodies = [self._body(region) for region in group]
            if group[0] is root:
                self._made[id(root)] = bodies[0].items
                continue
            self._define(group, bodies)
        whole = Body(tuple(root.inputs), self._made[id(root)], tuple(root.outputs))
        whole.items = self._inlined(whole.items)
        return whole

    def _body(self, region: Region) -> Body:
        items: list[Item] = []
        for item in region.items:
            items += self._made[id(item)] if isinstance(item, Region) else [self._step(item)]
        if not self.plain:
            items = list(
                idiomatic(recurrent(items, region.outputs, self.graph, self.types), region.outputs, self.types)
            )
        made = looped(items, region.outputs, lambda name: name in self.definitions)
        types = tuple(self.types[number] for number in region.inputs)
        return Body(tuple(region.inputs), made, tuple(region.outputs), types)

    def _step(self, number: NodeId) -> Step:
        node = self.graph[number]
        operands = self.graph.operands(number)
        given = arguments(node.op, [self.types[operand] for operand in operands])
        word = (re.findall(r"[^.\[\]]+", node.scope) or [""])[-1]
        return Step(node.op.name, operands, (number,), given, self.shared.get(number, ""), word)

    def _define(self, group: Sequence[Region], bodies: Sequence[Body]) -> None:
        """Make blocks of modules of one class, or take these apart where that is easier to read."""
        if all(self._dissolves(region, body) for region, body in zip(group, bodies, strict=True)):
            self._made |= {id(region): body.items for region, body in zip(group, bodies, strict=True)}
            return
        alike: dict[object, list[int]] = {}
        made = list(bodies) if self.plain else joined(bodies)
        for place, body in enumerate(made):
            alike.setdefault(form(body), []).append(place)
        for places in alike.values():
            try:
                self._block([group[place] for place in places], [made[place] for place in places])
            except UnlikeError:
                for place in places:
                    self._made[id(group[place])] = bodies[place].items

    def _block(self, group: Sequence[Region], bodies: Sequence[Body]) -> None:
        """Make one block of modules of one form, and calls of it."""
        region = group[0]
        if len(group) == 1 and (len(bodies[0].items) <= SMALL or region.kind in CONTAINERS):
            self._made[id(region)] = bodies[0].items
            return
        definition = self._unified(region, bodies)
        self.definitions[definition.name] = definition
        for call, one in enumerate(group):
            given = {name: column[call] for name, column in definition.parameters.items()}
            step = Step(definition.name, tuple(one.inputs), tuple(one.outputs), given, "", definition.name)
            self._made[id(one)] = (step,)

    def _unified(self, region: Region, bodies: Sequence[Body]) -> Definition:
        first = bodies[0]
        columns = list(zip(*(list(values(body.items)) for body in bodies), strict=True))
        known = [body.types[0] if body.types else None for body in bodies]
        found = Parameters(first.inputs[0] if first.inputs else None, known, [*OPS])
        merged: dict[int, Expr] = {}
        for place in sorted(range(len(columns)), key=lambda place: columns[place][0][1] == "full"):  # tests come last
            depth, found.name, _ = columns[place][0]
            merged[place] = merge([value for *_, value in columns[place]], depth, found.expression)
        name = self._new_name(region)
        body = Body(
            first.inputs,
            filled(first.items, iter([merged[place] for place in range(len(columns))])),
            first.outputs,
            first.types,
        )
        return Definition(name, body, found.values, region.kind in CONTAINERS)

    def _new_name(self, region: Region) -> str:
        last = (re.findall(r"[A-Za-z_]+", region.scope.rpartition(".")[2]) or ["block"])[-1]
        base = snake(last if region.kind in CONTAINERS else region.kind)
        name, number = base, 1
        while name in self.definitions or name in OPS or name in LIBRARY:
            number += 1
            name = f"{base}_{number}"
        return name

    def _dissolves(self, region: Region, body: Body) -> bool:
        """Whether a module is easier to read as what it does."""
        plain = all(isinstance(item, Step) and item.callee not in self.definitions for item in body.items)
        chain = (
            all(a.writes[0] in b.reads for a, b in pairwise(body.items) if isinstance(a, Step) and isinstance(b, Step))
            and plain
        )
        weighs = any(self.graph[n].op.weights(*(self.types[o] for o in self.graph.operands(n))) for n in region.nodes())
        if not weighs and len(body.items) <= FEW + 1:
            return True
        if len(body.outputs) == 1 and chain and len(body.items) <= FEW:
            return True
        return len(body.items) == 1 and isinstance(body.items[0], Step)

    def _inlined(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """Blocks with one call, written where they are called if they are small; those that are not called are gone."""
        while True:
            uses: dict[str, int] = {}
            for body in (items, *(definition.body.items for definition in self.definitions.values())):
                for step in steps(body):
                    uses[step.callee] = uses.get(step.callee, 0) + 1
            self.definitions = {name: one for name, one in self.definitions.items() if uses.get(name)}
            outer = {item.callee for item in items if isinstance(item, Step)}
            once = {
                name: one
                for name, one in self.definitions.items()
                if uses[name] == 1 and (one.container or len(one.body.items) <= (WHOLE if name in outer else FEW))
            }
            if not once:
                for one in self.definitions.values():
                    one.body.items = staged(one.body.items)
                return staged(items)
            name = next(iter(once))
            definition = self.definitions.pop(name)
            items = spliced(items, definition)
            for other in self.definitions.values():
                other.body.items = spliced(other.body.items, definition)


def spliced(items: Sequence[Item], definition: Definition, depth: int = 0) -> tuple[Item, ...]:
    """Statements with those of a block in the place of its calls."""
    made: list[Item] = []
    for item in items:
        match item:
            case Step(callee=definition.name):
                made += _body_of(definition, item)
            case Step():
                made.append(item)
            case _:
                made.append(replace(item, items=spliced(item.items, definition)))
    return tuple(made)


def _body_of(definition: Definition, call: Step) -> tuple[Item, ...]:
    body = definition.body
    known = dict(zip(body.inputs, call.reads, strict=True))
    # what a block gives back may be what it was given
    known |= {a: b for a, b in zip(body.outputs, call.writes, strict=True) if a not in known}

    def name(number: int) -> int:
        return known.setdefault(number, next(FRESH))

    items = renamed(body.items, name)
    found = [(depth, value) for depth, _, value in values(items)]
    return filled(items, iter([_given(value, call.arguments, depth) for depth, value in found]))


def _given(value: Expr, arguments_: Mapping[str, Expr], depth: int) -> Expr:
    """An expression of a block with what a call gives for its parameters, which stand so many loops further out."""

    def swap(part: Expr, inside: int) -> Expr:
        if isinstance(part, Name):
            return _up(arguments_[part.text], inside)
        return part

    return _swapped(value, swap, depth)


def _swapped(value: Expr, swap: Callable[[Expr, int], Expr], depth: int) -> Expr:
    match value:
        case Up() | Column():
            return replace(value, of=_swapped(value.of, swap, depth - 1))
        case First():
            return First(_swapped(value.first, swap, depth - 1), _swapped(value.rest, swap, depth - 1))
        case Times():
            return replace(value, of=_swapped(value.of, swap, depth))
        case Many():
            return Many(tuple(_swapped(item, swap, depth) for item in value.items))
        case Test():
            return Test(value.sign, tuple(_swapped(item, swap, depth) for item in value.sides))
    return swap(value, depth)


def _up(value: Expr, times: int) -> Expr:
    for _ in range(times):
        value = value if isinstance(value, int | str | float | bool | None) else Up(value)
    return value


def _groups(root: Region) -> Iterator[list[Region]]:
    """The modules of each class together, those inside of others first."""
    height: dict[int, int] = {}
    everything = root.everything()
    for region in everything:
        height[id(region)] = 1 + max((height[id(inner)] for inner in region.regions()), default=0)
    below: dict[str, set[str]] = {}
    for region in everything:
        below.setdefault(_kind(region), set()).update(_kind(inner) for inner in region.regions())
    nested = _nested(below)
    groups: dict[tuple[str, int], list[Region]] = {}
    level: dict[str, int] = {}
    for region in everything:
        level[_kind(region)] = max(level.get(_kind(region), 0), height[id(region)])
    for region in everything:
        kind = _kind(region)
        groups.setdefault((kind, height[id(region)] if kind in nested else level[kind]), []).append(region)
    last = groups.pop((_kind(root), height[id(root)] if _kind(root) in nested else level[_kind(root)]))
    done: set[int] = set()
    pending = sorted(groups, key=lambda key: key[1])
    while pending:
        ready = [key for key in pending if all(id(r) in done for one in groups[key] for r in one.regions())]
        for key in ready or pending[:1]:
            pending.remove(key)
            todo = groups[key]
            if not ready:  # cannot be, as classes that are in each other are told apart by height
                raise AssertionError(key)
            yield todo
            done |= {id(region) for region in todo}
    del last
    yield [root]


def _kind(region: Region) -> str:
    if region.scope == "":
        return "\0"
    if region.kind in CONTAINERS:
        return region.kind + re.sub(r"\d+", "", region.scope.rpartition(".")[2])
    return region.kind


def _nested(below: Mapping[str, set[str]]) -> set[str]:
    """Classes that are, somewhere, inside of themselves."""
    found: set[str] = set()
    for start in below:
        seen: set[str] = set()
        stack = [*below[start]]
        while stack:
            one = stack.pop()
            if one not in seen:
                seen.add(one)
                stack += below.get(one, ())
        if start in seen:
            found.add(start)
    return found
