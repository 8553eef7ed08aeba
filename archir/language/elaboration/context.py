"""Elaboration context: the graph under construction, call frame, scope, path condition, work budget, and the problems
collected so far.

The other modules of elaboration are functions on a context. `Context.eval` finds the function for an expression in the
table of `evaluators`, so that these modules need not import each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from archir.diagnostics import work
from archir.diagnostics.errors import FAULTS, ArchError, Diagnostic, Note, RuleError, Span
from archir.diagnostics.work import MAX_WORK, WorkError
from archir.diagrams.conditions import Restrictor, conjoin, conjoin_assumptions
from archir.diagrams.diagram import Diagram, Value, leaves, same, varies
from archir.diagrams.lifting import CombinationError, Excluded, lift
from archir.ir.graph import Constraint, Graph, NodeId
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.ir.typing import LazyTypes
from archir.language.elaboration import static
from archir.language.elaboration.files import Loader
from archir.language.elaboration.frame import CellState, Frame, Scope
from archir.language.elaboration.module import Module
from archir.language.elaboration.node_bounds import NodeBounds
from archir.language.elaboration.values import POISON
from archir.language.syntax import ast

MAX_CALL_DEPTH = 64
"""Maximum depth of nested calls."""
MAX_DIAGNOSTICS = 50
"""Maximum number of diagnostics in a raised ArchError; further ones are dropped."""
WEIGHTS = "weights"
"""Name of the call argument that names shared weights; a callee's own parameter of this name takes precedence."""
STEP_WORK, NODE_WORK, COPY_WORK, CALL_WORK = 2, 15, 8, 40
"""Work units charged for evaluating an expression or statement, adding a node, copying a node, and calling a
block."""


@dataclass(frozen=True)
class Limits:
    """Resource limits of elaboration, and how it continues after type errors."""

    nodes: int = 200_000
    """Maximum number of nodes in the graph."""
    work: int = MAX_WORK
    """Work budget of elaboration (units: `archir.diagnostics.work`), used if no budget is active yet."""
    guess: bool = False
    """Whether to assume a type for a node whose operands should have equal types but do not.

    The assumed type is that of the first operand; with it, the code after the node is checked, too.
    """


class Problems:
    """Collected diagnostics in the order found; one per code and source span."""

    def __init__(self) -> None:
        self._diagnostics: dict[tuple[str, object, object], Diagnostic] = {}

    def add(self, diagnostic: Diagnostic) -> None:
        """Add a diagnostic."""
        self._diagnostics.setdefault(_key(diagnostic.code, diagnostic.span), diagnostic)

    def has(self, code: str, span: Span) -> bool:
        """Return True if there is a diagnostic with this code at this span."""
        return _key(code, span) in self._diagnostics

    def __len__(self) -> int:
        return len(self._diagnostics)

    def raise_any(self) -> None:
        """Raise ArchError if there are any diagnostics; they are sorted by file and position."""
        diagnostics = list(self._diagnostics.values())
        if diagnostics:
            files = list(dict.fromkeys(d.span.source.name if d.span else "" for d in diagnostics))
            diagnostics.sort(key=lambda d: (files.index(d.span.source.name), d.span.start) if d.span else (-1, 0))
            raise ArchError(*diagnostics[:MAX_DIAGNOSTICS])


def _key(code: str, span: Span | None) -> tuple[str, object, object]:
    return code, span and (span.source.name, span.start), span and span.end


def _on_other_lines(notes: Sequence[Note], shown: Sequence[Span | None]) -> tuple[Note, ...]:
    """Return one note per source line, omitting lines that the diagnostic already shows."""
    lines = {(item.source.name, item.line) for item in shown if item is not None}
    by_line = {(item.span.source.name, item.span.line): item for item in notes if item.span is not None}
    return tuple(item for line, item in by_line.items() if line not in lines)


