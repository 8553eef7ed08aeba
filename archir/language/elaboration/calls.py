"""Evaluates calls and pipes for all kinds of callees; blocks and cells are expanded here."""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass, field, replace

from archir.diagnostics.errors import Note, RuleError, Span
from archir.diagnostics.hints import suggest
from archir.diagnostics.work import WorkError
from archir.diagrams.conditions import conjoin, disjoin, project
from archir.diagrams.diagram import Choice, Value, same, varies
from archir.diagrams.lifting import Excluded
from archir.ir.op import attribute_names
from archir.language.elaboration import static
from archir.language.elaboration.apply import ArgValue, OperationCaller
from archir.language.elaboration.cell_cache import Recorder, Recording, call_key, replay, tensors
from archir.language.elaboration.context import CALL_WORK, MAX_CALL_DEPTH, STEP_WORK, WEIGHTS, Limits
from archir.language.elaboration.frame import Frame, Scope
from archir.language.elaboration.module import Block, Module
from archir.language.elaboration.network import is_tensor
from archir.language.elaboration.node_bounds import NodeBounds
from archir.language.elaboration.values import POISON, UNBOUND, Builtin, Items, Operation, Tensor, kind
from archir.language.syntax import ast


@dataclass
class CellState:
    """State of a cell during elaboration.

    A cell is a block whose choices are shared by all of its calls: the first call makes the choices, and later calls
    must make the same choices.
    """

    first: Span
    """Span of the first call."""
    what: str
    """The cell's name in messages, such as "cell `c`"."""
    guard: Value = True
    """Condition under which the first call is evaluated."""
    choices: dict[str, tuple[Choice, Value]] = field(default_factory=dict)
    """Choices of the first call by path, each with the condition under which it is active."""
    met: dict[str, Value] = field(default_factory=dict)
    """Choices that the current call has made so far: maps each path to the condition of the choice."""
    complete: bool = False
    """True once the first call has ended, so that `choices` has all choices of the cell."""
    calls: dict[Hashable, Recording] = field(default_factory=dict)
    """Recorded nodes of earlier calls, by `call_key`."""


