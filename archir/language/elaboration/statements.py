"""Executes statements: assignments, loops, branches, inputs and outputs, and `require`s, which become constraints."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import reduce
from pathlib import Path

from archir.diagnostics.errors import ArchError, RuleError, Span
from archir.diagrams.conditions import conjoin, if_else, negate
from archir.diagrams.diagram import Value, same, varies
from archir.diagrams.lifting import Excluded
from archir.ir.graph import Constraint
from archir.ir.structure import Input
from archir.ir.types import DTYPES
from archir.language.elaboration import static
from archir.language.elaboration.context import Context
from archir.language.elaboration.cost_names import (
    COST_DEFAULTS,
    COSTS,
    LATENCY,
    cost_call,
    cost_call_text,
    latency_name,
)
from archir.language.elaboration.evaluate import first_or_excluded
from archir.language.elaboration.lists import bind_targets, iterate, make_list
from archir.language.elaboration.name_analysis import names_read
from archir.language.elaboration.network import add_node, merge_values, node_of, too_many_nodes
from archir.language.elaboration.node_bounds import sure_iterations
from archir.language.elaboration.values import POISON, UNBOUND
from archir.language.syntax import ast

_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
"""Maps each comparison operator to the one that is equivalent when the sides are swapped."""


def execute(context: Context, body: ast.Body) -> None:
    """Execute statements, each under the condition that the current call has not returned yet."""
    before = len(context.frame.returned)
    path = context.guard
    try:
        for statement in body:
            context.step(statement.span)
            context.guard = conjoin(context.guard, not_returned_since(context, before))
            before = len(context.frame.returned)
            if context.guard is False:
                return
            try:
                _execute_statement(context, statement)
            except RuleError as error:
                context.report_rule_error(error, statement.span)
            except Excluded:
                if context.guard is path:
                    raise
                # all outcomes that the requirements allow have returned before this statement
                context.frame.returned.append((context.guard, UNBOUND))
                return
    finally:
        context.guard = path


def not_returned_since(context: Context, since: int) -> Value:
    """Return the condition that none of the call's `return`s, except the first `since` of them, was executed."""
    return reduce(conjoin, (negate(condition) for condition, _ in context.frame.returned[since:]), True)


def _execute_statement(context: Context, statement: ast.Statement) -> None:
    match statement:
        case ast.Assign():
            direct = isinstance(statement.value, (ast.Choose, ast.Match, ast.Pipe)) and len(statement.targets) == 1
            context.assigned = statement.targets[0] if direct else None
            value = context.eval(statement.value)
            context.assigned = None
            bind_targets(context, statement.targets, value)
            if len(statement.targets) == 1:
                context.observer(context, statement.targets[0].span, value)
        case ast.Return():
            values = [context.eval(value) for value in statement.values]
            if context.frame.block is None:
                text = "a net cannot return a value: it has outputs"
                context.error("A0208", text, statement.span, "`output logits = x`")
                return
            value = values[0] if len(values) == 1 else make_list(context, values, statement.span)
            context.frame.returned.append((context.guard, value))
        case ast.ForLoop():
            items = context.checked(statement.items.span, static.sequence, context.eval(statement.items))
            _execute_loop(context, statement.targets, items, statement.items.span, statement.body)
        case ast.Repeat():
            context.assigned = statement.index
            times = context.eval(statement.times)
            context.assigned = None
            items = context.lift(
                statement.times.span,
                lambda n: static.integer_range(0, static.integer(n, "a number of times")),
                times,
            )
            targets = (statement.index,) if statement.index else ()
            _execute_loop(context, targets, items, statement.times.span, statement.body)
        case ast.If():
            _execute_if(context, statement)
        case ast.Input():
            _add_input(context, statement)
        case ast.Output():
            _add_output(context, statement)
        case ast.Require():
            _add_requirement(context, statement.condition)


# control flow
def _execute_loop(context: Context, targets: tuple[ast.Name, ...], items: Value, span: Span, body: ast.Body) -> None:
    if items is POISON:
        for target in targets:
            context.frame.env[target.text] = POISON
        return
    local = dict.fromkeys([*context.frame.local_names, *context.frame.env])
    min_nodes = context.node_bounds.body(body, context.frame.module, local)
    if not varies(items):
        iterations = min(len(items), sure_iterations(body))
        if len(context.graph) + min_nodes * iterations > context.limits.nodes:
            too_many_nodes(context, span)
    outer_loops, returned = context.scope.loops, len(context.frame.returned)
    try:
        for position, (exists, item) in enumerate(iterate(context, items, span)):
            context.step(span)
            context.spend(len(context.frame.env) / 32, span)
            before = dict(context.frame.env)
            context.scope.loops = (*outer_loops, position)
            not_returned = not_returned_since(context, returned)
            with context.under(conjoin(exists, not_returned)) as possible:
                if not possible or (targets and not bind_targets(context, targets, item())):
                    return
                execute(context, body)
                _merge_variables(context, exists, context.frame.env, before, span)
                continue
            context.frame.env = before
    finally:
        context.scope.loops = outer_loops


