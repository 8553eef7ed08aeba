"""Evaluates calls and pipes for all kinds of callees; blocks and cells are expanded here."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from archir.diagnostics.errors import Note, RuleError, Span
from archir.diagnostics.hints import suggest
from archir.diagnostics.work import WorkError
from archir.diagrams.conditions import conjoin, disjoin, project
from archir.diagrams.diagram import Choice, Value, same, varies
from archir.diagrams.lifting import Excluded
from archir.ir.op import attribute_names
from archir.language.elaboration import static
from archir.language.elaboration.apply import (
    ArgValue,
    call_builtin,
    call_operation,
    each_case,
    shared_weights_scope,
    sharing_weights,
    split_weights_arg,
)
from archir.language.elaboration.cell_cache import Recorder, call_key, replay, tensors
from archir.language.elaboration.context import (
    CALL_WORK,
    MAX_CALL_DEPTH,
    STEP_WORK,
    WEIGHTS,
    Context,
)
from archir.language.elaboration.evaluate import evaluate_branches
from archir.language.elaboration.frame import CellState, Frame, Scope
from archir.language.elaboration.module import Block
from archir.language.elaboration.network import collapse_tensor, is_tensor, merge_values, too_many_nodes
from archir.language.elaboration.statements import execute
from archir.language.elaboration.values import POISON, UNBOUND, Builtin, Items, Operation, Tensor, kind
from archir.language.syntax import ast


def evaluate_pipe(context: Context, tree: ast.Pipe) -> Value:
    """Evaluate `first |> target |> ...`."""
    value, span = context.eval(tree.first), tree.first.span
    for target in tree.targets:
        value = pipe_into(context, target, ArgValue(None, value, span))
        context.observer(context, target.span, value)
        span = span.to(target.span)
    return value


def pipe_into(context: Context, target: ast.Expr, piped: ArgValue, in_scope: bool = False) -> Value:
    """Evaluate the target of a pipe with `piped` as its first argument.

    With `in_scope`, the call uses the current scope itself instead of a component below it.
    """
    match target:
        case ast.Call():
            return evaluate_call(context, target, piped, in_scope)
        case ast.Pipe():
            value, span = pipe_into(context, target.first, piped), piped.span
            for further in target.targets:
                value = pipe_into(context, further, ArgValue(None, value, span))
            return value
        case ast.ChooseOne() | ast.Match():
            return context.evaluators[type(target)](context, target, piped)
        case ast.IfElse():
            condition = context.condition(target.condition)
            if condition is POISON:
                return POISON
            then, orelse = target.then, target.orelse
            return evaluate_branches(
                context,
                condition,
                lambda: pipe_into(context, then, piped),
                lambda: pipe_into(context, orelse, piped),
                target.span,
            )
    return call_value(context, context.eval(target), [piped], target.span, in_scope)


def evaluate_call(context: Context, tree: ast.Call, piped: ArgValue | None = None, in_scope: bool = False) -> Value:
    """Evaluate `callee(arguments)`; a piped-in value precedes the arguments."""
    callee = context.eval(tree.callee)
    args = [] if piped is None else [piped]
    label, context.assigned = context.assigned, None
    for argument in tree.arguments:
        name = argument.name.text if argument.name else None
        span = argument.name.span if argument.name else argument.value.span
        args.append(ArgValue(name, context.eval(argument.value), span))
    context.assigned = label
    if callee is POISON or any(argument.value is POISON for argument in args):
        return POISON
    if tree.own or (isinstance(callee, Block) and callee.definition.own):
        if (weights_arg := split_weights_arg(args, _parameters_of(callee))[1]) is not None:
            text = "a call cannot have both `own` weights and shared weights"
            return context.error("A0409", text, weights_arg.span)
        args = [replace(argument, value=_collapse_arg(context, argument)) for argument in args]
        if any(argument.value is POISON for argument in args):
            return POISON
        if any(varies(argument.value) for argument in args):
            return _call_with_own_weights(context, callee, args, tree.span)
    return call_value(context, callee, args, tree.span, in_scope)


def call_value(context: Context, callee: Value, args: list[ArgValue], span: Span, in_scope: bool = False) -> Value:
    """Call a value.

    If the callee depends on choices, each possible callee is called under its condition, and the results are
    merged.
    """
    if callee is POISON or any(argument.value is POISON for argument in args):
        return POISON
    if varies(callee):
        return each_case(context, callee, lambda leaf: call_value(context, leaf, args, span), span)
    if isinstance(callee, Operation):
        if callee.op.name in static.FUNCTIONS and not any(is_tensor(argument.value) for argument in args):
            return call_builtin(context, callee.op.name, args, span)
        return call_operation(context, callee.op, args, span, in_scope)
    if isinstance(callee, Block):
        return call_block(context, callee, args, span, in_scope)
    if isinstance(callee, Builtin):
        return call_builtin(context, callee.name, args, span)
    hints = {int: "to scale, write `x * 2`", Tensor: "operations are called: `x |> relu`", Items: "`items[0]`"}
    hint = next((hint for type_, hint in hints.items() if isinstance(callee, type_)), None)
    return context.error("A0206", f"{kind(callee)} cannot be called", span, hint)


def _collapse_arg(context: Context, argument: ArgValue) -> Value:
    """Return a choice-dependent tensor as a single (select) node; other values unchanged."""
    try:
        return collapse_tensor(context, argument.value, set(), argument.span)
    except RuleError as error:
        return context.report_rule_error(error, argument.span)


def _call_with_own_weights(context: Context, callee: Value, args: list[ArgValue], span: Span) -> Value:
    """Call once per combination of possible argument values, with separate weights for each."""
    varied = [argument.value for argument in args if varies(argument.value)]
    combined = context.lift(span, lambda *values: Items(values), *varied)
    if combined is POISON:
        return POISON

    def call_with(leaf: Items) -> Value:
        values = iter(leaf)
        plain = [ArgValue(a.name, next(values) if varies(a.value) else a.value, a.span) for a in args]
        return call_value(context, callee, plain, span)

    return each_case(context, combined, call_with, span) if varies(combined) else call_with(combined)


# blocks
def call_block(context: Context, block: Block, args: list[ArgValue], span: Span, in_scope: bool) -> Value:
    """Expand the body of a block in place, in its own scope. The choices of a cell are made once for all its
    calls."""
    context.spend(CALL_WORK, span)
    frame = _new_frame(context, block, span)
    min_nodes = context.node_bounds.block(block)
    if len(context.graph) + min_nodes > context.limits.nodes:
        too_many_nodes(context, span)
    min_work = (STEP_WORK + 1) * context.call_bounds.block(block)
    if min_work > context.budget.left:
        context.report_rule_error(WorkError(), span)
    cell = block.definition.word == "cell"
    args, weights_arg = split_weights_arg(args, _parameters_of(block))
    if weights_arg is not None:
        weights_scope = shared_weights_scope(context, weights_arg)
        if weights_scope is None:
            return POISON
        scope = weights_scope
    else:
        scope = context.scope if in_scope and not context.scope.used else context.scope.child(block.name)
    body_scope = frame.base_scope = Scope(scope.path, block.name) if cell else scope
    if not bind_parameters(context, frame, body_scope, block, args, span):
        return POISON
    if weights_arg is not None:
        with sharing_weights(context):
            name_and_title = (block.name, f"cell `{block.name}`") if cell else (scope.path, f"`{scope.path}`")
            return _call_cell(context, block, frame, body_scope, span, *name_and_title)
    if not context.sharing_depth:
        context.graph.blocks[scope.path] = block.name
    if cell:
        return _call_cell(context, block, frame, body_scope, span, block.name, f"cell `{block.name}`")
    return _run_frame(context, frame, scope, block.definition)


def _new_frame(context: Context, block: Block, span: Span) -> Frame:
    """Return a frame for a call of a block. Aborts elaboration if calls nest too deep or a cell calls itself."""
    depth, is_recursive = 0, False
    caller: Frame | None = context.frame
    while caller is not None:
        is_recursive |= caller.block is not None and caller.block.definition is block.definition
        caller, depth = caller.caller, depth + 1
    if is_recursive and block.definition.word == "cell":
        hint = "a cell makes its choices once and cannot be recursive: use a `block`"
        context.abort("A0210", f"`{block.name}` calls itself", span, hint)
    if is_recursive and depth > MAX_CALL_DEPTH:
        hint = "it needs a case that ends the recursion, such as `return x if n == 0 else ...`"
        context.abort("A0210", f"`{block.name}` calls itself more than {MAX_CALL_DEPTH} levels deep", span, hint)
    if depth > MAX_CALL_DEPTH:
        context.abort("A0602", f"calls nest deeper than {MAX_CALL_DEPTH} levels", span)
    return Frame(block.module, block=block, call_span=span, caller=context.frame, local_names=block.local_names)


def bind_parameters(
    context: Context, frame: Frame, scope: Scope, block: Block, args: list[ArgValue], span: Span
) -> bool:
    """Bind arguments and defaults in the callee's frame; return False after an error.

    Defaults are evaluated in `scope`.
    """
    params = block.definition.params
    names = [param.name.text for param in params]
    note = Note(f"`{block.name}` is defined here", block.definition.name.span)
    context.spend(len(args) * len(names) / 64, span)
    for position, argument in enumerate(args):
        name = argument.name if argument.name else names[position] if position < len(names) else None
        if name is None:
            text = f"`{block.name}` takes {len(names)} arguments, got {len(args)}"
            context.error("A0207", text, argument.span, None, note)
            return False
        if name not in names:
            context.error(
                "A0203", f"`{block.name}` has no parameter `{name}`", argument.span, suggest(name, names), note
            )
            return False
        if name in frame.env:
            context.error("A0207", f"`{block.name}` is given `{name}` twice", argument.span, None, note)
            return False
        frame.env[name] = argument.value
    caller, context.frame = context.frame, frame
    outer, context.scope = context.scope, scope
    try:
        for param in params:
            if param.name.text not in frame.env:
                if param.default is None:
                    context.frame = caller
                    context.error("A0207", f"`{block.name}` needs `{param.name}`", span, None, note)
                    return False
                name, default = f"{block.name}.{param.name}", param.default
                is_cell = block.definition.word == "cell"
                frame.env[param.name.text] = (
                    _cell_default(context, name, default, span) if is_cell else context.eval(default)
                )
    finally:
        context.frame, context.scope = caller, outer
    return not any(value is POISON for value in frame.env.values())


def _cell_default(context: Context, name: str, default: ast.Expr, span: Span) -> Value:
    """Evaluate the default of a cell's parameter.

    Choices in the default are made once for all calls that use it.
    """
    cell = context.cells.setdefault(name, CellState(span, f"cell `{name}`"))
    outer, context.cell = context.cell, cell
    cell.met = {}
    try:
        value = context.eval(default)
    finally:
        context.cell = outer
    if value is not POISON or not cell.complete:
        _compare_cell(context, cell, span)
    return value


def _call_cell(context: Context, block: Block, frame: Frame, scope: Scope, span: Span, name: str, what: str) -> Value:
    """Evaluate a call whose choices are shared by all calls with the same cell name.

    If an earlier call has the same `call_key`, its recorded nodes are copied instead of evaluating the body.
    """
    cell = context.cells.setdefault(name, CellState(span, what))
    cache_key = call_key(context, block, frame.env) if context.guard is True and not context.sharing_depth else None
    earlier = cell.calls.get(cache_key) if cache_key is not None else None
    if earlier is not None and len(context.graph) + earlier.stop - earlier.start <= context.limits.nodes:
        return replay(context, earlier, scope.path, tensors(frame.env))
    recorder, problem_count = Recorder(context, scope.path, frame.env), len(context.problems)
    outer, context.cell = context.cell, cell
    cell.met = {}
    try:
        result = _run_frame(context, frame, scope, block.definition)
    finally:
        context.cell = outer
    if result is not POISON or not cell.complete:
        _compare_cell(context, cell, span)
    recording = recorder.recording(result) if cache_key is not None and len(context.problems) == problem_count else None
    if recording is not None:
        cell.calls[cache_key] = recording
    return result


def _compare_cell(context: Context, cell: CellState, span: Span) -> None:
    """Store a cell's choices after its first call, or check them after a later call.

    Reports A0507 if the choices of the later call differ from those of the first.
    """
    if not cell.complete:
        cell.complete, cell.guard = True, context.guard
        cell.choices = {path: (context.graph.decisions[path].choice, active) for path, active in cell.met.items()}
        return
    own = {choice for choice, _ in cell.choices.values()}
    for path in [*cell.choices, *cell.met]:
        recorded, current = cell.choices.get(path), cell.met.get(path)
        if (
            recorded is None
            or current is None
            or not _same_choice((cell.guard, recorded[1]), (context.guard, current), own)
        ):
            cell_differs(context, path, cell, span)
            return


def cell_differs(context: Context, path: str, cell: CellState, span: Span) -> Value:
    """Report A0507: the choice `path` differs between two calls of a cell."""
    text = f"the choice `{path}` of {cell.what} differs between two calls"
    hint = "a cell's choices must not depend on its arguments; each call of a `block` makes its own choices"
    return context.error("A0507", text, span, hint, Note("the other call", cell.first))


def _run_frame(context: Context, frame: Frame, scope: Scope, definition: ast.Definition) -> Value:
    caller, context.frame = context.frame, frame
    try:
        with context.inside(scope):
            execute(context, definition.body)
            return return_value(context, frame, definition)
    finally:
        context.frame = caller


def return_value(context: Context, frame: Frame, definition: ast.Definition) -> Value:
    """Merge the values that a frame returned under different conditions into its result.

    Reports A0211 if some outcomes reach no `return`.
    """
    if not frame.returned:
        name = definition.name
        last = next(reversed(frame.env), "x")
        return context.error("A0211", f"`{name}` returns nothing", name.span, f"end it with `return {last}`")
    returns: Value = False
    value: Value = UNBOUND
    for condition, returned in reversed(frame.returned):
        if returned is POISON:
            return POISON
        if returned is not UNBOUND:
            value = (
                returned
                if value is UNBOUND
                else merge_values(context, condition, returned, value, definition.name.span)
            )
        returns = disjoin(returns, condition)
    missing = context.checked(definition.name.span, lambda here: _check_returns(here, definition.name.text), returns)
    if value is UNBOUND:
        raise Excluded
    return POISON if missing is POISON else value


def _parameters_of(callee: Value) -> list[str]:
    """Return the names that a callee accepts as named arguments."""
    if isinstance(callee, Block):
        return [param.name.text for param in callee.definition.params]
    return [*attribute_names(callee.op), *callee.op.operands] if isinstance(callee, Operation) else [WEIGHTS]


def _same_choice(first_call: tuple[Value, Value], second_call: tuple[Value, Value], own: Container[Choice]) -> bool:
    """Return True if a choice is active under the same condition in two calls of a cell.

    `first_call` and `second_call` are pairs of the condition of the call and the condition of the choice in that call.
    The choice's conditions are compared where both calls are evaluated, and again after projecting out all choices
    except the cell's `own`.
    """
    (path, active), (path_2, active_2) = first_call, second_call
    if not same(conjoin(active, path_2), conjoin(active_2, path)):
        return False
    path, active, path_2, active_2 = (project(condition, own) for condition in (path, active, path_2, active_2))
    return same(conjoin(active, path_2), conjoin(active_2, path))


def _check_returns(returns: bool, name: str) -> bool:
    if not returns:
        raise RuleError(f"`{name}` does not return on every path", code="A0211")
    return returns
