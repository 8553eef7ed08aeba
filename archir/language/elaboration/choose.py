"""Evaluates the three forms of `choose`, and `match`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, reduce
from typing import Any

from archir.diagnostics.errors import Note, RuleError, Span
from archir.diagrams.conditions import conjoin, disjoin, negate, possible_outcomes, restrict, switch
from archir.diagrams.diagram import (
    MAX_OUTCOMES,
    Choice,
    Label,
    Value,
    leaves,
    make_diagram,
    outcome_in,
    subset_count,
    value_key,
    varies,
)
from archir.diagrams.lifting import lift
from archir.ir.graph import Constraint, Decision
from archir.language.elaboration import static
from archir.language.elaboration.apply import ArgValue, merge_cases
from archir.language.elaboration.calls import cell_differs, evaluate_call, pipe_into
from archir.language.elaboration.context import Context
from archir.language.elaboration.evaluate import apply_comparison, first_or_excluded
from archir.language.elaboration.frame import Scope, join
from archir.language.elaboration.lists import list_elements, make_list
from archir.language.elaboration.module import Library
from archir.language.elaboration.network import collapse_tensor
from archir.language.elaboration.values import POISON, UNBOUND, Items, Tensor, show
from archir.language.syntax import ast

CHOICE_WORK = 30
"""Units of the work budget that a choice costs."""


@dataclass(frozen=True)
class Candidate:
    """Alternative of a choice; it may exist only for some outcomes of other choices.

    `exists` is the condition under which the alternative exists; `value` evaluates the alternative once it is picked.
    `label` (derived from the value) and `variable` (the variable that holds the value) are possible names.
    """

    exists: Value
    value: Callable[[], Value]
    label: Label | None = None
    variable: str | None = None
    is_evaluated: bool = False
    """True if the value has already been computed, so that calling `value` adds neither a choice nor a node."""


def evaluate_choose_value(context: Context, tree: ast.ChooseValue) -> Value:
    """Evaluate `choose kernel(3, 5, 7)`. If the only argument is a list, its items are the alternatives."""
    label = _choice_label(context, tree)
    if label is None:
        return POISON
    values = tree.values
    if len(values) == 1 and isinstance(values[0], ast.Sequence):
        values = values[0].items
    elif len(values) == 1 and not (isinstance(values[0], ast.Comprehension) and _has_effects(context, values[0].item)):
        value = context.eval(values[0])
        if any(isinstance(leaf, (Items, range)) for leaf in leaves(value)):
            return _choose_listed(context, tree, label, value)
        return (
            POISON if value is POISON else _choose_from(context, tree, label, [_evaluated_candidate(value, values[0])])
        )
    elif len(values) == 1:
        elements = list_elements(context, values[0])
        if elements is None:
            return POISON
        return _choose_from(context, tree, label, [Candidate(*element) for element in elements])
    candidates = [_make_candidate(context, value) for value in values]
    return (
        POISON
        if None in candidates
        else _choose_from(context, tree, label, [candidate for candidate in candidates if candidate])
    )


def _make_candidate(context: Context, tree: ast.Expr) -> Candidate | None:
    """Return the candidate for an alternative; None after an error.

    An expression that may make a choice or add a node is evaluated only under the condition that the alternative is
    picked.
    """
    if _has_effects(context, tree):
        return Candidate(True, partial(context.eval, tree))
    value = context.eval(tree)
    return None if value is POISON else _evaluated_candidate(value, tree)


def _choose_listed(context: Context, tree: ast.ChooseValue, label: str, value: Value) -> Value:
    """Evaluate a choice among the items of a list.

    If the list depends on choices, each item exists where the list contains it.
    """
    lists = [leaf if isinstance(leaf, (Items, range)) else Items([leaf]) for leaf in leaves(value)]
    longest = max(map(len, lists))
    if longest > MAX_OUTCOMES:
        return _too_many_outcomes(context, tree, longest)
    if len(lists) == 1:
        return _choose_from(context, tree, label, [_evaluated_candidate(item) for item in lists[0]])
    items = {value_key(item): item for items_of_leaf in lists for item in items_of_leaf}
    candidates = []
    for name, item in items.items():
        exists = context.lift(tree.span, lambda leaf, name=name: _contains_once(leaf, name), value)
        if exists is POISON:
            return POISON
        candidates.append(replace(_evaluated_candidate(item), exists=exists))
    return _choose_from(context, tree, label, candidates)


def _choose_from(context: Context, tree: ast.ChooseValue, label: str, candidates: Sequence[Candidate]) -> Value:
    if _check_count(context, tree, 1, candidates) is POISON:
        return POISON
    choice = make_choice(context, tree, label, _candidate_labels(candidates))
    if choice is None:
        return POISON
    _require_existing(context, tree, choice, candidates)
    values: list[Value] = [UNBOUND] * len(candidates)
    open_outcomes = possible_outcomes(choice, context.guard)
    for outcome, candidate in enumerate(candidates):
        if candidate.is_evaluated and candidate.exists is True:
            if outcome in open_outcomes:
                values[outcome] = candidate.value()
            continue
        with under_choice(context, choice, [outcome]), context.under(candidate.exists) as possible:
            if possible:
                values[outcome] = candidate.value()
    return _join_outcomes(context, choice, values, tree.span)


def _check_count(context: Context, tree: ast.Choose, k: int, candidates: Sequence[Candidate]) -> Value:
    """Report an error and return POISON if fewer than `k` candidates exist for some outcomes of other choices."""
    count: Value = 0
    for candidate in candidates:
        count = context.lift(tree.span, lambda n, here: n + here, count, candidate.exists)

    def check(have: int) -> int:
        if have == 0 and isinstance(tree, ast.ChooseValue):
            raise RuleError("this choice has no alternatives", code="A0501")
        if not 1 <= k <= have:
            raise RuleError(f"cannot choose {k} of {have} items", code="A0502")
        return have

    span = tree.count.span.to(tree.items.span) if isinstance(tree, ast.ChooseSubset) else tree.span
    return context.lift(span, check, count)


def _require_existing(context: Context, tree: ast.Choose, choice: Choice, candidates: Sequence[Candidate]) -> None:
    """Add the constraint that every picked candidate exists."""
    if all(candidate.exists is True for candidate in candidates):
        return
    exist = [reduce(conjoin, (candidates[i].exists for i in subset), True) for subset in choice.subsets]
    holds = switch(choice, exist)
    items = tree.items if isinstance(tree, ast.ChooseSubset) else tree
    context.constrain(Constraint(disjoin(negate(context.guard), holds), "where", f"in {items.span.text}", items.span))


def evaluate_choose_one(context: Context, tree: ast.ChooseOne, piped: ArgValue | None = None) -> Value:
    """Evaluate `choose op { name: expr ... }`; a piped-in value becomes the input of each."""
    label = _choice_label(context, tree)
    if label is None or (piped is not None and piped.value is POISON):
        return POISON
    names = [alternative.name for alternative in tree.alternatives]
    duplicate = first_duplicate([name.text for name in names])
    if duplicate is not None:
        return context.error("A0503", f"the alternative `{names[duplicate]}` is listed twice", names[duplicate].span)
    choice = make_choice(context, tree, label, [name.text for name in names])
    if choice is None:
        return POISON
    values: list[Value] = [UNBOUND] * len(names)
    component = choice.path.rsplit(".", 1)[-1]
    for outcome, alternative in enumerate(tree.alternatives):
        below = f"{component}.{alternative.name}"
        scope = Scope(join(context.scope.path, below), join(context.scope.choices, below))
        with context.inside(scope), under_choice(context, choice, [outcome]) as possible:
            if possible:
                values[outcome] = _alternative(context, alternative.value, piped)
    return _join_outcomes(context, choice, values, tree.span)


def _alternative(context: Context, tree: ast.Expr, piped: ArgValue | None) -> Value:
    context.assigned = None
    if piped is not None:
        return pipe_into(context, tree, piped, in_scope=True)
    return evaluate_call(context, tree, in_scope=True) if isinstance(tree, ast.Call) else context.eval(tree)


def evaluate_choose_subset(context: Context, tree: ast.ChooseSubset) -> Value:
    """Evaluate `choose inputs 2 of [a, b, c] where condition` to the list of chosen items."""
    label = _choice_label(context, tree)
    k = context.lift(tree.count.span, lambda leaf: static.integer(leaf, "the number to take"), context.eval(tree.count))
    elements = list_elements(context, tree.items)
    if label is None or k is POISON or elements is None:
        return POISON
    if not isinstance(k, int):
        return context.error("A0506", "the number of items to choose must not depend on a choice", tree.count.span)
    labels = _element_labels(tree.items, len(elements))
    candidates = [Candidate(*element) for element in elements]
    if _check_count(context, tree, k, candidates) is POISON:
        return POISON
    if subset_count(len(elements), k) > MAX_OUTCOMES:
        return _too_many_outcomes(context, tree, subset_count(len(elements), k))
    context.spend(k * subset_count(len(elements), k) / 4, tree.span)
    choice = make_choice(context, tree, label, labels, k)
    if choice is None:
        return POISON
    _require_existing(context, tree, choice, candidates)
    outcomes_with: list[list[int]] = [[] for _ in candidates]
    for number, subset in enumerate(choice.subsets):
        for position in subset:
            outcomes_with[position].append(number)
    values: list[Value] = [UNBOUND] * len(candidates)
    for position, candidate in enumerate(candidates):
        with under_choice(context, choice, outcomes_with[position]), context.under(candidate.exists) as possible:
            if possible:
                values[position] = candidate.value()
    if any(value is POISON for value in values):
        return POISON
    values = [collapse_tensor(context, value, {choice}, tree.span) for value in values]
    evaluated = [o for o, subset in enumerate(choice.subsets) if all(values[i] is not UNBOUND for i in subset)]
    first_or_excluded(evaluated)
    outcome = restrict(make_diagram(choice, range(choice.outcome_count)), outcome_in(choice, evaluated))
    chosen = [lift(lambda o, i=i: values[choice.subsets[o][i]], outcome) for i in range(k)]
    result = make_list(context, chosen, tree.span)
    if tree.where is not None and result is not POISON:
        _constrain_subset(context, tree.where, label, result)
    return result


def _constrain_subset(context: Context, tree: ast.Expr, label: str, chosen: Value) -> None:
    """Add the constraint of a `where` clause; in it, the label of the choice is bound to the list of chosen
    items."""
    before = context.frame.env
    context.frame.env = {**before, label: chosen}
    try:
        condition = context.condition(tree)
    finally:
        context.frame.env = before
    if condition is not POISON:
        holds = disjoin(negate(context.guard), condition)
        context.constrain(Constraint(holds, "where", tree.span.text, tree.span))


def _join_outcomes(context: Context, choice: Choice, values: list[Value], span: Span) -> Value:
    """Return the value of a choice, given its value for each outcome (UNBOUND if the outcome cannot occur)."""
    if any(value is POISON for value in values):
        return POISON
    values = [collapse_tensor(context, value, {choice}, span) for value in values]
    default = first_or_excluded([value for value in values if value is not UNBOUND])
    values = [default if value is UNBOUND else value for value in values]
    if not any(varies(value) for value in values):
        return make_diagram(choice, values)
    return switch(choice, values)


# deciding
def _has_effects(context: Context, tree: Any) -> bool:
    """Return True if evaluating an expression may make a choice or add a node."""
    if isinstance(tree, ast.Call) and isinstance(tree.callee, ast.Name):
        name, is_defined = tree.callee.text, context.frame.module.lookup(tree.callee.text) is not None
        if name in static.FUNCTIONS and name not in context.frame.env and not is_defined:
            return _has_effects(context, tree.arguments)
    if isinstance(tree, (ast.Choose, ast.Call, ast.Pipe)):
        return True
    if isinstance(tree, tuple):
        return any(_has_effects(context, part) for part in tree)
    parts = (getattr(tree, f.name) for f in fields(tree) if f.name != "span") if isinstance(tree, ast.Tree) else ()
    return any(_has_effects(context, part) for part in parts)


def _choice_label(context: Context, tree: ast.Choose) -> str | None:
    """Return the name of a choice: its label, or the variable it is assigned to. None after an error (A0505)."""
    name = tree.label or context.assigned
    context.assigned = None
    if name is None:
        context.error("A0505", "this choice has no name", tree.span, "write a label: `choose kernel(...)`")
        return None
    return name.text


def _too_many_outcomes(context: Context, tree: ast.Expr, outcomes: int) -> Value:
    text = f"a choice of {outcomes} outcomes is too large: at most {MAX_OUTCOMES} are allowed"
    return context.error("A0508", text, tree.span)


def make_choice(
    context: Context, tree: ast.Choose, label: str, labels: Sequence[Label], k: int | None = None
) -> Choice | None:
    """Return the Choice for a `choose` expression; None after an error.

    The Choice is new, except in later calls of a cell, which reuse the Choice of the first call.
    """
    span = tree.label.span if tree.label else tree.span
    if not labels:
        context.error("A0501", "this choice has no alternatives", tree.span)
        return None
    duplicate = first_duplicate([str(name) for name in labels])
    if duplicate is not None:
        context.error("A0503", f"the alternative `{labels[duplicate]}` is listed twice", tree.span)
        return None
    path = join(context.scope.choices, label + "".join(f"[{i}]" for i in context.scope.loops))
    context.spend(CHOICE_WORK + len(labels) / 4, span)
    places = _alternative_spans(tree, len(labels))
    choice = Choice(path, tuple(labels), len(context.graph.decisions), k, frozenset(tree.tags), span, places)
    earlier = context.graph.decisions.get(path)
    if earlier is None:
        if context.cell is not None and context.cell.complete:
            _differs(context, path, span)
            return None
        context.graph.decisions[path] = Decision(choice, context.guard)
    elif context.cell is None or path in context.cell.met or not context.cell.complete:
        hint = "give each choice its own label: `choose label ...`"
        note = Note("the other choice", earlier.choice.span)
        context.error("A0504", f"two choices are named `{path}`", span, hint, note)
        return None
    elif (earlier.choice.alternatives, earlier.choice.k) != (choice.alternatives, k):
        _differs(context, path, span)
        return None
    else:
        choice = earlier.choice
        context.graph.decisions[path] = replace(earlier, active=disjoin(earlier.active, context.guard))
    if context.cell is not None:
        context.cell.met[path] = context.guard
    return choice


def _differs(context: Context, path: str, span: Span) -> None:
    assert context.cell is not None
    cell_differs(context, path, context.cell, span)


def under_choice(context: Context, choice: Choice, outcomes: Sequence[int]) -> Any:
    """Return a context manager under which code is evaluated for the given outcomes of a choice only."""
    return context.under(outcome_in(choice, outcomes))


# match
def evaluate_match(context: Context, tree: ast.Match, piped: ArgValue | None = None) -> Value:
    """Return the value of the first arm that has a pattern equal to the subject; a piped-in value becomes each
    arm's input."""
    assigned, context.assigned = context.assigned, None
    subject = context.eval(tree.subject)
    if subject is POISON:
        return POISON
    cases: list[tuple[Value, Value]] = []
    unmatched: Value = True
    for arm in tree.arms:
        holds: Value = False
        with context.under(unmatched) as possible:
            holds = _matches(context, arm, subject) if possible else False
        if holds is POISON:
            return POISON
        taken = conjoin(unmatched, holds)
        with context.under(taken) as possible:
            if possible:
                context.assigned = assigned
                value = context.eval(arm.value) if piped is None else pipe_into(context, arm.value, piped)
                cases.append((taken, value))
        unmatched = conjoin(unmatched, negate(holds))
    context.assigned = None
    if context.lift(tree.subject.span, _check_covered, unmatched, subject) is POISON:
        return POISON
    return merge_cases(context, cases, tree.span)