def _execute_if(context: Context, statement: ast.If) -> None:
    condition = context.condition(statement.condition)
    if condition is POISON:
        return
    condition = context.restricted(condition)
    if not varies(condition):
        execute(context, statement.then if condition else statement.orelse)
        return
    context.spend(len(context.frame.env) / 32, statement.span)
    before = context.frame.env
    envs: dict[bool, dict[str, Value]] = {}
    for holds, body in ((True, statement.then), (False, statement.orelse)):
        context.frame.env = dict(before)
        with context.under(condition if holds else negate(condition)):
            execute(context, body)
            envs[holds] = context.frame.env
    context.frame.env = before if len(envs) == 2 else first_or_excluded(envs.values())
    if len(envs) == 2:
        _merge_variables(context, condition, envs[True], envs[False], statement.span)


def _merge_variables(
    context: Context, condition: Value, then: dict[str, Value], orelse: dict[str, Value], span: Span
) -> None:
    """Merge the variables after a branch: those of `then` where `condition` holds, those of `orelse` elsewhere."""
    if condition is True:
        context.frame.env = then
        return
    context.spend(len(then) / 4, span)
    merged: dict[str, Value] = {}
    for name in [*then, *(name for name in orelse if name not in then)]:
        then_value, else_value = then.get(name, UNBOUND), orelse.get(name, UNBOUND)
        if then_value is POISON or else_value is POISON:
            merged[name] = POISON
        else:
            merged[name] = (
                then_value
                if same(then_value, else_value)
                else merge_values(context, condition, then_value, else_value, span)
            )
    context.frame.env = merged


# nets
def _add_input(context: Context, statement: ast.Input) -> None:
    if context.frame.block is not None or context.guard is not True:
        context.error("A0208", "inputs are only allowed at the top level of a net", statement.span)
        return
    name, dtype = statement.name.text, statement.type.dtype
    if dtype.text not in DTYPES:
        from archir.language.elaboration.unknown_names import dtype_hint

        context.error("A0212", f"there is no element type `{dtype}`", dtype.span, dtype_hint(dtype.text, DTYPES))
    if name in context.graph.inputs:
        context.error("A0202", f"the input `{name}` is defined twice", statement.name.span)
        return
    dims = [context.lift(d.span, lambda leaf: _dimension(leaf), context.eval(d)) for d in statement.type.dims]
    context.frame.env[name] = POISON
    if POISON not in dims and dtype.text in DTYPES:
        context.scope.used.add(name)
        op = Input.of(name, dims, dtype.text)
        context.frame.env[name] = add_node(context, op, (), statement.name.span, name)


def _add_output(context: Context, statement: ast.Output) -> None:
    name = statement.name.text
    if context.frame.block is not None or context.guard is not True:
        context.error("A0208", "outputs are only allowed at the top level of a net", statement.span)
        return
    if name in context.graph.outputs:
        context.error("A0202", f"the output `{name}` is defined twice", statement.name.span)
        return
    context.assigned = statement.name
    node = node_of(context, context.eval(statement.value), statement.value.span, f"the output `{name}`")
    context.assigned = None
    if node is not None:
        context.graph.outputs[name] = node


def _add_requirement(context: Context, tree: ast.Expr) -> None:
    if isinstance(tree, ast.Logical) and tree.word == "and":
        for operand in tree.operands:
            _add_requirement(context, operand)
    elif not names_read(tree).isdisjoint(_cost_names(context)):
        _add_cost_bound(context, tree)
    else:
        condition = context.condition(tree)
        if condition is POISON:
            return
        holds = if_else(context.guard, condition, True)
        if holds is False:
            context.error("A0510", "no architecture satisfies this", tree.span)
        context.constrain(Constraint(holds, "require", tree.span.text, tree.span))


