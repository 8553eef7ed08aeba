"""Requirements that narrow nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.diagrams.cases import Value, varies
from archir.diagrams.conditions import negate
from archir.ir.graph import Constraint
from archir.linting.subject import Subject
from archir.spaces.counting import compile_program, concerned
from archir.spaces.space import Space


def idle_requirements(subject: Subject) -> Iterator[Diagnostic]:
    """A1408: a `require`, or a part of one joined by `and`, that every architecture satisfies, in every round of loops.

    Not those that name a parameter of the net: they are for other values of it, too.
    """
    space = Space(subject.graph)
    wheres = [constraint.condition for constraint in subject.graph.constraints if constraint.word == "where"]
    places: dict[str, list[Constraint]] = defaultdict(list)
    for constraint in subject.graph.constraints:
        if constraint.word == "require" and not _named(constraint) & set(subject.graph.parameters):
            places[str(constraint.span)].append(constraint)
    for found in places.values():
        reasons: list[str] = []
        for constraint in found:
            reason = _idle(space, wheres, constraint)
            if reason is None:
                break
            reasons.append(reason)
        else:
            text = f"`require {found[0].text}` excludes nothing: {reasons[0]}"
            yield Diagnostic("A1408", text, found[0].span, "drop it, or make it narrower", (), "warning")


def _idle(space: Space, wheres: Sequence[Value], constraint: Constraint) -> str | None:
    """Why no architecture breaks a requirement; None if one does, or may."""
    if constraint.cost is not None:
        return _idle_bound(space, constraint)
    if constraint.condition is True:
        labels = {path.split(".")[-1].partition("[")[0] for path in space.graph.decisions}
        broken = not _named(constraint) & labels  # what no choice decides is a check of the program
    else:
        conditions = [*wheres, negate(constraint.condition)]
        broken = compile_program(concerned(space.order, conditions), conditions).size > 0
    return None if broken else "every architecture satisfies it"


def _idle_bound(space: Space, bound: Constraint) -> str | None:
    name = str(bound.cost)
    if bound.condition is not True or varies(bound.limit) or name not in space.bounds.account.summed:
        return None
    try:
        least, greatest = (extreme.value for extreme in space.bounds.account.extremes(name))
    except ArchError:  # choices that are too entangled, sums that are too large
        return None
    if bound.relation in ("<", "<=") and greatest < int(bound.limit) + (bound.relation == "<="):
        return f"the most there is: {name} = {greatest:,}"
    if bound.relation in (">", ">=") and least > int(bound.limit) - (bound.relation == ">="):
        return f"the least there is: {name} = {least:,}"
    return None


def _named(constraint: Constraint) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", constraint.text))
