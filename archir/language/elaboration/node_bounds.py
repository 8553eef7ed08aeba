"""Lower bounds on the number of graph nodes of a body, computed from the syntax tree before it is expanded.

Thanks to these bounds, a program that doubles its graph sixty times is rejected with a diagnostic before it exhausts
memory.
"""

from __future__ import annotations

import sys
from dataclasses import fields
from functools import reduce
from typing import Any

from archir.diagnostics.work import spend
from archir.diagrams.diagram import Value
from archir.ir.op import OPS
from archir.language.elaboration.module import Block, Module
from archir.language.elaboration.name_analysis import assigned
from archir.language.elaboration.values import Operation
from archir.language.syntax import ast

BlockArgs = tuple[tuple[str, Value], ...]
"""Arguments known to be blocks: (parameter name, block) pairs."""


class NodeBounds:
    """Lower bounds on node counts, memoised by block and block-valued arguments. With `calls`, each block call also
    counts as 1."""

    def __init__(self, calls: bool = False) -> None:
        self.calls = calls
        self._memo: dict[tuple[int, BlockArgs], int] = {}

    def block(self, block: Block, block_args: BlockArgs = ()) -> int:
        """Return a lower bound on the number of nodes that one call of a block adds."""
        key = (id(block.definition), block_args)
        if key not in self._memo:
            self._memo[key] = 0  # a recursive block is refused elsewhere
            unknown = {*block.local_names, *(param.name.text for param in block.definition.params)}
            env = {name: value for name, value in block_args if name not in block.local_names}
            self._memo[key] = self.body(block.definition.body, block.module, dict.fromkeys(unknown) | env)
        return self._memo[key]

    def body(self, body: ast.Body, module: Module, env: dict[str, Value]) -> int:
        """Return a lower bound on the number of nodes that a sequence of statements adds.

        Statements after one that can return may not be executed, and count 0. `env` has the values of local variables
        and parameters, None if they are not known.
        """
        nodes = 0
        for statement in body:
            nodes += self._count(statement, module, env)
            if can_return((statement,)):
                break
        return nodes

    def _count(self, tree: Any, module: Module, env: dict[str, Value]) -> int:
        spend(1)

        def count(*parts: Any) -> int:
            return sum(self._count(part, module, env) for part in parts)

        match tree:
            case ast.If():
                branches = (self.body(branch, module, env) for branch in (tree.then, tree.orelse))
                return count(tree.condition) + min(branches)
            case ast.IfElse():
                return count(tree.condition) + min(count(tree.then), count(tree.orelse))
            case ast.Match():
                return count(tree.subject) + min((count(arm.value) for arm in tree.arms), default=0)
            case ast.Repeat():
                times = min(_min_iterations(tree.times), sure_iterations(tree.body))
                return times * self.body(tree.body, module, env) + count(tree.times)
            case ast.ForLoop():
                most = sure_iterations(tree.body)
                bodies = [
                    self.body(tree.body, module, iteration_env)
                    for iteration_env in _iteration_envs(tree, tree.body, module, env)[:most]
                ]
                times = min(_min_iterations(tree.items), most)
                return sum(bodies) or times * self.body(tree.body, module, env) + count(tree.items)
            case ast.Comprehension(parts=(ast.For() as part,)):
                items = [
                    self._count(tree.item, module, iteration_env)
                    for iteration_env in _iteration_envs(part, tree.item, module, env)
                ]
                return sum(items) or _min_iterations(part.items) * count(tree.item)
            case ast.Comprehension():
                parts = tree.parts
                sure = not any(isinstance(part, ast.Filter) for part in parts)
                times = reduce(
                    lambda n, part: n * _min_iterations(part.items) if isinstance(part, ast.For) else n, parts, 1
                )
                return (times if sure else 0) * count(tree.item)
            case ast.Call():
                return count(*tree.arguments) + self._call(tree, module, env)
            case ast.Pipe():
                return count(tree.first) + sum(self._target(target, module, env) for target in tree.targets)
            case ast.Tree():
                return count(*(getattr(tree, f.name) for f in fields(tree) if f.name not in ("span", "depth")))
            case tuple():
                return count(*tree)
        return 0

    def _target(self, target: ast.Expr, module: Module, env: dict[str, Value]) -> int:
        match target:
            case ast.Name():
                return self._callee(_resolve(target, module, env), ())
            case ast.Call():
                return self._count(target.arguments, module, env) + self._call(target, module, env, piped=1)
            case ast.Pipe():
                return sum(self._target(part, module, env) for part in (target.first, *target.targets))
            case ast.ChooseOne():
                return sum(self._target(part.value, module, env) for part in target.alternatives)
            case ast.Match():
                return min((self._target(arm.value, module, env) for arm in target.arms), default=0)
        return self._count(target, module, env)

    def _call(self, call: ast.Call, module: Module, env: dict[str, Value], piped: int = 0) -> int:
        """Return the bound of a call; the first `piped` parameters of the callee are the value of a pipe."""
        callee = _resolve(call.callee, module, env)
        if not isinstance(callee, Block):
            return self._callee(callee, ())
        params = [param.name.text for param in callee.definition.params]
        block_args: dict[str, Value] = {}
        for position, argument in enumerate(call.arguments, piped):
            value = _resolve(argument.value, module, env)
            name = argument.name.text if argument.name else params[position] if position < len(params) else None
            if name is not None and isinstance(value, Block):
                block_args[name] = value
        return self._callee(callee, tuple(sorted(block_args.items(), key=lambda pair: pair[0])))

    def _callee(self, callee: Value, block_args: BlockArgs) -> int:
        if isinstance(callee, Block):
            return self.calls + self.block(callee, block_args)
        return 1 if isinstance(callee, Operation) else 0


def _resolve(tree: Any, module: Module, env: dict[str, Value]) -> Value:
    """Return the value (such as a block or operation) of a name; None if the expression is not a name."""
    if not isinstance(tree, ast.Name):
        return None
    if tree.text in env:
        return env[tree.text]
    value = module.lookup(tree.text)
    if value is None and tree.text in OPS and not OPS[tree.text].internal:
        return Operation(OPS[tree.text])
    return value


def can_return(body: ast.Body) -> bool:
    """Return whether a sequence of statements contains a `return`."""
    for statement in body:
        match statement:
            case ast.Return():
                return True
            case ast.If() if can_return(statement.then) or can_return(statement.orelse):
                return True
            case ast.Repeat() | ast.ForLoop() if can_return(statement.body):
                return True
    return False


def sure_iterations(body: ast.Body) -> int:
    """Return the number of iterations of a loop that are executed for sure, if the loop has as many: 1 if the body
    can return."""
    return 1 if can_return(body) else sys.maxsize


def _iteration_envs(
    tree: ast.ForLoop | ast.For, body: ast.Body | ast.Expr, module: Module, env: dict[str, Value]
) -> list[dict[str, Value]]:
    """Return the variables in each iteration of a loop over a list literal; [] for other loops, and if the body
    assigns the loop's variable."""
    if not isinstance(tree.items, ast.Sequence) or len(tree.targets) != 1 or tree.targets[0].text in assigned(body):
        return []
    return [{**env, tree.targets[0].text: _resolve(item, module, env)} for item in tree.items.items]


def _min_iterations(tree: ast.Expr) -> int:
    """Return the number of iterations for a literal loop range or count, else 0."""
    match tree:
        case ast.Literal(value=int() as times):
            return max(0, times)
        case ast.Range(start=ast.Literal(value=int() as start), stop=ast.Literal(value=int() as stop)):
            return max(0, stop - start)
        case ast.Sequence():
            return len(tree.items)
    return 0