def _matches(context: Context, arm: ast.Arm, subject: Value) -> Value:
    """Return the condition under which the subject equals one of the arm's patterns; True for an arm without
    patterns."""
    holds: Value = not arm.patterns
    for pattern in arm.patterns:
        same = apply_comparison(context, "==", subject, context.eval(pattern), pattern.span)
        holds = context.lift(pattern.span, lambda a, b: a or b, holds, same)
    return holds


def first_duplicate(names: Sequence[str]) -> int | None:
    """Return the index of the first name that repeats an earlier one; None if all names are distinct."""
    seen: set[str] = set()
    for position, name in enumerate(names):
        if name in seen:
            return position
        seen.add(name)
    return None


def _alternative_spans(tree: ast.Choose, count: int) -> tuple[Span, ...]:
    """Return the source span of each alternative; () if alternatives and outcomes do not correspond one to one."""
    alternatives: tuple[ast.Tree, ...] = ()
    if isinstance(tree, ast.ChooseOne):
        alternatives = tree.alternatives
    elif isinstance(tree, ast.ChooseValue):
        alternatives = tree.values
    return tuple(part.span for part in alternatives) if len(alternatives) == count else ()


def _check_covered(unmatched: bool, subject: Value) -> bool:
    if unmatched:
        raise RuleError(f"no arm matches {show(subject)}", "add an arm `else => ...`", "A0310")
    return True


