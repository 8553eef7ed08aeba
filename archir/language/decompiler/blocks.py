"""Builds the blocks of a decompiled program: source modules with the same structure become calls of one block."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from archir.ir.graph import Graph, NodeId, scope_path
from archir.ir.op import OPS
from archir.ir.typing import Types
from archir.language.decompiler.fusion_patterns import LIBRARY, fuse_library_blocks
from archir.language.decompiler.loop_rolling import UnmergeableError, merge, roll_loops
from archir.language.decompiler.option_merging import merge_bodies
from archir.language.decompiler.parameters import Parameters
from archir.language.decompiler.program_tree import (
    FRESH_NUMBERS,
    Body,
    Condition,
    Expr,
    FirstRound,
    Item,
    ListExpr,
    Multiple,
    Outer,
    ParameterRef,
    PerRound,
    Step,
    expressions_in,
    renumbered,
    steps,
    structure_of,
    with_expressions,
)
from archir.language.decompiler.recurrences import fuse_recurrent_layers
from archir.language.decompiler.regions import CONTAINERS, Region
from archir.language.decompiler.spelling import arguments, snake
from archir.language.decompiler.stages import detect_stages

MAX_INLINED_ANYWHERE = 3
"""Maximum number of statements of a module or block to inline, in two cases.

