"""Architectures that are as near as possible to what is wished for, choice by choice."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from archir.base.draws import Distribution
from archir.ir.choices.cases import Value, at, support, varies
from archir.ir.graph import Decision
from archir.search.spaces.likeness.steps import MOST_CELLS, Number, function, named

Nearest = Callable[[Sequence[int], random.Random], list[int]]


def nearest(order: Sequence[Decision], distributions: Mapping[str, Value]) -> Nearest:
    """A function of wishes, one for each choice, and a generator, which makes codes. A choice that is active takes its
    wish where its distribution has that, as far as it has been decided; otherwise each possible outcome is as likely.

    It is written out once for a space: searches call it for each candidate.
    """
    index = {decision.choice.path: i for i, decision in enumerate(order)}
    names: dict[str, Any] = {"drawn": _drawn}
    lines = [f" c = [-1] * {len(order)}", f" d = [0] * {len(order)}"]
    for i, decision in enumerate(order):
        possible = _possible(distributions[decision.choice.path], f"p{i}", index, names)
        indent = " "
        if decision.active is not True:
            lines.append(f" if {named(Number(decision.active, index), f'a{i}', names)}:")
            indent = "  "
        lines += [f"{indent}p, x = {possible}, w[{i}]", f"{indent}c[{i}] = d[{i}] = x if x in p else drawn(p, rng)"]
    made: Nearest = function([*lines, " return c"], names, "w, rng")
    return made


def _possible(distribution: Value, name: str, index: Mapping[str, int], names: dict[str, Any]) -> str:
    """An expression for the outcomes that there are ways to, by those of other choices."""
    if not varies(distribution):
        names[name] = distribution.possible
        return name
    choices = support(distribution)
    sizes = [choice.outcomes for choice in choices]

    def found(outcomes: Sequence[int]) -> tuple[int, ...]:
        taken: Distribution = at(distribution, dict(zip([choice.path for choice in choices], outcomes, strict=True)))
        return taken.possible

    places = [f"d[{index[choice.path]}]" for choice in choices]
    if prod(sizes) > MOST_CELLS:
        names[name] = found
        return f"{name}(({', '.join(places)},))"
    names[name] = {outcomes: found(outcomes) for outcomes in product(*map(range, sizes))}
    return f"{name}[{', '.join(places)},]"


def _drawn(possible: Sequence[int], rng: random.Random) -> int:
    return rng.choice(possible) if possible else 0  # of what breaks a constraint, which the caller looks at
