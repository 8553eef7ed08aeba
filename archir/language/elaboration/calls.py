"""Calls of whatever can be called, blocks and cells among it, and pipes into them."""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass, field, replace

from archir.diagnostics.errors import Note, RuleError, Span, suggest
from archir.diagnostics.work import WorkError
from archir.diagrams.cases import Choice, Value, same, varies
from archir.diagrams.conditions import both, either, hull
from archir.diagrams.lifting import Excluded
from archir.ir.op import attribute_names
from archir.language.elaboration import static
from archir.language.elaboration.apply import Applier
from archir.language.elaboration.bounds import Bounds
from archir.language.elaboration.cell_cache import Recorder, Recording, likeness, replay, tensors
from archir.language.elaboration.context import A_CALL, A_STEP, MOST_CALLS, WEIGHTS, Frame, Limits, Scope
from archir.language.elaboration.files import Module
from archir.language.elaboration.network import is_tensor
from archir.language.elaboration.shared import Given
from archir.language.elaboration.values import POISON, UNBOUND, Block, Builtin, Items, Operation, Tensor, kind
from archir.language.syntax import ast


@dataclass
class Cell:
    """What is known of a cell's choices: from its first call, and from the call in progress."""

    first: Span
    what: str
    """What it is called in messages."""
    path: Value = True
    """The condition of the first call."""
    known: dict[str, tuple[Choice, Value]] = field(default_factory=dict)
    """Its choices, and the conditions under which they are there."""
    met: dict[str, Value] = field(default_factory=dict)
    complete: bool = False
    calls: dict[Hashable, Recording] = field(default_factory=dict)