The cases are a module that is a chain of operations, and a block whose only call is in another block.
"""
MAX_INLINED_SINGLE = 8
"""Maximum number of statements of a module to inline if it is the only one with its structure."""

MAX_INLINED_INTO_NET = 25
"""Maximum number of statements of a block to inline if its only call is in the body of the net."""


@dataclass
class Definition:
    """Definition of a block: its body, and for each parameter the value that each call passes."""

    name: str
    body: Body
    parameters: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    container: bool = False


class ProgramBuilder:
    """Converts a graph, divided into the regions of its source modules, into block definitions and the body of the
    net."""

    def __init__(self, graph: Graph, types: Types, shared: Mapping[NodeId, str], plain: bool = False) -> None:
        self.graph, self.types, self.shared, self.plain = graph, types, shared, plain
        self.definitions: dict[str, Definition] = {}
        self._statements: dict[int, tuple[Item, ...]] = {}

    def net_body(self, root: Region) -> Body:
        """Return the body of the net, and store the block definitions that it needs in `definitions`."""
        for group in _groups(root):
            bodies = [self._body(region) for region in group]
            if group[0] is root:
                self._statements[id(root)] = bodies[0].items
                continue
            self._define(group, bodies)
        body = Body(tuple(root.inputs), self._statements[id(root)], tuple(root.outputs))
        body.items = self._inline(body.items)
        return body

    def _body(self, region: Region) -> Body:
        """Return the body of a module, with repeated statements rolled into loops.

        Unless `plain` is set, known library blocks are recognised first.
        """
        items: list[Item] = []
        for item in region.items:
            items += self._statements[id(item)] if isinstance(item, Region) else [self._step(item)]
        if not self.plain:
            items = list(
                fuse_library_blocks(
                    fuse_recurrent_layers(items, region.outputs, self.graph, self.types), region.outputs, self.types
                )
            )
        rolled = roll_loops(items, region.outputs, lambda name: name in self.definitions)
        types = tuple(self.types[number] for number in region.inputs)
        return Body(tuple(region.inputs), rolled, tuple(region.outputs), types)

    def _step(self, number: NodeId) -> Step:
        """Convert a graph node to a step, which is a call of its operation."""
        node = self.graph[number]
        operands = self.graph.operands(number)
        attributes = arguments(node.op, [self.types[operand] for operand in operands])
        word = (scope_path(node.scope) or ("",))[-1]
        return Step(node.op.name, operands, (number,), attributes, self.shared.get(number, ""), word)

    def _define(self, group: Sequence[Region], bodies: Sequence[Body]) -> None:
        """Turn modules of one class into calls of blocks, one block per structure, or inline them where that reads
        better."""
        if all(self._should_inline(region, body) for region, body in zip(group, bodies, strict=True)):
            self._statements |= {id(region): body.items for region, body in zip(group, bodies, strict=True)}
            return
        by_structure: dict[object, list[int]] = {}
        merged_bodies = list(bodies) if self.plain else merge_bodies(bodies)
        for place, body in enumerate(merged_bodies):
            by_structure.setdefault(structure_of(body), []).append(place)
        for places in by_structure.values():
            try:
                self._block([group[place] for place in places], [merged_bodies[place] for place in places])
            except UnmergeableError:
                for place in places:
                    self._statements[id(group[place])] = bodies[place].items

    def _block(self, group: Sequence[Region], bodies: Sequence[Body]) -> None:
        """Create one block for modules with the same structure, and replace each module by a call of the block."""
        region = group[0]
        if len(group) == 1 and (len(bodies[0].items) <= MAX_INLINED_SINGLE or region.kind in CONTAINERS):
            self._statements[id(region)] = bodies[0].items
            return
        definition = self._unify(region, bodies)
        self.definitions[definition.name] = definition
        for call, call_region in enumerate(group):
            call_arguments = {name: column[call] for name, column in definition.parameters.items()}
            step = Step(
                definition.name,
                tuple(call_region.inputs),
                tuple(call_region.outputs),
                call_arguments,
                "",
                definition.name,
            )
            self._statements[id(call_region)] = (step,)

    def _unify(self, region: Region, bodies: Sequence[Body]) -> Definition:
        """Merge bodies with the same structure into the definition of one block; differing arguments become parameters.

        Raises UnmergeableError if the bodies differ inside loops in a way that no single expression describes.
        """
        first = bodies[0]
        columns = list(zip(*(list(expressions_in(body.items)) for body in bodies), strict=True))
        input_types = [body.types[0] if body.types else None for body in bodies]
        parameters = Parameters(first.inputs[0] if first.inputs else None, input_types, [*OPS])
        merged: dict[int, Expr] = {}
        for place in sorted(range(len(columns)), key=lambda place: columns[place][0][1] == "full"):  # conditions last
            depth, parameters.name, _ = columns[place][0]
            merged[place] = merge([value for *_, value in columns[place]], depth, parameters.expression)
        name = self._new_name(region)
        body = Body(
            first.inputs,
            with_expressions(first.items, iter([merged[place] for place in range(len(columns))])),
            first.outputs,
            first.types,
        )
        return Definition(name, body, parameters.values, region.kind in CONTAINERS)

    def _new_name(self, region: Region) -> str:
        """Return an unused block name, derived from the class or scope of a module."""
        last = (re.findall(r"[A-Za-z_]+", region.scope.rpartition(".")[2]) or ["block"])[-1]
        base = snake(last if region.kind in CONTAINERS else region.kind)
        name, number = base, 1
        while name in self.definitions or name in OPS or name in LIBRARY:
            number += 1
            name = f"{base}_{number}"
        return name

    def _should_inline(self, region: Region, body: Body) -> bool:
        """Return True if a module is easier to read inlined than as a block."""
        only_operations = all(isinstance(item, Step) and item.callee not in self.definitions for item in body.items)
        chain = (
            all(a.writes[0] in b.reads for a, b in pairwise(body.items) if isinstance(a, Step) and isinstance(b, Step))
            and only_operations
        )
        has_parameters = any(
            self.graph[n].op.weights(*(self.types[o] for o in self.graph.operands(n))) for n in region.nodes()
        )
        if not has_parameters and len(body.items) <= MAX_INLINED_ANYWHERE + 1:
            return True
        if len(body.outputs) == 1 and chain and len(body.items) <= MAX_INLINED_ANYWHERE:
            return True
        return len(body.items) == 1 and isinstance(body.items[0], Step)

    def _inline(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """Inline small blocks that are called once, drop uncalled blocks, and detect stages.

        This applies to the given statements and to `definitions`. Returns the new statements of the net.
        """
        while True:
            uses: dict[str, int] = {}
            for body in (items, *(definition.body.items for definition in self.definitions.values())):
                for step in steps(body):
                    uses[step.callee] = uses.get(step.callee, 0) + 1
            self.definitions = {name: candidate for name, candidate in self.definitions.items() if uses.get(name)}
            outer = {item.callee for item in items if isinstance(item, Step)}
            once = {
                name: candidate
                for name, candidate in self.definitions.items()
                if uses[name] == 1
                and (
                    candidate.container
                    or len(candidate.body.items) <= (MAX_INLINED_INTO_NET if name in outer else MAX_INLINED_ANYWHERE)
                )
            }
            if not once:
                for candidate in self.definitions.values():
                    candidate.body.items = detect_stages(candidate.body.items)
                return detect_stages(items)
            name = next(iter(once))
            definition = self.definitions.pop(name)
            items = inline_calls(items, definition)
            for other in self.definitions.values():
                other.body.items = inline_calls(other.body.items, definition)


def inline_calls(items: Sequence[Item], definition: Definition) -> tuple[Item, ...]:
    """Return the statements with each call of the block `definition` replaced by the statements of its body."""
    new_items: list[Item] = []
    for item in items:
        match item:
            case Step(callee=definition.name):
                new_items += _statements_of_call(definition, item)
            case Step():
                new_items.append(item)
            case _:
                new_items.append(replace(item, items=inline_calls(item.items, definition)))
    return tuple(new_items)


def _statements_of_call(definition: Definition, call: Step) -> tuple[Item, ...]:
    """Return the body statements of a block, with the inputs, outputs and arguments of one call substituted."""
    body = definition.body
    numbering = dict(zip(body.inputs, call.reads, strict=True))
    # an output of a block may be one of its inputs
    numbering |= {a: b for a, b in zip(body.outputs, call.writes, strict=True) if a not in numbering}

    def name(number: int) -> int:
        return numbering.setdefault(number, next(FRESH_NUMBERS))

    items = renumbered(body.items, name)
    expressions = [_with_arguments(value, call.arguments, depth) for depth, _, value in expressions_in(items)]
    return with_expressions(items, iter(expressions))


def _with_arguments(value: Expr, arguments_: Mapping[str, Expr], depth: int) -> Expr:
    """Replace the parameters in an expression of a block by the arguments of a call.

    The expression lies inside `depth` loops of the block; the arguments are expressions outside of these loops.
    """

    def swap(part: Expr, inside: int) -> Expr:
        if isinstance(part, ParameterRef):
            return _outer(arguments_[part.text], inside)
        return part

    return _replace_leaves(value, swap, depth)


def _replace_leaves(value: Expr, swap: Callable[[Expr, int], Expr], depth: int) -> Expr:
    """Replace each leaf of an expression by `swap(leaf, d)`, where d is the number of loops around the leaf."""
    match value:
        case Outer() | PerRound():
            return replace(value, of=_replace_leaves(value.of, swap, depth - 1))
        case FirstRound():
            return FirstRound(
                _replace_leaves(value.first, swap, depth - 1), _replace_leaves(value.later, swap, depth - 1)
            )
        case Multiple():
            return replace(value, of=_replace_leaves(value.of, swap, depth))
        case ListExpr():
            return ListExpr(tuple(_replace_leaves(item, swap, depth) for item in value.items))
        case Condition():
            return Condition(value.sign, tuple(_replace_leaves(item, swap, depth) for item in value.sides))
    return swap(value, depth)


def _outer(value: Expr, times: int) -> Expr:
    """Wrap an expression in `times` `Outer` nodes, so that it can be used inside that many additional loops."""
    for _ in range(times):
        value = value if isinstance(value, int | str | float | bool | None) else Outer(value)
    return value


def _groups(root: Region) -> Iterator[list[Region]]:
    """Yield the modules of each class as one list, with classes of submodules before those containing them."""
    height: dict[int, int] = {}
    everything = root.all_regions()
    for region in everything:
        height[id(region)] = 1 + max((height[id(inner)] for inner in region.regions()), default=0)
    below: dict[str, set[str]] = {}
    for region in everything:
        below.setdefault(_kind(region), set()).update(_kind(inner) for inner in region.regions())
    nested = _recursive_kinds(below)
    groups: dict[tuple[str, int], list[Region]] = {}
    level: dict[str, int] = {}
    for region in everything:
        level[_kind(region)] = max(level.get(_kind(region), 0), height[id(region)])
    for region in everything:
        kind = _kind(region)
        groups.setdefault((kind, height[id(region)] if kind in nested else level[kind]), []).append(region)
    del groups[_kind(root), height[id(root)] if _kind(root) in nested else level[_kind(root)]]
    done: set[int] = set()
    pending = sorted(groups, key=lambda key: key[1])
    while pending:
        ready = [key for key in pending if all(id(r) in done for group_key in groups[key] for r in group_key.regions())]
        for key in ready or pending[:1]:
            pending.remove(key)
            todo = groups[key]
            if not ready:  # impossible: classes that contain each other are grouped by height
                raise AssertionError(key)
            yield todo
            done |= {id(region) for region in todo}
    yield [root]


def _kind(region: Region) -> str:
    """Return the class of a module.

    For containers, the last component of the scope, without digits, is added to the class.
    """
    if region.scope == "":
        return "\0"
    if region.kind in CONTAINERS:
        return region.kind + re.sub(r"\d+", "", region.scope.rpartition(".")[2])
    return region.kind


def _recursive_kinds(below: Mapping[str, set[str]]) -> set[str]:
    """Return the classes that contain themselves, directly or through other classes."""
    recursive: set[str] = set()
    for start in below:
        seen: set[str] = set()
        stack = [*below[start]]
        while stack:
            kind = stack.pop()
            if kind not in seen:
                seen.add(kind)
                stack += below.get(kind, ())
        if start in seen:
            recursive.add(start)
    return recursive
