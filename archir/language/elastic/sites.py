"""The places in a text where a number is set that may be chosen."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from archir.diagnostics.errors import Span
from archir.language.elaboration.files import Module
from archir.language.elaboration.values import Block
from archir.language.elastic.flow import Flow, Home, Reached, Role, Use, constant
from archir.language.elastic.ladders import Kind
from archir.language.syntax import ast

MOST_FACTOR = 8
"""A greater number in a product is a width, and no ratio."""
_KINDS: dict[Role, Kind] = {"width": "widths", "kernel": "kernels", "heads": "heads", "depth": "depths"}


@dataclass(frozen=True, eq=False)
class Site:
    """Something in the text that a choice can stand for.

    `form`: a number as it is written; an argument that is not written, to stand at `span`; a factor of what is at
    `span`. `kind` is None for what only goes with a width: a shape, `groups`, the bound of a slice.
    """

    kind: Kind | None
    home: Home
    span: Span
    trained: Fraction
    form: Literal["number", "argument", "factor"] = "number"
    name: str = ""
    """That of the argument, or of the parameter that this is the default of."""
    inside: bool = False
    """Whether it is part of a product or the like."""
    use: Use | None = field(default=None, repr=False)
    """The call that it is an argument of, if it is heads."""
    groups: bool = False
    """Whether it is a number of groups."""


def sites(flow: Flow, module: Module) -> list[Site]:
    """Every place in a file, in the order of the text."""
    found = [*_numbers(flow, module), *_arguments(flow, module), *_factors(flow, module)]
    return sorted(found, key=lambda site: (site.span.start, site.form))


def _numbers(flow: Flow, module: Module) -> list[Site]:
    places: dict[int, list[Reached]] = defaultdict(list)
    for one in flow.reached:
        if one.home.module is module and one.missing is None and constant(one.expr) is not None:
            places[one.expr.span.start].append(one)
    return [site for several in places.values() if (site := _number(several, flow)) is not None]


def _number(several: list[Reached], flow: Flow) -> Site | None:
    """The site of a number, of all that it sets."""
    one, value = several[0], constant(several[0].expr)
    assert value is not None, "it was looked at before"
    scaled = all(reached.scaled for reached in several)
    every = {reached.role for reached in several}
    roles = every - {"follows", "groups"}
    if value <= 0 or len(roles) > 1 or "order" in roles:
        return None
    kind = _KINDS[next(iter(roles))] if roles else None
    if scaled and kind == "widths" and (value <= MOST_FACTOR or value.denominator > 1):
        kind = "ratios"
    elif value.denominator > 1 or value == 1 or (scaled and kind not in ("widths", None)):
        return None
    name = next((p.name.text for p in one.home.definition.params if p.default is one.expr), "")
    use = next((use for use in flow.uses if any(given is one.expr for given in use.arguments.values())), None)
    inside, groups = any(r.scaled for r in several), "groups" in every
    return Site(kind, one.home, one.expr.span, value, name=name, inside=inside, use=use, groups=groups)


def _arguments(flow: Flow, module: Module) -> list[Site]:
    """Ratios that a call of the library leaves at their default."""
    found: dict[tuple[int, str], Site] = {}
    for one in flow.reached:
        value = constant(one.expr)
        if one.missing is None or one.home.module is not module or value is None:
            continue
        if one.role == "width" and one.scaled and value != 1:
            use, name = one.missing
            found[id(use.call), name] = Site("ratios", one.home, after(use), value, "argument", name, use=use)
    return list(found.values())


def after(use: Use) -> Span:
    """Where a further argument of a call is written: the empty span behind the last one."""
    match use.call:
        case ast.Call(arguments=(*_, last)):
            end = last.value.span.end
        case ast.Call():
            end = use.call.span.end - 1
        case _:
            end = use.call.span.end
    return Span(use.call.span.source, end, end)


def spelt_argument(use: Use, name: str, value: str) -> str:
    """A further argument of a call, as it is written there."""
    match use.call:
        case ast.Call(arguments=(_, *_)):
            return f", {name}={value}"
        case ast.Call():
            return f"{name}={value}"
    return f"({name}={value})"


def _factors(flow: Flow, module: Module) -> list[Site]:
    """Widths in blocks that follow from others, and that others do not all follow: those in between. Groups are widths
    where there are as many as channels."""
    reached = [one for one in flow.reached if one.home.module is module]
    widths = {id(one.expr) for one in reached if one.role == "width"}
    groups = {id(one.expr) for one in reached if one.role == "groups"}
    depthwise = [use.arguments for use in flow.uses if {"channels", "groups"} <= use.arguments.keys()]
    widths |= {id(one["groups"]) for one in depthwise if _alike(one["groups"], one["channels"])} & groups
    blocks = [use for use in flow.uses if use.home.module is module and use.home.definition.word != "net"]
    given = [(use, expr) for use in blocks for expr in use.arguments.values() if id(expr) in widths]
    often = Counter((id(use.home), expr.text) for use, expr in given if isinstance(expr, ast.Name))
    found = []
    for use, expr in given:
        match expr:
            case ast.Name(text=text):
                if text not in {p.name.text for p in use.home.definition.params} or often[id(use.home), text] < 2:
                    continue
            case ast.Attribute():
                pass
            case ast.Chain(first=first, rest=rest):
                if any(constant(part) not in (None, 1) and sign == "*" for sign, part in (("*", first), *rest)):
                    continue
            case _:
                continue
        inside = isinstance(expr, ast.Chain)
        found.append(Site("ratios", use.home, expr.span, Fraction(1), "factor", inside=inside))
    return found


def _alike(one: ast.Expr, other: ast.Expr) -> bool:
    return isinstance(one, (ast.Name, ast.Attribute)) and one.span.text == other.span.text


def inner_width(flow: Flow, use: Use) -> str | None:
    """The parameter of a block, not given in a call, that says how wide it is inside: `none` by default."""
    if not isinstance(use.callee, Block):
        return None
    for param in use.callee.definition.params:
        default, name = param.default, param.name.text
        if name in use.arguments or not isinstance(default, ast.Literal) or default.value is not None:
            continue
        for one in flow.reached:
            inside = one.home.definition is use.callee.definition
            if inside and one.role == "width" and isinstance(one.expr, ast.Name) and one.expr.text == name:
                return name
    return None
