"""Requirements that narrow nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter

from archir.base.errors import ArchError, Diagnostic
from archir.ir.choices.cases import Choice, Value, support, varies
from archir.ir.choices.conditions import negate
from archir.ir.graph import Constraint
from archir.search.lint.subject import Subject
from archir.search.spaces.counting import compile_program
from archir.search.spaces.space import Space


def idle_requirements(subject: Subject) -> Iterator[Diagnostic]:
    """A1408: a `require`, or a part of one joined by `and`, that every architecture satisfies, in every round of loops.

    Not those that name a parameter of the net: they are for other values of it, too.
    """
    space = Space(subject.graph)
    choices = _Choices(space)
    places: dict[str, list[Constraint]] = defaultdict(list)
    for constraint in subject.graph.constraints:
        if constraint.word == "require" and not _named(constraint) & set(subject.graph.parameters):
            places[str(constraint.span)].append(constraint)
    for found in places.values():
        reasons: list[str] = []
        for constraint in found:
            reason = _idle(space, choices, constraint)
            if reason is None:
                break
            reasons.append(reason)
        else:
            text = f"`require {found[0].text}` excludes nothing: {reasons[0]}"
            yield Diagnostic("A1408", text, found[0].span, "drop it, or make it narrower", (), "warning")


class _Choices:
    """The choices of a net, and what `where` says of each."""

    def __init__(self, space: Space) -> None:
        self._decisions = {decision.choice: (place, decision) for place, decision in enumerate(space.order)}
        self._wheres: dict[Choice, list[Value]] = defaultdict(list)
        for constraint in space.graph.constraints:
            if constraint.word == "where":
                for choice in support(constraint.condition):
                    self._wheres[choice].append(constraint.condition)

    def allow(self, condition: Value) -> bool:
        """Whether choices can be made so that a condition holds. Those that it does not depend on are not counted: of
        thousands of requirements, each is about a few."""
        about: set[Choice] = set()
        wheres: dict[int, Value] = {}
        left = [*support(condition)]
        while left:
            choice = left.pop()
            if choice not in about:
                about.add(choice)
                left += support(self._decisions[choice][1].active)
                for where in self._wheres.get(choice, ()):
                    wheres[id(where)] = where
                    left += support(where)
        order = [decision for _, decision in sorted((self._decisions[choice] for choice in about), key=itemgetter(0))]
        return compile_program(order, [*wheres.values(), condition]).size > 0


def _idle(space: Space, choices: _Choices, constraint: Constraint) -> str | None:
    """Why no architecture breaks a requirement; None if one does, or may."""
    if constraint.cost is not None:
        return _idle_bound(space, constraint)
    if constraint.condition is True:
        labels = {path.split(".")[-1].partition("[")[0] for path in space.graph.decisions}
        broken = not _named(constraint) & labels  # what no choice decides is a check of the program
    else:
        broken = choices.allow(negate(constraint.condition))
    return None if broken else "every architecture satisfies it"


def _idle_bound(space: Space, bound: Constraint) -> str | None:
    name = str(bound.cost)
    if bound.condition is not True or varies(bound.limit) or name not in space.account.summed:
        return None
    try:
        least, greatest = (extreme.value for extreme in space.account.extremes(name))
    except ArchError:  # choices that are too entangled, sums that are too large
        return None
    if bound.relation in ("<", "<=") and greatest < int(bound.limit) + (bound.relation == "<="):
        return f"the most there is: {name} = {greatest:,}"
    if bound.relation in (">", ">=") and least > int(bound.limit) - (bound.relation == ">="):
        return f"the least there is: {name} = {least:,}"
    return None


def _named(constraint: Constraint) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", constraint.text))