class Caller(Applier):
    """Evaluates calls."""

    assigned: ast.Name | None = None
    """The variable that the expression at hand is assigned to, which names a choice without a label."""

    def __init__(self, limits: Limits, module: Module, name: str) -> None:
        super().__init__(limits, module, name)
        self.start()
        self.bounds = Bounds()
        self.work = Bounds(calls=True)
        self.cells: dict[str, Cell] = {}
        self.cell: Cell | None = None

    def eval_call(self, tree: ast.Call) -> Value:
        """`callee(arguments)`."""
        return self.call_tree(tree, ())

    def eval_pipe(self, tree: ast.Pipe) -> Value:
        """`first |> target |> ...`."""
        value, span = self.eval(tree.first), tree.first.span
        for target in tree.targets:
            value = self.feed(target, Given(None, value, span))
            self.seen(self, target.span, value)
            span = span.to(target.span)
        return value

    def feed(self, target: ast.Expr, given: Given, here: bool = False) -> Value:
        """The target of a pipe, with the value that is piped into it. `here`: in the scope at hand, not one below."""
        match target:
            case ast.Call():
                return self.call_tree(target, (given,), here)
            case ast.Pipe():
                value, span = self.feed(target.first, given), given.span
                for further in target.targets:
                    value = self.feed(further, Given(None, value, span))
                return value
            case ast.ChooseOne():
                return self.choose_one(target, given)
            case ast.Match():
                return self.match(target, given)
            case ast.IfElse():
                condition = self.condition(target.condition)
                if condition is POISON:
                    return POISON
                then, otherwise = target.then, target.otherwise
                return self.either(
                    condition, lambda: self.feed(then, given), lambda: self.feed(otherwise, given), target.span
                )
        return self.call(self.eval(target), [given], target.span, here)

    def choose_one(self, tree: ast.ChooseOne, given: Given | None) -> Value:
        """A choice among expressions, or among targets of a pipe."""
        raise AssertionError

    def match(self, tree: ast.Match, given: Given | None) -> Value:
        """A match, into whose arms a value may be piped."""
        raise AssertionError

    def call_tree(self, tree: ast.Call, first: Sequence[Given], here: bool = False) -> Value:
        """A call, with arguments that come before the written ones."""
        callee = self.eval(tree.callee)
        given = [*first]
        label, self.assigned = self.assigned, None
        for argument in tree.arguments:
            name = argument.name.text if argument.name else None
            span = argument.name.span if argument.name else argument.value.span
            given.append(Given(name, self.eval(argument.value), span))
        self.assigned = label
        if callee is POISON or any(argument.value is POISON for argument in given):
            return POISON
        if tree.own or (isinstance(callee, Block) and callee.definition.own):
            if (shared := self.apart(given, _parameters_of(callee))[1]) is not None:
                return self.error("A0409", "a call with weights of its `own` does not share them", shared.span)
            given = [replace(argument, value=self._one_tensor(argument)) for argument in given]
            if any(argument.value is POISON for argument in given):
                return POISON
            if any(varies(argument.value) for argument in given):
                return self._own(callee, given, tree.span)
        return self.call(callee, given, tree.span, here)

    def call(self, callee: Value, given: list[Given], span: Span, here: bool = False) -> Value:
        """A call of whatever the callee is, for each of the things it may be."""
        if callee is POISON or any(argument.value is POISON for argument in given):
            return POISON
        if varies(callee):
            return self.each_case(callee, lambda leaf: self.call(leaf, given, span), span)
        if isinstance(callee, Operation):
            if callee.op.name in static.FUNCTIONS and not any(is_tensor(argument.value) for argument in given):
                return self.call_builtin(callee.op.name, given, span)
            return self.call_op(callee.op, given, span, here)
        if isinstance(callee, Block):
            return self.call_block(callee, given, span, here)
        if isinstance(callee, Builtin):
            return self.call_builtin(callee.name, given, span)
        hints = {int: "to scale, write `x * 2`", Tensor: "operations are called: `x |> relu`", Items: "`items[0]`"}
        hint = next((hint for type_, hint in hints.items() if isinstance(callee, type_)), None)
        return self.error("A0206", f"{kind(callee)} cannot be called", span, hint)

    def _one_tensor(self, argument: Given) -> Value:
        """A tensor as one node, whatever it depends on; any other value as it is."""
        try:
            return self.settled(argument.value, set(), argument.span)
        except RuleError as error:
            return self.refuse(error, argument.span)

    def _own(self, callee: Value, given: list[Given], span: Span) -> Value:
        """A call for each combination of values that its arguments may have, with weights of its own."""
        varied = [argument.value for argument in given if varies(argument.value)]
        combined = self.lift(span, lambda *values: Items(values), *varied)
        if combined is POISON:
            return POISON

        def one(leaf: Items) -> Value:
            values = iter(leaf)
            plain = [Given(a.name, next(values) if varies(a.value) else a.value, a.span) for a in given]
            return self.call(callee, plain, span)

        return self.each_case(combined, one, span) if varies(combined) else one(combined)

    # blocks

    def call_block(self, block: Block, given: list[Given], span: Span, here: bool) -> Value:
        """A block expanded in place, in a scope of its own; a cell's choices are made once."""
        self.spend(A_CALL, span)
        frame = self._entered(block, span)
        least = self.bounds.block(block)
        if len(self.graph) + least > self.limits.nodes:
            self.too_many_nodes(span)
        least_work = (A_STEP + 1) * self.work.block(block)
        if least_work > self.budget.left:
            self.refuse(WorkError(), span)
        cell = block.definition.word == "cell"
        given, shared = self.apart(given, _parameters_of(block))
        if shared is not None:
            named = self.set_of(shared)
            if named is None:
                return POISON
            scope = named
        else:
            scope = self.scope if here and not self.scope.used else self.scope.child(block.name)
        made = frame.home = Scope(scope.path, block.name) if cell else scope
        if not self.bind_params(frame, made, block, given, span):
            return POISON
        if shared is not None:
            with self.repeating():
                known = (block.name, f"cell `{block.name}`") if cell else (scope.path, f"`{scope.path}`")
                return self._in_cell(block, frame, made, span, *known)
        if not self.repeated:
            self.graph.blocks[scope.path] = block.name
        if cell:
            return self._in_cell(block, frame, made, span, block.name, f"cell `{block.name}`")
        return self._in_frame(frame, scope, block.definition)

    def _entered(self, block: Block, span: Span) -> Frame:
        depth, again = 0, False
        caller: Frame | None = self.frame
        while caller is not None:
            again |= caller.block is not None and caller.block.definition is block.definition
            caller, depth = caller.caller, depth + 1
        if again and block.definition.word == "cell":
            self.stop("A0210", f"`{block.name}` calls itself", span, "a cell chooses once: a `block` may call itself")
        if again and depth > MOST_CALLS:
            hint = "it needs a case in which it does not, such as `return x if n == 0 else ...`"
            self.stop("A0210", f"`{block.name}` calls itself more than {MOST_CALLS} levels deep", span, hint)
        if depth > MOST_CALLS:
            self.stop("A0602", f"calls nest deeper than {MOST_CALLS} levels", span)
        return Frame(block.module, block=block, called=span, caller=self.frame, local=block.local)

    def bind_params(self, frame: Frame, scope: Scope, block: Block, given: list[Given], span: Span) -> bool:
        """Put arguments, and defaults that are evaluated in a scope, into the callee's frame; whether they fit."""
        params = block.definition.params
        names = [param.name.text for param in params]
        note = Note(f"`{block.name}` is defined here", block.definition.name.span)
        self.spend(len(given) * len(names) / 64, span)
        for position, argument in enumerate(given):
            name = argument.name if argument.name else names[position] if position < len(names) else None
            if name is None:
                text = f"`{block.name}` takes {len(names)} arguments, got {len(given)}"
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
                    whole = block.definition.word == "cell"
                    frame.env[param.name.text] = self._once(name, default, span) if whole else self.eval(default)
        finally:
            self.frame, self.scope = caller, outer
        return not any(value is POISON for value in frame.env.values())

    def _once(self, name: str, default: ast.Expr, span: Span) -> Value:
        """A default of a cell, which makes its choices once, as cells do, for all calls that have it."""
        cell = self.cells.setdefault(name, Cell(span, f"cell `{name}`"))
        outer, self.cell = self.cell, cell
        cell.met = {}
        try:
            value = self.eval(default)
        finally:
            self.cell = outer
        if value is not POISON or not cell.complete:
            self._compare_cell(cell, span)
        return value

    def _in_cell(self, block: Block, frame: Frame, scope: Scope, span: Span, name: str, what: str) -> Value:
        """A call whose choices are made once for all of its name."""
        cell = self.cells.setdefault(name, Cell(span, what))
        question = likeness(self, block, frame.env) if self.path is True and not self.repeated else None
        known = cell.calls.get(question) if question is not None else None
        if known is not None and len(self.graph) + known.stop - known.start <= self.limits.nodes:
            return replay(self, known, scope.path, tensors(frame.env))
        recorder, problems = Recorder(self, scope.path, frame.env), len(self.problems)
        outer, self.cell = self.cell, cell
        cell.met = {}
        try:
            result = self._in_frame(frame, scope, block.definition)
        finally:
            self.cell = outer
        if result is not POISON or not cell.complete:
            self._compare_cell(cell, span)
        recording = recorder.recording(result) if question is not None and len(self.problems) == problems else None
        if recording is not None:
            cell.calls[question] = recording
        return result

    def _compare_cell(self, cell: Cell, span: Span) -> None:
        if not cell.complete:
            cell.complete, cell.path = True, self.path
            cell.known = {path: (self.graph.decisions[path].choice, active) for path, active in cell.met.items()}
            return
        own = {choice for choice, _ in cell.known.values()}
        for path in [*cell.known, *cell.met]:
            known, met = cell.known.get(path), cell.met.get(path)
            if known is None or met is None or not _agree((cell.path, known[1]), (self.path, met), own):
                self.cell_differs(path, cell, span)
                return

    def cell_differs(self, path: str, cell: Cell, span: Span) -> Value:
        """Report that two calls of a cell do not make the same choices."""
        text = f"the choice `{path}` of {cell.what} does not come out alike in two calls"
        hint = "a cell's choices must not depend on its arguments; a `block` has its own"
        return self.error("A0507", text, span, hint, Note("the other call", cell.first))

    def _in_frame(self, frame: Frame, scope: Scope, definition: ast.Definition) -> Value:
        caller, self.frame = self.frame, frame
        try:
            with self.inside(scope):
                self.execute(definition.body)
                return self.result(frame, definition)
        finally:
            self.frame = caller

    def execute(self, body: ast.Body) -> None:
        """Run statements."""
        raise AssertionError

    def result(self, frame: Frame, definition: ast.Definition) -> Value:
        """What a frame returned, merged over the conditions under which it did."""
        if not frame.returned:
            name = definition.name
            last = next(reversed(frame.env), "x")
            return self.error("A0211", f"`{name}` returns nothing", name.span, f"end it with `return {last}`")
        returns: Value = False
        value: Value = UNBOUND
        for condition, one in reversed(frame.returned):
            if one is POISON:
                return POISON
            if one is not UNBOUND:
                value = one if value is UNBOUND else self.merged(condition, one, value, definition.name.span)
            returns = either(returns, condition)
        missing = self.checked(definition.name.span, lambda here: _returns(here, definition.name.text), returns)
        if value is UNBOUND:
            raise Excluded
        return POISON if missing is POISON else value


def _parameters_of(callee: Value) -> list[str]:
    if isinstance(callee, Block):
        return [param.name.text for param in callee.definition.params]
    return [*attribute_names(callee.op), *callee.op.operands] if isinstance(callee, Operation) else [WEIGHTS]


def _agree(one: tuple[Value, Value], other: tuple[Value, Value], own: Container[Choice]) -> bool:
    """Whether a choice is there alike in two calls of a cell, each with the condition of the call and of the choice:
    where both are made, and seen from the cell's `own` choices alone."""
    (path, active), (path_2, active_2) = one, other
    if not same(both(active, path_2), both(active_2, path)):
        return False
    path, active, path_2, active_2 = (hull(condition, own) for condition in (path, active, path_2, active_2))
    return same(both(active, path_2), both(active_2, path))


def _returns(here: bool, name: str) -> bool:
    if not here:
        raise RuleError(f"`{name}` does not return on every path", code="A0211")
    return here
