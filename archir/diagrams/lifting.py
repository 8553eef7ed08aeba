"""Lifting: apply a function of plain values to values that depend on choices, for every reachable combination."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from archir.diagnostics.errors import FAULTS, Note, RuleError, Span, unexpected_error
from archir.diagnostics.work import WorkError, budget_or_none, spend
from archir.diagrams.conditions import conjoin, conjoin_assumptions, negate, project
from archir.diagrams.diagram import (
    MAX_STEPS,
    UNREACHABLE,
    Choice,
    Diagram,
    DiagramSizeError,
    Value,
    choice_order,
    cofactor,
    cofactors,
    fill_unreachable,
    make_diagram,
    smallest_assignment,
    support,
    tuple_key,
    value_at,
)


@dataclass(frozen=True, eq=False)
class _Failure:
    """Leaf that marks a combination of outcomes for which the rule raised an error."""

    error: RuleError


class CombinationError(RuleError):
    """A rule raised an error for some combination of outcomes.

    `assignment` (choice to outcome) is the smallest such combination: the one with the fewest choices. It is empty if
    the rule fails for all combinations.
    """

    def __init__(self, error: RuleError, assignment: Mapping[Choice, int]) -> None:
        super().__init__(error.message, error.hint, error.code, error.span)
        self.assignment = dict(assignment)
        if assignment:
            self.diagnostics = (replace(self.diagnostics[0], notes=(self.note(),)),)

    def note(self, span: Span | None = None) -> Note:
        """Return a note for the diagnostic that names the failing combination."""
        outcomes = tuple((choice.path, outcome) for choice, outcome in self.assignment.items())
        return Note(f"when {self.combination}", span, outcomes)

    @property
    def combination(self) -> str:
        """The failing combination as text, such as `layer[2].op = conv5`."""
        return describe_assignment(self.assignment)


def describe_assignment(assignment: Mapping[Choice, int]) -> str:
    """Return an assignment as text, such as `layer[2].op = conv5, width = 64`."""
    parts = []
    for choice, outcome in assignment.items():
        label = choice.label(outcome)
        parts.append(f"{choice.path} = {label if not isinstance(label, list) else ' + '.join(map(str, label))}")
    return ", ".join(parts)


class Excluded(Exception):  # noqa: N818  (no error: the code is unreachable)
    """Raised by `lift` if the assumptions exclude every combination for which the rule would be applied."""


def lift(rule: Callable[..., Value], *values: Value, under: Value = True, assumptions: Sequence[Value] = ()) -> Value:
    """Apply `rule` to every combination of leaves of `values`, and return the diagram of the results.

    Combinations for which the condition `under` does not hold are skipped. A result may itself be a diagram. The
    returned diagram has an arbitrary value, chosen to keep the diagram small, in two cases: where `under` does not
    hold, and where the rule fails but `assumptions` exclude the combination.

    If the rule raises RuleError or one of `FAULTS` for any other combination, raises CombinationError with the smallest
    failing combination, or RuleError if no choice is involved. Raises Excluded if no combination is left, and
    DiagramSizeError (A0605) beyond `MAX_STEPS` states.
    """
    for value in values:
        if type(value) is Diagram:
            break
    else:
        if under is not False:
            return _apply_plain(rule, values, under, assumptions)
    try:
        if len(values) == 1 and under is True:
            try:
                return _LeafMap(rule).apply(values[0])
            except _NotLeafwise:
                pass
        return _lift_product(rule, values, under, assumptions)
    except DiagramSizeError:
        weaker = project(under, frozenset(support(*values)))  # rules do not see choices on which no value depends
        if weaker is under:
            raise
        return _lift_product(rule, values, weaker, assumptions)


def _apply_plain(
    rule: Callable[..., Value], values: tuple[Value, ...], under: Value, assumptions: Sequence[Value]
) -> Value:
    """Apply `rule` to plain values, i.e. if no value is a diagram."""
    spend(2)
    try:
        return rule(*values)
    except WorkError:
        raise
    except RuleError as error:
        refusal = error
    except FAULTS as error:
        refusal = unexpected_error(error)
    if under is True and not assumptions:
        raise refusal
    return _check_failures(_Failure(refusal), under, assumptions)


class _NotLeafwise(Exception):  # noqa: N818  (no error: the general algorithm is used instead)
    """The leafwise shortcut (`_LeafMap`) cannot be used: the rule fails for a leaf, or returns a diagram for one."""


class _LeafMap:
    """Shortcut of `lift` for a single value without a condition: applies the rule to each leaf."""

    __slots__ = ("memo", "rule")

    def __init__(self, rule: Callable[..., Value]) -> None:
        self.rule = rule
        self.memo: dict[int, Value] = {}

    def apply(self, value: Value) -> Value:
        """Return the diagram whose leaves are the rule's results. Raises _NotLeafwise if the shortcut cannot be
        used."""
        if type(value) is not Diagram:
            spend(1)
            try:
                result = self.rule(value)
            except WorkError:
                raise
            except (RuleError, *FAULTS):
                raise _NotLeafwise from None
            if type(result) is Diagram:
                raise _NotLeafwise
            return result
        result = self.memo.get(id(value), self)
        if result is self:
            if len(self.memo) > MAX_STEPS:
                raise DiagramSizeError
            spend(2)
            result = self.memo[id(value)] = make_diagram(
                value.choice, [self.apply(branch) for branch in value.branches]
            )
        return result


def _lift_product(
    rule: Callable[..., Value], values: tuple[Value, ...], under: Value, assumptions: Sequence[Value]
) -> Value:
    """Apply `rule` by walking the product of the diagrams of `values` and `under`."""
    failed = False
    nested: dict[int, _NestedDiagram] = {}
    memo: dict[Hashable, Value] = {}
    work = budget_or_none()

    def walk(state: tuple[Value, ...]) -> Value:
        """Return the result for one state: the cofactors of `under` and of the values, in this order."""
        nonlocal failed
        condition = state[0]
        if condition is False:
            return UNREACHABLE
        values, top = state[1:], None
        for value in values:
            if type(value) is Diagram and (top is None or value.choice.order < top.order):
                top = value.choice
        if top is None:
            if work is not None:
                work.left -= 1
            try:
                result = rule(*values)
            except WorkError:
                raise
            except RuleError as error:
                failed = True
                return _Failure(error)
            except FAULTS as error:
                failed = True
                return _Failure(unexpected_error(error))
            return nested.setdefault(id(result), _NestedDiagram(result)) if type(result) is Diagram else result
        state_key = tuple_key(state)
        if state_key in memo:
            return memo[state_key]
        if len(memo) > MAX_STEPS:
            raise DiagramSizeError
        if type(condition) is Diagram and condition.choice.order < top.order:
            top = condition.choice
        if work is not None:
            work.left -= 1.5 + top.outcome_count / 4
            if work.left < 0:
                raise WorkError
        branches = [walk(below) for below in cofactors(state, top)]
        result = memo[state_key] = make_diagram(top, branches) if condition is True else _join_branches(top, branches)
        return result

    result = walk((under, *values))
    if nested:
        result = _flatten(result, list(nested.values()))
    return result if not failed else _check_failures(result, under, assumptions)


@dataclass(frozen=True, eq=False, slots=True)
class _NestedDiagram:
    """A diagram that a rule returned, wrapped as a leaf of the outer diagram until `_flatten` merges them."""

    value: Diagram


def _flatten(outer: Value, nested: list[_NestedDiagram]) -> Value:
    """Replace the nested diagrams in the leaves of a diagram by their contents.

    A nested diagram may test choices that come earlier in the variable order than the choices of the nodes above it.
    All nested diagrams are walked together, so that the time is proportional to the size of the result.
    """
    nested_below: dict[int, tuple[int, ...]] = {}
    memo: dict[Hashable, Value] = {}
    positions = {id(diagram): position for position, diagram in enumerate(nested)}

    def reach(value: Value) -> tuple[int, ...]:
        """Return the sorted indices (in `nested`) of the nested diagrams below a value."""
        if type(value) is _NestedDiagram:
            return (positions[id(value)],)
        if type(value) is not Diagram:
            return ()
        if id(value) not in nested_below:
            nested_below[id(value)] = tuple(
                sorted({position for branch in value.branches for position in reach(branch)})
            )
        return nested_below[id(value)]

    def walk(value: Value, inner: tuple[Value, ...]) -> Value:
        """Return the flattened value; `inner` has the cofactors of the nested diagrams with the indices
        `reach(value)`."""
        if type(value) is not Diagram:
            return inner[0] if type(value) is _NestedDiagram else value
        if not inner:
            return value
        state = value, tuple_key(inner)
        if state not in memo:
            if len(memo) > MAX_STEPS:
                raise DiagramSizeError
            spend(2 + len(inner) + value.choice.outcome_count / 2)
            top = min(
                [value.choice, *(diagram.choice for diagram in inner if type(diagram) is Diagram)], key=choice_order
            )
            cofactors = dict(zip(reach(value), inner, strict=True))
            branches = []
            for outcome in range(top.outcome_count):
                below = cofactor(value, top, outcome)
                branches.append(
                    walk(below, tuple([cofactor(cofactors[position], top, outcome) for position in reach(below)]))
                )
            memo[state] = make_diagram(top, branches)
        return memo[state]

    return walk(outer, tuple([nested[position].value for position in reach(outer)]))


def _join_branches(choice: Choice, branches: list[Value]) -> Value:
    """Return the diagram with these branches, of which some may be unreachable or failures.

    Unreachable branches are filled with the first branch that is neither unreachable nor a failure, if there is one.
    """
    filler = next(
        (branch for branch in branches if branch is not UNREACHABLE and type(branch) is not _Failure), UNREACHABLE
    )
    return fill_unreachable(choice, branches, filler)


def _check_failures(result: Value, under: Value, assumptions: Sequence[Value]) -> Value:
    """Return a result with its failures removed if the assumptions exclude all of them.

    Otherwise, raises CombinationError for the smallest failing combination that the assumptions do not exclude. Raises
    Excluded if the result consists of failures only.
    """
    failing = conjoin(under, lift(lambda leaf: type(leaf) is _Failure, result))
    remaining = conjoin_assumptions(failing, assumptions)
    if remaining is False:
        succeeding = conjoin(under, negate(failing))
        if succeeding is False:
            raise Excluded
        return lift(lambda leaf: leaf, result, under=succeeding)
    assignment = smallest_assignment(remaining, lambda leaf: leaf is True)
    assert assignment is not None, "a rule failed at a combination that is reachable"
    relevant = set(support(failing))
    assignment = {choice: outcome for choice, outcome in assignment.items() if choice in relevant}
    leaf = value_at(result, {choice.path: outcome for choice, outcome in assignment.items()})
    raise CombinationError(leaf.error, assignment)