class BlockCaller(OperationCaller):
    """Evaluates calls and pipes; expands blocks and cells."""

    assigned: ast.Name | None = None
    """The variable that the expression at hand is assigned to, which names a choice without a label."""

    def __init__(self, limits: Limits, module: Module, name: str) -> None:
        super().__init__(limits, module, name)
        self.start()
        self.node_bounds = NodeBounds()
        self.call_bounds = NodeBounds(calls=True)
        self.cells: dict[str, CellState] = {}
        self.cell: CellState | None = None

    def eval_call(self, tree: ast.Call) -> Value:
        """Evaluate `callee(arguments)`."""
        return self.call_tree(tree, ())

    def eval_pipe(self, tree: ast.Pipe) -> Value:
        """Evaluate `first |> target |> ...`."""
        value, span = self.eval(tree.first), tree.first.span
        for target in tree.targets:
            value = self.pipe_into(target, ArgValue(None, value, span))
            self.observer(self, target.span, value)
            span = span.to(target.span)
        return value

    def pipe_into(self, target: ast.Expr, piped: ArgValue, in_scope: bool = False) -> Value:
        """Evaluate the target of a pipe with `piped` as its first argument.

        With `in_scope`, the call uses the current scope itself instead of a component below it.
        """
        match target:
            case ast.Call():
                return self.call_tree(target, (piped,), in_scope)
            case ast.Pipe():
                value, span = self.pipe_into(target.first, piped), piped.span
                for further in target.targets:
                    value = self.pipe_into(further, ArgValue(None, value, span))
                return value
            case ast.ChooseOne():
                return self.choose_one(target, piped)
            case ast.Match():
                return self.match(target, piped)
            case ast.IfElse():
                condition = self.condition(target.condition)
                if condition is POISON:
                    return POISON
                then, orelse = target.then, target.orelse
                return self.branch(
                    condition, lambda: self.pipe_into(then, piped), lambda: self.pipe_into(orelse, piped), target.span
                )
        return self.call(self.eval(target), [piped], target.span, in_scope)

    def choose_one(self, tree: ast.ChooseOne, piped: ArgValue | None) -> Value:
        """Evaluate a `choose` among named expressions; if a value is piped in, they are pipe targets."""
        raise AssertionError

    def match(self, tree: ast.Match, piped: ArgValue | None) -> Value:
        """Evaluate a `match`; if a value is piped in, its arms are pipe targets."""
        raise AssertionError

    def call_tree(self, tree: ast.Call, first: Sequence[ArgValue], in_scope: bool = False) -> Value:
        """Evaluate a call. The piped-in arguments `first` precede those written in the call."""
        callee = self.eval(tree.callee)
        args = [*first]
        label, self.assigned = self.assigned, None
        """The variable to which the current expression is assigned; it names a choice that has no label."""
        for argument in tree.arguments:
            name = argument.name.text if argument.name else None
            span = argument.name.span if argument.name else argument.value.span
            args.append(ArgValue(name, self.eval(argument.value), span))
        self.assigned = label
        if callee is POISON or any(argument.value is POISON for argument in args):
            return POISON
        if tree.own or (isinstance(callee, Block) and callee.definition.own):
            if (weights_arg := self.split_weights_arg(args, _parameters_of(callee))[1]) is not None:
                text = "a call cannot have both `own` weights and shared weights"
                return self.error("A0409", text, weights_arg.span)
            args = [replace(argument, value=self._collapse_arg(argument)) for argument in args]
            if any(argument.value is POISON for argument in args):
                return POISON
            if any(varies(argument.value) for argument in args):
                return self._call_with_own_weights(callee, args, tree.span)
        return self.call(callee, args, tree.span, in_scope)

    def call(self, callee: Value, args: list[ArgValue], span: Span, in_scope: bool = False) -> Value:
        """Call a value.

        If the callee depends on choices, each possible callee is called under its condition, and the results are
        merged.
        """
        if callee is POISON or any(argument.value is POISON for argument in args):
            return POISON
        if varies(callee):
            return self.each_case(callee, lambda leaf: self.call(leaf, args, span), span)
        if isinstance(callee, Operation):
            if callee.op.name in static.FUNCTIONS and not any(is_tensor(argument.value) for argument in args):
                return self.call_builtin(callee.op.name, args, span)
            return self.call_op(callee.op, args, span, in_scope)
        if isinstance(callee, Block):
            return self.call_block(callee, args, span, in_scope)
        if isinstance(callee, Builtin):
            return self.call_builtin(callee.name, args, span)
        hints = {int: "to scale, write `x * 2`", Tensor: "operations are called: `x |> relu`", Items: "`items[0]`"}
        hint = next((hint for type_, hint in hints.items() if isinstance(callee, type_)), None)
        return self.error("A0206", f"{kind(callee)} cannot be called", span, hint)

    def _collapse_arg(self, argument: ArgValue) -> Value:
        """Return a choice-dependent tensor as a single (select) node; other values unchanged."""
        try:
            return self.collapse(argument.value, set(), argument.span)
        except RuleError as error:
            return self.report_rule_error(error, argument.span)

    def _call_with_own_weights(self, callee: Value, args: list[ArgValue], span: Span) -> Value:
        """Call once per combination of possible argument values, with separate weights for each."""
        varied = [argument.value for argument in args if varies(argument.value)]
        combined = self.lift(span, lambda *values: Items(values), *varied)
        if combined is POISON:
            return POISON

        def call_with(leaf: Items) -> Value:
            values = iter(leaf)
            plain = [ArgValue(a.name, next(values) if varies(a.value) else a.value, a.span) for a in args]
            return self.call(callee, plain, span)

        return self.each_case(combined, call_with, span) if varies(combined) else call_with(combined)

    # blocks

    def call_block(self, block: Block, args: list[ArgValue], span: Span, in_scope: bool) -> Value:
        """Expand the body of a block in place, in its own scope. The choices of a cell are made once for all its
        calls."""
        self.spend(CALL_WORK, span)
        frame = self._new_frame(block, span)
        min_nodes = self.node_bounds.block(block)
        if len(self.graph) + min_nodes > self.limits.nodes:
            self.too_many_nodes(span)
        min_work = (STEP_WORK + 1) * self.call_bounds.block(block)
        if min_work > self.budget.left:
            self.report_rule_error(WorkError(), span)
        cell = block.definition.word == "cell"
        args, weights_arg = self.split_weights_arg(args, _parameters_of(block))
        if weights_arg is not None:
            weights_scope = self.weights_scope(weights_arg)
            if weights_scope is None:
                return POISON
            scope = weights_scope
        else:
            scope = self.scope if in_scope and not self.scope.used else self.scope.child(block.name)
        body_scope = frame.base_scope = Scope(scope.path, block.name) if cell else scope
        if not self.bind_params(frame, body_scope, block, args, span):
            return POISON
        if weights_arg is not None:
            with self.sharing():
                name_and_title = (block.name, f"cell `{block.name}`") if cell else (scope.path, f"`{scope.path}`")
                return self._call_cell(block, frame, body_scope, span, *name_and_title)
        if not self.sharing_depth:
            self.graph.blocks[scope.path] = block.name
        if cell:
            return self._call_cell(block, frame, body_scope, span, block.name, f"cell `{block.name}`")
        return self._run_frame(frame, scope, block.definition)

    def _new_frame(self, block: Block, span: Span) -> Frame:
        """Return a frame for a call of a block. Aborts elaboration if calls nest too deep or a cell calls itself."""
        depth, is_recursive = 0, False
        caller: Frame | None = self.frame
        while caller is not None:
            is_recursive |= caller.block is not None and caller.block.definition is block.definition
            caller, depth = caller.caller, depth + 1
        if is_recursive and block.definition.word == "cell":
            hint = "a cell makes its choices once and cannot be recursive: use a `block`"
            self.abort("A0210", f"`{block.name}` calls itself", span, hint)
        if is_recursive and depth > MAX_CALL_DEPTH:
            hint = "it needs a case that ends the recursion, such as `return x if n == 0 else ...`"
            self.abort("A0210", f"`{block.name}` calls itself more than {MAX_CALL_DEPTH} levels deep", span, hint)
        if depth > MAX_CALL_DEPTH:
            self.abort("A0602", f"calls nest deeper than {MAX_CALL_DEPTH} levels", span)
        return Frame(block.module, block=block, call_span=span, caller=self.frame, local_names=block.local_names)

    def bind_params(self, frame: Frame, scope: Scope, block: Block, args: list[ArgValue], span: Span) -> bool:
        """Bind arguments and defaults in the callee's frame; return False after an error.

        Defaults are evaluated in `scope`.
        """
        params = block.definition.params
        names = [param.name.text for param in params]
        note = Note(f"`{block.name}` is defined here", block.definition.name.span)
        self.spend(len(args) * len(names) / 64, span)
        for position, argument in enumerate(args):
            name = argument.name if argument.name else names[position] if position < len(names) else None
            if name is None:
                text = f"`{block.name}` takes {len(names)} arguments, got {len(args)}"
                self.error("A0207", text, argument.span, None, note)
                return False
            if name not in names:
                self.error(
                    "A0203", f"`{block.name}` has no parameter `{name}`", argument.span, suggest(name, names), note
                )
                return False
            if name in frame.env:
                self.error("A0207", f"`{block.name}` is given `{name}` twice", argument.span, None, note)
                return False
            frame.env[name] = argument.value
        caller, self.frame = self.frame, frame
        outer, self.scope = self.scope, scope
        try:
            for param in params:
                if param.name.text not in frame.env:
                    if param.default is None:
                        self.frame = caller
                        self.error("A0207", f"`{block.name}` needs `{param.name}`", span, None, note)
                        return False
                    name, default = f"{block.name}.{param.name}", param.default
                    is_cell = block.definition.word == "cell"
                    frame.env[param.name.text] = (
                        self._cell_default(name, default, span) if is_cell else self.eval(default)
                    )
        finally:
            self.frame, self.scope = caller, outer
        return not any(value is POISON for value in frame.env.values())

    def _cell_default(self, name: str, default: ast.Expr, span: Span) -> Value:
        """Evaluate the default of a cell's parameter.

        Choices in the default are made once for all calls that use it.
        """
        cell = self.cells.setdefault(name, CellState(span, f"cell `{name}`"))
        outer, self.cell = self.cell, cell
        cell.met = {}
        try:
            value = self.eval(default)
        finally:
            self.cell = outer
        if value is not POISON or not cell.complete:
            self._compare_cell(cell, span)
        return value

    def _call_cell(self, block: Block, frame: Frame, scope: Scope, span: Span, name: str, what: str) -> Value:
        """Evaluate a call whose choices are shared by all calls with the same cell name.

        If an earlier call has the same `call_key`, its recorded nodes are copied instead of evaluating the body.
        """
        cell = self.cells.setdefault(name, CellState(span, what))
        cache_key = call_key(self, block, frame.env) if self.guard is True and not self.sharing_depth else None
        earlier = cell.calls.get(cache_key) if cache_key is not None else None
        if earlier is not None and len(self.graph) + earlier.stop - earlier.start <= self.limits.nodes:
            return replay(self, earlier, scope.path, tensors(frame.env))
        recorder, problem_count = Recorder(self, scope.path, frame.env), len(self.problems)
        outer, self.cell = self.cell, cell
        cell.met = {}
        try:
            result = self._run_frame(frame, scope, block.definition)
        finally:
            self.cell = outer
        if result is not POISON or not cell.complete:
            self._compare_cell(cell, span)
        recording = (
            recorder.recording(result) if cache_key is not None and len(self.problems) == problem_count else None
        )
        if recording is not None:
            cell.calls[cache_key] = recording
        return result

    def _compare_cell(self, cell: CellState, span: Span) -> None:
        """Store a cell's choices after its first call, or check them after a later call.

        Reports A0507 if the choices of the later call differ from those of the first.
        """
        if not cell.complete:
            cell.complete, cell.guard = True, self.guard
            cell.choices = {path: (self.graph.decisions[path].choice, active) for path, active in cell.met.items()}
            return
        own = {choice for choice, _ in cell.choices.values()}
        for path in [*cell.choices, *cell.met]:
            recorded, current = cell.choices.get(path), cell.met.get(path)
            if (
                recorded is None
                or current is None
                or not _same_choice((cell.guard, recorded[1]), (self.guard, current), own)
            ):
                self.cell_differs(path, cell, span)
                return

    def cell_differs(self, path: str, cell: CellState, span: Span) -> Value:
        """Report A0507: the choice `path` differs between two calls of a cell."""
        text = f"the choice `{path}` of {cell.what} differs between two calls"
        hint = "a cell's choices must not depend on its arguments; each call of a `block` makes its own choices"
        return self.error("A0507", text, span, hint, Note("the other call", cell.first))

    def _run_frame(self, frame: Frame, scope: Scope, definition: ast.Definition) -> Value:
        caller, self.frame = self.frame, frame
        try:
            with self.inside(scope):
                self.execute(definition.body)
                return self.result(frame, definition)
        finally:
            self.frame = caller

    def execute(self, body: ast.Body) -> None:
        """Execute the statements of a body."""
        raise AssertionError

    def result(self, frame: Frame, definition: ast.Definition) -> Value:
        """Merge the values that a frame returned under different conditions into its result.

        Reports A0211 if some outcomes reach no `return`.
        """
        if not frame.returned:
            name = definition.name
            last = next(reversed(frame.env), "x")
            return self.error("A0211", f"`{name}` returns nothing", name.span, f"end it with `return {last}`")
        returns: Value = False
        value: Value = UNBOUND
        for condition, returned in reversed(frame.returned):
            if returned is POISON:
                return POISON
            if returned is not UNBOUND:
                value = returned if value is UNBOUND else self.merge(condition, returned, value, definition.name.span)
            returns = disjoin(returns, condition)
        missing = self.checked(definition.name.span, lambda here: _check_returns(here, definition.name.text), returns)
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
