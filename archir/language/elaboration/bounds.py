"""How many nodes a body makes at the least, counted on the syntax tree before anything is expanded.

This is what turns a block that doubles the graph sixty times into a diagnostic instead of a full memory.
"""

from __future__ import annotations

from dataclasses import fields
from functools import reduce
from typing import Any

from archir.diagnostics.work import spend
from archir.diagrams.cases import Value
from archir.ir.op import OPS
from archir.language.elaboration.files import Module
from archir.language.elaboration.values import Block, Operation
from archir.language.syntax import ast

Blocks = tuple[tuple[str, Value], ...]
"""What is known of parameters that are blocks."""


class Bounds:
    """Lower bounds, remembered per block and block-valued parameters. With `calls`, calls count as nodes do."""

    def __init__(self, calls: bool = False) -> None:
        self.calls = calls
        self._known: dict[tuple[int, Blocks], int] = {}

    def block(self, block: Block, given: Blocks = ()) -> int:
        """The least number of nodes of one call."""
        key = (id(block.definition), given)
        if key not in self._known:
            self._known[key] = 0  # a recursive block is refused elsewhere
            self._known[key] = self.body(block.definition.body, block.module, dict(given))
        return self._known[key]

    def body(self, body: ast.Body, module: Module, given: dict[str, Value]) -> int:
        """The least number of nodes of a sequence of statements."""
        return sum(self._count(statement, module, given) for statement in body)

    def _count(self, tree: Any, module: Module, given: dict[str, Value]) -> int:
        spend(1)

        def count(*parts: Any) -> int:
            return sum(self._count(part, module, given) for part in parts)

        match tree:
            case ast.If():
                branches = (self.body(branch, module, given) for branch in (tree.then, tree.otherwise))
                return count(tree.condition) + min(branches)
            case ast.IfElse():
                return count(tree.condition) + min(count(tree.then), count(tree.otherwise))
            case ast.Match():
                return count(tree.subject) + min((count(arm.value) for arm in tree.arms), default=0)
            case ast.Repeat():
                return _times(tree.times) * self.body(tree.body, module, given) + count(tree.times)
            case ast.ForLoop():
                bodies = [self.body(tree.body, module, one) for one in _rounds(tree, module, given)]
                return sum(bodies) or _times(tree.items) * self.body(tree.body, module, given) + count(tree.items)
            case ast.Comprehension(parts=(ast.For() as part,)):
                items = [self._count(tree.item, module, one) for one in _rounds(part, module, given)]
                return sum(items) or _times(part.items) * count(tree.item)
            case ast.Comprehension():
                parts = tree.parts
                sure = not any(isinstance(part, ast.Filter) for part in parts)
                times = reduce(lambda n, part: n * _times(part.items) if isinstance(part, ast.For) else n, parts, 1)
                return (times if sure else 0) * count(tree.item)
            case ast.Call():
                return count(*tree.arguments) + self._call(tree, module, given)
            case ast.Pipe():
                return count(tree.first) + sum(self._target(target, module, given) for target in tree.targets)
            case ast.Tree():
                return count(*(getattr(tree, f.name) for f in fields(tree) if f.name not in ("span", "depth")))
            case tuple():
                return count(*tree)
        return 0

    def _target(self, target: ast.Expr, module: Module, given: dict[str, Value]) -> int:
        match target:
            case ast.Name():
                return self._callee(_meaning(target, module, given), ())
            case ast.Pipe():
                return sum(self._target(one, module, given) for one in (target.first, *target.targets))
            case ast.ChooseOne():
                return sum(self._target(one.value, module, given) for one in target.alternatives)
            case ast.Match():
                return min((self._target(arm.value, module, given) for arm in target.arms), default=0)
        return self._count(target, module, given)

    def _call(self, call: ast.Call, module: Module, given: dict[str, Value]) -> int:
        callee = _meaning(call.callee, module, given)
        if not isinstance(callee, Block):
            return self._callee(callee, ())
        params = [param.name.text for param in callee.definition.params]
        known: dict[str, Value] = {}
        for position, argument in enumerate(call.arguments):
            value = _meaning(argument.value, module, given)
            name = argument.name.text if argument.name else params[position] if position < len(params) else None
            if name is not None and isinstance(value, Block):
                known[name] = value
        return self._callee(callee, tuple(sorted(known.items(), key=lambda pair: pair[0])))

    def _callee(self, callee: Value, given: Blocks) -> int:
        if isinstance(callee, Block):
            return self.calls + self.block(callee, given)
        return 1 if isinstance(callee, Operation) else 0


def _meaning(tree: Any, module: Module, given: dict[str, Value]) -> Value:
    if not isinstance(tree, ast.Name):
        return None
    if tree.text in given:
        return given[tree.text]
    found = module.lookup(tree.text)
    if found is None and OPS.here(tree.text) and not OPS[tree.text].internal:
        return Operation(OPS[tree.text])
    return found


def _rounds(tree: ast.ForLoop | ast.For, module: Module, given: dict[str, Value]) -> list[dict[str, Value]]:
    """What is known in each round of a loop over a list of blocks that is written out."""
    if not isinstance(tree.items, ast.Sequence) or len(tree.targets) != 1:
        return []
    return [{**given, tree.targets[0].text: _meaning(item, module, given)} for item in tree.items.items]


def _times(tree: ast.Expr) -> int:
    """How often a loop surely runs."""
    match tree:
        case ast.Literal(value=int() as times):
            return max(0, times)
        case ast.Range(start=ast.Literal(value=int() as start), stop=ast.Literal(value=int() as stop)):
            return max(0, stop - start)
        case ast.Sequence():
            return len(tree.items)
    return 0
