"""The parameters of a net, as they are given from outside."""

from __future__ import annotations

from math import isfinite

from archir.diagnostics.errors import fail, suggest
from archir.diagrams.cases import Value
from archir.ir.spelling import MOST_NESTING
from archir.language.elaboration.choose import Chooser
from archir.language.elaboration.values import MOST_BITS, Items
from archir.language.syntax import ast


def give(context: Chooser, definition: ast.Definition, given: dict[str, Value]) -> None:
    """Give a net its parameters, or their defaults; complain of those that it has not, or lacks."""
    names = [param.name.text for param in definition.params]
    for name in given:
        if name not in names:
            hint = suggest(name, names) or (f"it has {', '.join(names)}" if names else "it has none")
            context.error("A0203", f"net `{definition.name}` has no parameter `{name}`", definition.name.span, hint)
    for param in definition.params:
        name = param.name.text
        if name in given:
            value = _static(given[name], name)
        elif param.default is not None:
            value = context.eval(param.default)
        else:
            value = context.error("A0207", f"net `{definition.name}` needs `{name}`", param.name.span, f"-p {name}=...")
        context.frame.env[name] = value
        context.graph.parameters[name] = value


def _static(value: Value, name: str, depth: int = 0) -> Value:
    """A value from outside as programs have them. Raises ArchError (A1202) if it is none."""
    if isinstance(value, (list, tuple)) and depth < MOST_NESTING:
        return Items(_static(item, name, depth + 1) for item in value)
    match value:
        case int() if value.bit_length() > MOST_BITS:
            problem = "is too long a number"
        case float() if not isfinite(value):
            problem = f"is {value}: numbers are finite"
        case list() | tuple():
            problem = f"nests deeper than {MOST_NESTING} levels"
        case dict() | set() | bytes():
            problem = "is neither a number, nor text, nor a list of them"
        case _:
            return value
    raise fail("A1202", f"the parameter `{name}` {problem}")
