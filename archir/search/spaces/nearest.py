"""Architectures that are as near as possible to what is wished for, choice by choice."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from archir.base.draws import Distribution
from archir.ir.choices.cases import Choice, Value, at, support, varies
from archir.ir.graph import Decision
from archir.search.spaces.likeness.steps import MOST_CELLS, Number, cell, function, named

Otherwise = Callable[[int, Sequence[int]], int]
"""Of the position of a choice and its possible outcomes, the one to be taken where what is wished for is none."""
Nearest = Callable[[Sequence[int], Otherwise], tuple[int, ...]]


def nearest(order: Sequence[Decision], distributions: Mapping[str, Value]) -> Nearest:
    """A function of wishes, one for each choice, and of what is taken otherwise, which makes codes. A choice that is
    active takes its wish where its distribution has that, as far as it has been decided.

    It is written out once for a space: searches call it for each candidate.
    """
    index = {decision.choice.path: i for i, decision in enumerate(order)}
    about = [support(decision.active, distributions[decision.choice.path]) for decision in order]
    read = {index[choice.path] for several in about for choice in several}
    names: dict[str, Any] = {}
    known: dict[tuple[int, ...], str] = {}
    lines = [f" c = [-1] * {len(order)}", f" d = [0] * {len(order)}"]
    active: Value = True
    for i, decision in enumerate(order):
        if decision.active is not active and decision.active is not True:
            lines.append(f" if {named(Number(decision.active, index), f'a{i}', names)}:")
        active = decision.active
        indent = " " if active is True else "  "
        possible = _possible(distributions[decision.choice.path], i, index, names, known)
        if "(" in possible or "[" in possible:
            lines.append(f"{indent}p = {possible}")
            possible = "p"
        also = f"d[{i}] = " if i in read else ""
        lines.append(f"{indent}c[{i}] = {also}x if (x := w[{i}]) in {possible} else f({i}, {possible})")
    made: Nearest = function([*lines, " return (*c,)"], names, "w, f")
    return made


def drawing(rng: random.Random) -> Otherwise:
    """Each possible outcome is as likely."""

    def drawn(place: int, possible: Sequence[int]) -> int:
        return possible[int(rng.random() * len(possible))] if possible else 0  # of what breaks a constraint: looked at

    return drawn


def _possible(
    distribution: Value, place: int, index: Mapping[str, int], names: dict[str, Any], known: dict[tuple[int, ...], str]
) -> str:
    """An expression for the outcomes that there are ways to, by those of other choices."""
    name = f"p{place}"
    if not varies(distribution):
        name = known.setdefault(distribution.possible, name)
        names[name] = distribution.possible
        return name
    choices = support(distribution)
    sizes = [choice.outcomes for choice in choices]
    places = [index[choice.path] for choice in choices]
    if prod(sizes) <= MOST_CELLS:
        names[name] = _table(distribution, choices)
        return f"{name}[{cell(places, sizes)}]"

    def found(outcomes: Sequence[int]) -> tuple[int, ...]:
        taken: Distribution = at(distribution, dict(zip([choice.path for choice in choices], outcomes, strict=True)))
        return taken.possible

    names[name] = found
    return f"{name}(({', '.join(f'd[{place}]' for place in places)},))"


def _table(distribution: Value, choices: Sequence[Choice]) -> list[tuple[int, ...]]:
    """The possible outcomes by those of other choices, the last of which varies fastest; in the diagrams' order."""
    known: dict[tuple[int, int], list[tuple[int, ...]]] = {}

    def filled(value: Value, level: int) -> list[tuple[int, ...]]:
        if level == len(choices):
            return [value.possible]
        if (id(value), level) not in known:
            choice = choices[level]
            if varies(value) and value.choice is choice:
                cells = [one for branch in value.branches for one in filled(branch, level + 1)]
            else:
                cells = filled(value, level + 1) * choice.outcomes
            known[id(value), level] = cells
        return known[id(value), level]

    return filled(distribution, 0)