def _element_labels(tree: ast.Expr, count: int) -> list[Label]:
    """Return labels for the elements of a list: variable names if all items are distinct variables, else indices."""
    if isinstance(tree, ast.Sequence) and all(isinstance(item, ast.Name) for item in tree.items):
        names = [str(item) for item in tree.items]
        if len(set(names)) == len(names):
            return list(names)
    return list(range(count))


def _evaluated_candidate(value: Value, tree: ast.Expr | None = None) -> Candidate:
    """Return the candidate for a value already evaluated from `tree`."""
    label = value if type(value) in (int, str) else show(value) if _is_literal(value) else None
    return Candidate(True, lambda: value, label, tree.text if isinstance(tree, ast.Name) else None, is_evaluated=True)


def _candidate_labels(candidates: Sequence[Candidate]) -> list[Label]:
    """Return labels for the candidates: from their values if all have one, else variable names or indices."""
    labels = [candidate.label for candidate in candidates if candidate.label is not None]
    if len(labels) == len(candidates):
        return labels
    names: list[Label] = [i if item.variable is None else item.variable for i, item in enumerate(candidates)]
    return names if len(set(names)) == len(names) else list(range(len(candidates)))


def _is_literal(value: Value) -> bool:
    """Return True if a value can be written in the language as a literal that does not depend on choices."""
    if isinstance(value, Items):
        return all(_is_literal(item) for item in value)
    return not isinstance(value, (Tensor, Library)) and not varies(value)


def _contains_once(leaf: Value, item_key: Hashable) -> bool:
    """Return True if a list contains an item. Raises RuleError (A0503) if the item occurs more than once."""
    count = (
        [value_key(item) for item in leaf].count(item_key)
        if isinstance(leaf, (Items, range))
        else int(value_key(leaf) == item_key)
    )
    if count > 1:
        duplicate = next(item for item in leaf if value_key(item) == item_key)
        raise RuleError(f"the alternative `{show(duplicate)}` is listed twice", code="A0503")
    return count == 1
