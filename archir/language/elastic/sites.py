"""Sites: positions in a program's text where a number can be replaced by a choice."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from archir.diagnostics.errors import Span
from archir.language.elaboration.module import Block, Module
from archir.language.elastic.choice_values import Kind
from archir.language.elastic.flow import CallSite, Flow, Home, Role, Setter, constant
from archir.language.syntax import ast

MAX_RATIO = 8
"""Maximum integer factor of a width that counts as a ratio; larger factors count as widths."""
_KINDS: dict[Role, Kind] = {"width": "widths", "kernel": "kernels", "heads": "heads", "depth": "depths"}
"""Maps the role of a number to the kind of its choice."""


@dataclass(frozen=True, eq=False)
class Site:
    """Position in the program text that can be replaced by a choice.

    `form` is "number" for a number in the text, "argument" for an argument to be inserted at the empty `span`, or
    "factor" for a factor to be inserted before the expression at `span`. `kind` is None for numbers that only follow a
    width: shapes, group counts, slice bounds.
    """

    kind: Kind | None
    home: Home
    span: Span
    trained: Fraction
    form: Literal["number", "argument", "factor"] = "number"
    name: str = ""
    """Name of the argument to insert, or of the parameter whose default the number is."""
    inside: bool = False
    """True if the number is part of a larger expression, such as a product."""
    use: CallSite | None = field(default=None, repr=False)
    """Call of which the number is an argument; None if it is not one."""
    groups: bool = False
    """True if the number is a group count."""


def sites(flow: Flow, module: Module) -> list[Site]:
    """Return all sites of a program file in text order."""
    all_sites = [*_number_sites(flow, module), *_default_sites(flow, module), *_inner_width_sites(flow, module)]
    return sorted(all_sites, key=lambda site: (site.span.start, site.form))


def _number_sites(flow: Flow, module: Module) -> list[Site]:
    """Return the sites for numbers that are written in the file."""
    places: dict[int, list[Setter]] = defaultdict(list)
    for setter in flow.setters:
        if setter.home.module is module and setter.missing is None and constant(setter.expr) is not None:
            places[setter.expr.span.start].append(setter)
    return [site for several in places.values() if (site := _number_site(several, flow)) is not None]


def _number_site(setters: list[Setter], flow: Flow) -> Site | None:
    """Return the site of a number, given all setters that the number flows to; None if it cannot be a choice."""
    first, value = setters[0], constant(setters[0].expr)
    assert value is not None, "the caller selects constants"
    scaled = all(setter.scaled for setter in setters)
    all_roles = {setter.role for setter in setters}
    roles = all_roles - {"follows", "groups"}
    if value <= 0 or len(roles) > 1 or "order" in roles:
        return None
    kind = _KINDS[next(iter(roles))] if roles else None
    if scaled and kind == "widths" and (value <= MAX_RATIO or value.denominator > 1):
        kind = "ratios"
    elif value.denominator > 1 or value == 1 or (scaled and kind not in ("widths", None)):
        return None
    name = next((p.name.text for p in first.home.definition.params if p.default is first.expr), "")
    use = next((use for use in flow.uses if any(argument is first.expr for argument in use.arguments.values())), None)
    inside, groups = any(r.scaled for r in setters), "groups" in all_roles
    return Site(kind, first.home, first.expr.span, value, name=name, inside=inside, use=use, groups=groups)


def _default_sites(flow: Flow, module: Module) -> list[Site]:
    """Return sites for ratios that calls of library blocks leave at the default."""
    sites_by_argument: dict[tuple[int, str], Site] = {}
    for setter in flow.setters:
        value = constant(setter.expr)
        if setter.missing is None or setter.home.module is not module or value is None:
            continue
        if setter.role == "width" and setter.scaled and value != 1:
            use, name = setter.missing
            sites_by_argument[id(use.call), name] = Site(
                "ratios", setter.home, argument_place(use), value, "argument", name, use=use
            )
    return list(sites_by_argument.values())


def argument_place(use: CallSite) -> Span:
    """Return the empty span at which another argument can be inserted into a call."""
    match use.call:
        case ast.Call(arguments=(*_, last)):
            end = last.value.span.end
        case ast.Call():
            end = use.call.span.end - 1
        case _:
            end = use.call.span.end
    return Span(use.call.span.source, end, end)


def argument_text(use: CallSite, name: str, value: str) -> str:
    """Return the text that adds an argument to a call at `argument_place`, with the necessary punctuation."""
    match use.call:
        case ast.Call(arguments=(_, *_)):
            return f", {name}={value}"
        case ast.Call():
            return f"{name}={value}"
    return f"({name}={value})"


def _inner_width_sites(flow: Flow, module: Module) -> list[Site]:
    """Return sites for widths inside blocks that are computed from other widths; each gets a ratio as an additional
    factor.

    A parameter counts only if the block passes it on as a width more than once. Products with a constant factor
    are left out. A group count counts as a width if it equals the channel count, as in depthwise convolutions.
    """
    reached = [item for item in flow.setters if item.home.module is module]
    widths = {id(item.expr) for item in reached if item.role == "width"}
    groups = {id(item.expr) for item in reached if item.role == "groups"}
    depthwise = [use.arguments for use in flow.uses if {"channels", "groups"} <= use.arguments.keys()]
    widths |= {id(item["groups"]) for item in depthwise if _is_same_text(item["groups"], item["channels"])} & groups
    blocks = [use for use in flow.uses if use.home.module is module and use.home.definition.word != "net"]
    width_arguments = [(use, expr) for use in blocks for expr in use.arguments.values() if id(expr) in widths]
    counts = Counter((id(use.home), expr.text) for use, expr in width_arguments if isinstance(expr, ast.Name))
    width_sites = []
    for use, expr in width_arguments:
        match expr:
            case ast.Name(text=text):
                if text not in {p.name.text for p in use.home.definition.params} or counts[id(use.home), text] < 2:
                    continue
            case ast.Attribute():
                pass
            case ast.Chain(first=first, links=rest):
                if any(constant(part) not in (None, 1) and sign == "*" for sign, part in (("*", first), *rest)):
                    continue
            case _:
                continue
        inside = isinstance(expr, ast.Chain)
        width_sites.append(Site("ratios", use.home, expr.span, Fraction(1), "factor", inside=inside))
    return width_sites


def _is_same_text(left: ast.Expr, right: ast.Expr) -> bool:
    """Return True if two expressions are the same name or the same attribute access."""
    return isinstance(left, (ast.Name, ast.Attribute)) and left.span.text == right.span.text


def inner_width(flow: Flow, use: CallSite) -> str | None:
    """Return the parameter of a block that sets its inner width, or None.

    Returns the parameter only if its default is `none` and the call does not pass it.
    """
    if not isinstance(use.callee, Block):
        return None
    for param in use.callee.definition.params:
        default, name = param.default, param.name.text
        if name in use.arguments or not isinstance(default, ast.Literal) or default.value is not None:
            continue
        for setter in flow.setters:
            inside = setter.home.definition is use.callee.definition
            if inside and setter.role == "width" and isinstance(setter.expr, ast.Name) and setter.expr.text == name:
                return name
    return None
