"""Inserts choices into a program's text, leaving everything else unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from math import gcd

from archir.diagnostics.errors import Span
from archir.language.elastic.choice_values import Kind, Request, Values, choice_values, format_values
from archir.language.elastic.flow import Home
from archir.language.elastic.sites import Site, argument_place, argument_text
from archir.language.syntax import ast
from archir.utils.edits import Edit, apply_edits

_LABELS: dict[Kind, str] = {
    "widths": "width", "depths": "depth", "heads": "heads", "kernels": "kernel", "ratios": "ratio",
}  # fmt: skip
"""Default label of a choice by kind."""


@dataclass(eq=False)
class Group:
    """Sites (numbers in the program text) set by one choice; each is a fixed multiple of the choice's value."""

    sites: list[Site]
    named: bool = False
    """True if the choice is assigned to a variable at the top of the definition, False if it is written at its
    single use."""
    dropped: set[Fraction] = field(default_factory=set)
    """Values left out because an architecture with them would be invalid."""
    reason: str = ""
    """Why values were left out; if only the trained value remains, why the group does not become a choice."""
    reason_span: Span | None = None
    """Source span to which the reason refers."""
    per_head: tuple[str, int] | None = None
    """For heads: the parameter for the total width of all heads, and the width per head."""

    @property
    def kind(self) -> Kind | None:
        """Kind of the choice; None if no site of the group has a kind."""
        return next((site.kind for site in self.sites if site.kind is not None), None)

    @property
    def home(self) -> Home:
        """Definition that contains the sites."""
        return self.sites[0].home

    @property
    def parameter(self) -> Site | None:
        """A site that is the default of a parameter, through which other sites can refer to the choice; or None."""
        return next((site for site in self.sites if site.form == "number" and site.name), None)

    @property
    def base(self) -> Fraction:
        """Trained value of the choice."""
        if self.parameter is not None:
            return self.parameter.trained
        trained = [site.trained for site in self.sites]
        least = min(trained)
        if all((value / least).denominator == 1 for value in trained):
            return least
        return Fraction(reduce(gcd, (int(value) for value in trained)))

    def values(self, request: Request) -> Values:
        """Return the values of the choice in ascending order, ending with the trained value."""
        kind = self.kind or "widths"
        candidates = choice_values(kind, self.base, request[kind])
        scales = [site.trained / self.base for site in self.sites]
        integral = [v for v in candidates if kind == "ratios" or all((v * scale).denominator == 1 for scale in scales)]
        return tuple(value for value in integral if value not in self.dropped)


@dataclass(frozen=True)
class EditedText:
    """Edited program text, and the group behind each new choice by label."""

    text: str
    labels: dict[str, Group]


def edit(text: str, groups: Iterable[Group], request: Request) -> EditedText:
    """Return the program text with each group turned into a choice."""
    taken = set(re.findall(r"[A-Za-z_]\w*", text))
    labels: dict[str, Group] = {}
    changes: list[Edit] = []
    lines_by_home: dict[int, list[str]] = {}
    homes: dict[int, Home] = {}
    for group in sorted(groups, key=lambda item: item.sites[0].span.start):
        parameter, kind = group.parameter, group.kind or "widths"
        label = parameter.name if parameter is not None and parameter.name not in labels else ""
        label = label or unused_name(_LABELS[kind], taken)
        taken.add(label)
        labels[label] = group
        choice = f"choose {label}({format_values(group.values(request))})"
        if parameter is not None:
            changes.append((parameter.span.start, parameter.span.end, choice))
        elif group.named:
            homes[id(group.home)] = group.home
            lines_by_home.setdefault(id(group.home), []).append(f"{label} = {choice}")
        for site in group.sites:
            if site is not parameter:
                changes.append(_site_edit(site, site.trained / group.base, label, choice, group))
        if group.per_head is not None:
            name, width = group.per_head
            use = group.sites[0].use
            assert use is not None, "a head width belongs to the heads of a call"
            insertion = argument_place(use)
            changes.append((insertion.start, insertion.end, argument_text(use, name, f"{width} * {label}")))
    for key, lines in lines_by_home.items():
        changes.append(_top_edit(homes[key].definition, text, lines))
    return EditedText(apply_edits(text, changes), labels)


def unused_name(word: str, taken: set[str]) -> str:
    """Return `word`, with a number appended if it is already in `taken`."""
    number = 2
    name = word
    while name in taken:
        name = f"{word}_{number}"
        number += 1
    return name


def _site_edit(site: Site, scale: Fraction, label: str, choice: str, group: Group) -> Edit:
    """Return the edit (start, end, new text) for one site."""
    value = label if group.named or group.parameter is not None else choice
    if site.form == "factor":
        text = f"({site.span.text})" if site.inside else site.span.text
        return site.span.start, site.span.end, f"{value} * {text}"
    if scale != 1:
        value = f"{scale.numerator} * {value}" if scale.numerator != 1 else value
        value = f"{value} / {scale.denominator}" if scale.denominator != 1 else value
        value = f"({value})" if site.inside else value
    if site.form == "argument":
        assert site.use is not None, "an argument belongs to a call"
        value = argument_text(site.use, site.name, value)
    return site.span.start, site.span.end, value


def _top_edit(definition: ast.Definition, text: str, lines: Sequence[str]) -> Edit:
    """Return the edit that inserts lines at the top of a body, in nets after the leading inputs."""
    inputs = [statement for statement in definition.body if isinstance(statement, ast.Input)]
    first = next(statement for statement in definition.body if not isinstance(statement, ast.Input))
    leading = [candidate for candidate in inputs if candidate.span.start < first.span.start]
    if leading:
        start = text.rfind("\n", 0, leading[-1].span.start) + 1
        before = text[start : leading[-1].span.start]
        before = before if not before.strip() else "    "
        end = text.find("\n", leading[-1].span.end)
        return end, end, "".join(f"\n{before}{line}" for line in lines)
    start = text.rfind("\n", 0, first.span.start) + 1
    indent = text[start : first.span.start] if not text[start : first.span.start].strip() else "    "
    return first.span.start, first.span.start, "".join(f"{line}\n{indent}" for line in lines)
