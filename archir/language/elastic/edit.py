"""Choices written into a text: everything else of it stays where it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from math import gcd

from archir.diagnostics.errors import Span
from archir.language.elastic.flow import Home
from archir.language.elastic.ladders import Asked, Kind, Ladder, ladder, spelt
from archir.language.elastic.sites import Site, after, spelt_argument
from archir.language.syntax import ast

_WORDS: dict[Kind, str] = {
    "widths": "width", "depths": "depth", "heads": "heads", "kernels": "kernel", "ratios": "ratio",
}  # fmt: skip


@dataclass(eq=False)
class Group:
    """Sites that one choice sets: each is so many times its value."""

    sites: list[Site]
    named: bool = False
    """Whether it is a variable at the top of its definition, rather than made where it is used."""
    dropped: set[Fraction] = field(default_factory=set)
    """Values that something is wrong with."""
    reason: str = ""
    """Why it has fewer values than it might have; if there are none, why it is not open."""
    place: Span | None = None
    per_head: tuple[str, int] | None = None
    """Of heads: the parameter that says how wide all are together, and how wide each is."""

    @property
    def kind(self) -> Kind | None:
        """What is chosen; None for what has not been tied to anything."""
        return next((site.kind for site in self.sites if site.kind is not None), None)

    @property
    def home(self) -> Home:
        """The definition that its sites are in."""
        return self.sites[0].home

    @property
    def parameter(self) -> Site | None:
        """The site that is the default of a parameter, by whose name others can have it."""
        return next((site for site in self.sites if site.form == "number" and site.name), None)

    @property
    def base(self) -> Fraction:
        """The trained value of the choice."""
        if self.parameter is not None:
            return self.parameter.trained
        trained = [site.trained for site in self.sites]
        least = min(trained)
        if all((value / least).denominator == 1 for value in trained):
            return least
        return Fraction(reduce(gcd, (int(value) for value in trained)))

    def values(self, asked: Asked) -> Ladder:
        """What can be chosen, upwards to the trained value."""
        kind = self.kind or "widths"
        found = ladder(kind, self.base, asked[kind])
        scales = [site.trained / self.base for site in self.sites]
        whole = [v for v in found if kind == "ratios" or all((v * scale).denominator == 1 for scale in scales)]
        return tuple(value for value in whole if value not in self.dropped)


@dataclass(frozen=True)
class Edited:
    """A text with choices, and the groups by the labels of these."""

    text: str
    labels: dict[str, Group]


def edit(text: str, groups: Iterable[Group], asked: Asked) -> Edited:
    """The text in which these groups are choices."""
    taken = set(re.findall(r"[A-Za-z_]\w*", text))
    labels: dict[str, Group] = {}
    changes: list[tuple[int, int, str]] = []
    tops: dict[int, list[str]] = {}
    homes: dict[int, Home] = {}
    for group in sorted(groups, key=lambda one: one.sites[0].span.start):
        parameter, kind = group.parameter, group.kind or "widths"
        label = parameter.name if parameter is not None and parameter.name not in labels else ""
        label = label or fresh(_WORDS[kind], taken)
        taken.add(label)
        labels[label] = group
        choice = f"choose {label}({spelt(group.values(asked))})"
        if parameter is not None:
            changes.append((parameter.span.start, parameter.span.end, choice))
        elif group.named:
            homes[id(group.home)] = group.home
            tops.setdefault(id(group.home), []).append(f"{label} = {choice}")
        for site in group.sites:
            if site is not parameter:
                changes.append(_change(site, site.trained / group.base, label, choice, group))
        if group.per_head is not None:
            name, width = group.per_head
            use = group.sites[0].use
            assert use is not None, "heads that have a width are those of a call"
            place = after(use)
            changes.append((place.start, place.end, spelt_argument(use, name, f"{width} * {label}")))
    for key, lines in tops.items():
        changes.append(_top(homes[key].definition, text, lines))
    return Edited(applied(text, changes), labels)


def fresh(word: str, taken: set[str]) -> str:
    """A word that is not taken, with a number behind it if it is."""
    number = 2
    name = word
    while name in taken:
        name = f"{word}_{number}"
        number += 1
    return name


def _change(site: Site, scale: Fraction, label: str, choice: str, group: Group) -> tuple[int, int, str]:
    value = label if group.named or group.parameter is not None else choice
    if site.form == "factor":
        text = f"({site.span.text})" if site.inside else site.span.text
        return site.span.start, site.span.end, f"{value} * {text}"
    if scale != 1:
        value = f"{scale.numerator} * {value}" if scale.numerator != 1 else value
        value = f"{value} / {scale.denominator}" if scale.denominator != 1 else value
        value = f"({value})" if site.inside else value
    if site.form == "argument":
        assert site.use is not None, "an argument is one of a call"
        value = spelt_argument(site.use, site.name, value)
    return site.span.start, site.span.end, value


def _top(definition: ast.Definition, text: str, lines: Sequence[str]) -> tuple[int, int, str]:
    """Statements at the top of a body: behind the inputs of a net."""
    inputs = [statement for statement in definition.body if isinstance(statement, ast.Input)]
    first = next(statement for statement in definition.body if not isinstance(statement, ast.Input))
    leading = [one for one in inputs if one.span.start < first.span.start]
    if leading:
        start = text.rfind("\n", 0, leading[-1].span.start) + 1
        before = text[start : leading[-1].span.start]
        before = before if not before.strip() else "    "
        end = text.find("\n", leading[-1].span.end)
        return end, end, "".join(f"\n{before}{line}" for line in lines)
    start = text.rfind("\n", 0, first.span.start) + 1
    indent = text[start : first.span.start] if not text[start : first.span.start].strip() else "    "
    return first.span.start, first.span.start, "".join(f"{line}\n{indent}" for line in lines)


def applied(text: str, changes: list[tuple[int, int, str]]) -> str:
    """A text in which what is from one place to another is something else."""
    parts, at = [], 0
    for start, end, new in sorted(changes, key=lambda change: change[:2]):
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])