def _add_cost_bound(context: Context, tree: ast.Expr) -> None:
    """Add a cost bound as a constraint; such constraints are checked on complete architectures only."""
    sides = [tree.first, *(operand for _, operand in tree.links)] if isinstance(tree, ast.Comparison) else []
    costs = [i for i, side in enumerate(sides) if _is_cost(context, side)]
    others = [side for i, side in enumerate(sides) if i not in costs]
    is_plain = all(names_read(side).isdisjoint(_cost_names(context)) for side in others)
    if not isinstance(tree, ast.Comparison) or len(sides) != 2 or len(costs) != 1 or not is_plain:
        hint = 'latency("cpu.json") <= 5ms' if LATENCY in names_read(tree) else "macs <= 600M"
        text = "a bound must compare a single cost, without arithmetic, with a number"
        context.error("A0509", text, tree.span, f"such as `require {hint}`")
        return
    cost, relation = sides[costs[0]], tree.links[0][0]
    other = sides[1 - costs[0]]
    if relation not in _SWAPPED:
        context.error("A0509", f"a cost cannot be compared by `{relation}`", tree.span)
        return
    limit = context.lift(other.span, lambda leaf: static.integer(leaf, "a bound on a cost"), context.eval(other))
    name_and_table = _parse_cost(context, cost)
    if limit is POISON or name_and_table is None:
        return
    name, table = name_and_table
    relation = relation if costs[0] == 0 else _SWAPPED[relation]
    bound = Constraint(context.guard, "require", tree.span.text, tree.span, name, relation, limit, table)
    context.constrain(bound)


def _cost_names(context: Context) -> list[str]:
    """Return the cost names that no variable in the current frame hides."""
    return [name for name in (*COSTS, LATENCY) if name not in context.frame.env]


def _is_cost(context: Context, tree: ast.Expr) -> bool:
    match tree:
        case ast.Name(text=name):
            return name in _cost_names(context) and name != LATENCY
        case ast.Call(callee=ast.Name(text=name)):
            return name in _cost_names(context) and (name == LATENCY or name in COST_DEFAULTS)
    return False


def _parse_cost(context: Context, tree: ast.Expr) -> tuple[str, Path | None] | None:
    """Return the name of a cost and, for latencies, the path of its latency table; None after an error."""
    if isinstance(tree, ast.Name):
        return tree.text, None
    assert isinstance(tree, ast.Call)
    if isinstance(tree.callee, ast.Name) and tree.callee.text in COST_DEFAULTS:
        return _cost_with_arguments(context, tree.callee.text, tree)
    file, confidence = _latency_arguments(context, tree)
    if isinstance(file, str) and (confidence is None or isinstance(confidence, int | float | Fraction)):
        try:
            name = latency_name(file, None if confidence is None else float(confidence))
            return name, context.loader.locate(file, context.frame.module.folder, tree.span)[0]
        except ArchError as error:
            context.problems.add(error.diagnostics[0])
    elif POISON not in (file, confidence):
        hint = '`latency("cpu.json") <= 5ms` or `latency("model.json", confidence=0.95) <= 5ms`'
        text = "`latency` takes the file of a table, or the file of a model and a confidence"
        context.error("A0509", text, tree.span, hint)
    return None


def _latency_arguments(context: Context, tree: ast.Call) -> tuple[Value, Value]:
    """Return the file and the confidence in a call of `latency`; (None, None) if the arguments do not have that
    form."""
    names = [argument.name.text if argument.name else None for argument in tree.arguments]
    if names not in ([None], [None, "confidence"]):
        return None, None
    file, confidence = [context.eval(argument.value) for argument in tree.arguments] + [None] * (2 - len(names))
    return file, confidence


def _cost_with_arguments(context: Context, name: str, tree: ast.Call) -> tuple[str, None] | None:
    """Return the text of a cost with arguments, and None because it has no table. A single None after an error."""
    arguments = [
        (argument.name.text if argument.name else None, context.eval(argument.value)) for argument in tree.arguments
    ]
    if any(value is POISON for _, value in arguments):
        return None
    if any(varies(value) for _, value in arguments):
        context.error("A3321", f"the arguments of `{name}` cannot depend on a choice", tree.span)
        return None
    try:
        cost_call(name, arguments)
    except ArchError as error:
        context.problems.add(replace(error.diagnostics[0], span=tree.span))
        return None
    return cost_call_text(name, arguments), None


def _dimension(value: Value) -> int:
    size = static.integer(value, "a dimension")
    if size < 1:
        raise RuleError(f"a dimension must be at least 1, got {size}", code="A0406")
    return size
