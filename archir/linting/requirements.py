"""Lint rule for `require`s that exclude no architecture."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.diagrams.conditions import negate
from archir.diagrams.diagram import Value, varies
from archir.ir.graph import Constraint
from archir.linting.subject import Subject
from archir.spaces.counting import compile_program, relevant_decisions
from archir.spaces.space import Space


def idle_requirements(subject: Subject) -> Iterator[Diagnostic]:
    """A1408: warn about a `require`, or an operand of `and` in one, that every architecture satisfies.

    A `require` in a loop is reported only if every architecture satisfies it in all iterations. Requirements that
    mention a parameter of the net are not reported, since they may exclude architectures for other parameter values.
    """
    space = Space(subject.graph)
    wheres = [constraint.condition for constraint in subject.graph.constraints if constraint.keyword == "where"]
    parts_by_place: dict[str, list[Constraint]] = defaultdict(list)
    for constraint in subject.graph.constraints:
        if constraint.keyword == "require" and not _identifiers(constraint) & set(subject.graph.parameters):
            parts_by_place[str(constraint.span)].append(constraint)
    for parts in parts_by_place.values():
        reasons: list[str] = []
        for constraint in parts:
            reason = _idle_reason(space, wheres, constraint)
            if reason is None:
                break
            reasons.append(reason)
        else:
            text = f"`require {parts[0].text}` excludes nothing: {reasons[0]}"
            yield Diagnostic("A1408", text, parts[0].span, "drop it, or make it narrower", (), "warning")


def _idle_reason(space: Space, wheres: Sequence[Value], constraint: Constraint) -> str | None:
    """Return why no architecture violates a requirement; None if one does or may."""
    if constraint.cost is not None:
        return _idle_bound_reason(space, constraint)
    if constraint.condition is True:
        labels = {path.split(".")[-1].partition("[")[0] for path in space.graph.decisions}
        may_break = (
            not _identifiers(constraint) & labels
        )  # without a choice, the requirement is an assertion about parameters
    else:
        conditions = [*wheres, negate(constraint.condition)]
        may_break = compile_program(relevant_decisions(space.order, conditions), conditions).size > 0
    return None if may_break else "every architecture satisfies it"


def _idle_bound_reason(space: Space, bound: Constraint) -> str | None:
    """Return why no architecture violates a cost bound; None if one does or may."""
    name = str(bound.cost)
    if bound.condition is not True or varies(bound.limit) or name not in space.bounds.account.summed:
        return None
    try:
        minimum, maximum = (extreme.value for extreme in space.bounds.account.extremes(name))
    except ArchError:  # the diagram exceeds the size limit, or there are too many different sums
        return None
    if bound.relation in ("<", "<=") and maximum < int(bound.limit) + (bound.relation == "<="):
        return f"the maximum of `{name}` is {maximum:,}"
    if bound.relation in (">", ">=") and minimum > int(bound.limit) - (bound.relation == ">="):
        return f"the minimum of `{name}` is {minimum:,}"
    return None


def _identifiers(constraint: Constraint) -> set[str]:
    """Return the identifiers in the text of a constraint."""
    return set(re.findall(r"[A-Za-z_]\w*", constraint.text))