def _choice_notes(error: CombinationError, shown: Sequence[Span | None]) -> tuple[Note, ...]:
    """Return notes on the numeric choices that led to a combination for which a rule raised an error."""
    plain = [c for c in error.assignment if c.k is None and not any(isinstance(a, str) for a in c.alternatives)]
    return _on_other_lines([Note(f"`{choice}` is chosen here", choice.span) for choice in plain], shown)[:2]


def _alternative_span(error: CombinationError, span: Span) -> Span | None:
    """Return the span of the chosen alternative that caused an error, if the error depends on a single choice.

    Returns None if the error depends on several choices, or is reported at that span anyway.
    """
    places = [
        choice.alternative_spans[o]
        for choice, o in error.assignment.items()
        if choice.k is None and choice.alternative_spans
    ]
    return places[0] if len(places) == 1 == len(error.assignment) and str(places[0]) != str(span) else None


def ignore_value(context: Context, span: Span, value: Value) -> None:
    """Do nothing: the default observer of values."""


Evaluator = Callable[..., Value]
"""Function that evaluates a syntax node of one class: takes the context, the node, and for a target of a pipe the value
that is piped in."""


class LimitError(Exception):
    """Raised to end elaboration after an exceeded limit has been reported."""


class Context:
    """Elaboration state and error reporting."""

    def __init__(
        self, limits: Limits, module: Module, name: str, loader: Loader, evaluators: Mapping[type[ast.Tree], Evaluator]
    ) -> None:
        self.limits = limits
        self.evaluators = evaluators
        """The function that evaluates each class of expressions."""
        self.loader = loader
        """Loader that finds the files that the program names."""
        self.graph = Graph(name)
        self.types = LazyTypes()
        """Types of the nodes of the graph."""
        self.type_cache: dict[tuple[Op, tuple[TensorType, ...], Value], tuple[TensorType, bool]] = {}
        self.select_nodes: dict[Diagram, NodeId] = {}
        """Maps each choice-dependent value to the `select` node that implements it."""
        self.weight_owners: dict[str, NodeId] = {}
        """Maps each scope to the first node with weights in that scope."""
        self.valid_if_required: set[NodeId] = set()
        """Nodes whose types are valid only for architectures that satisfy the constraints."""
        self.problems = Problems()
        self.scope = Scope()
        self.frame = Frame(module, base_scope=self.scope)
        self.assigned: ast.Name | None = None
        """Variable to which the current expression is assigned; it names a choice that has no label."""
        self.cells: dict[str, CellState] = {}
        self.cell: CellState | None = None
        """The cell whose call is evaluated, if any."""
        self.sharing_depth = 0
        """Number of enclosing calls with shared weights; blocks called inside them are not recorded in
        `graph.blocks`."""
        self.node_bounds = NodeBounds()
        self.call_bounds = NodeBounds(calls=True)
        self.guard: Value = True
        """Path condition: the condition on choices under which the current code is evaluated."""
        self.assumptions: list[Value] = []
        """Conditions on choices from the constraints stated so far.

        Errors that occur only for combinations of choices excluded by them are not reported. Whether a node exists
        depends on `guard` alone.
        """
        self._stated: set[Constraint] = set()
        self._restriction = Restrictor()
        self.budget = work.current_budget()
        self.observer: Callable[[Context, Span, Value], None] = ignore_value
        """Callback that receives the context, the span and the value of each pipe target and each assigned variable."""

    def eval(self, tree: ast.Expr) -> Value:
        """Evaluate an expression under the path condition; return POISON after an error."""
        self.step(tree.span)
        return self.evaluators[type(tree)](self, tree)

    def condition(self, tree: ast.Expr) -> Value:
        """Evaluate an expression that must be a bool."""
        return self.checked(tree.span, static.boolean, self.eval(tree))

    def error(self, code: str, message: str, span: Span, hint: str | None = None, *notes: Note) -> Value:
        """Report an error and return POISON, the placeholder value with which evaluation continues.

        Raises Excluded if the stated constraints exclude every outcome for which the current code runs.
        """
        if self.assumptions and conjoin_assumptions(self.guard, self.assumptions) is False:
            raise Excluded
        return self.report(code, message, span, hint, *notes)

    def report(self, code: str, message: str, span: Span, hint: str | None = None, *notes: Note) -> Value:
        """Report an error and return POISON, even if the stated constraints exclude the current code."""
        place, chain = self.frame.location(span)
        self.problems.add(Diagnostic(code, message, place, hint, (*notes, *chain)))
        return POISON

    def report_rule_error(
        self, error: RuleError, span: Span, prefix: str = "", size_notes: Sequence[Note] = ()
    ) -> Value:
        """Report an error that a rule raised, with notes on the choices that lead to it, and return POISON.

        `size_notes` point to the nodes that produce the sizes in question.
        """
        if isinstance(error, WorkError):
            self.abort(error.code, error.message, span, error.hint)
        notes: tuple[Note, ...] = ()
        if isinstance(error, CombinationError) and error.assignment:
            notes = (error.note(_alternative_span(error, span)),)
        if not self.problems.has(error.code, self.frame.user_span(span)):
            from archir.language.elaboration.provenance import provenance_notes

            literal_notes = provenance_notes(self.frame, span, error.message, notes, bool(size_notes))
            shown = (span, self.frame.user_span(span), *(note.span for note in (*notes, *literal_notes)))
            notes += (*literal_notes, *_on_other_lines(size_notes, shown))
            if not notes[1:] and isinstance(error, CombinationError):
                notes += _choice_notes(error, shown)
        return self.error(error.code, f"{prefix}{error.message}", span, error.hint, *notes)

    def abort(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Report an exceeded limit and raise LimitError."""
        self.report(code, message, span, hint)
        raise LimitError

    def step(self, span: Span) -> None:
        """Charge the work of one evaluation step; if the budget is exhausted, report that at `span` and end
        elaboration."""
        self.budget.left -= STEP_WORK
        if self.budget.left < 0:
            self.report_rule_error(WorkError(), span)

    def spend(self, amount: float, span: Span) -> None:
        """Charge `amount` work units; if the budget is exhausted, report that at `span` and end elaboration."""
        try:
            self.budget.spend(amount)
        except WorkError as error:
            self.report_rule_error(error, span)

    def lift(self, span: Span, rule: Callable[..., Value], *values: Value) -> Value:
        """Apply a rule to values that may depend on choices; an error of the rule is reported at `span`."""
        for value in values:
            if value is POISON:
                return POISON
        try:
            return lift(rule, *values, under=self.guard, assumptions=self.assumptions)
        except RuleError as error:
            return self.report_rule_error(error, span)

    def restricted(self, value: Value) -> Value:
        """Restrict a value to the path condition.

        This drops its leaves for outcomes under which the current code does not run.
        """
        return self._restriction.restrict(value, self.guard)

    def checked(self, span: Span, rule: Callable[..., Value], value: Value) -> Value:
        """Apply a rule to one value like `lift`, but faster if the rule returns most values unchanged."""
        if varies(value):
            value = self.restricted(value)
            try:
                if all(same(rule(leaf), leaf) for leaf in leaves(value)):
                    return value
            except (RuleError, *FAULTS):
                pass
        return self.lift(span, rule, value)

    def constrain(self, constraint: Constraint) -> None:
        """Add a constraint to the graph unless there is an equal one.

        Each call of a cell states the same constraints.
        """
        if constraint not in self._stated:
            self._stated.add(constraint)
            self.graph.constraints.append(constraint)
            if constraint.cost is None and constraint.condition is not True:
                self.assumptions.append(constraint.condition)

    @contextmanager
    def under(self, condition: Value) -> Iterator[bool]:
        """Context manager that adds `condition` to the path condition; yields False if the code cannot run at all.

        Suppresses Excluded, which code raises if the stated constraints exclude all outcomes for which it runs.
        """
        before = self.guard
        self.guard = conjoin(before, condition)
        try:
            yield self.guard is not False
        except Excluded:
            pass
        finally:
            self.guard = before

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        """Context manager that evaluates code in another scope."""
        before, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = before
