"""Binds net parameters to values from the command line or from Python."""

from __future__ import annotations

from math import isfinite

from archir.diagnostics.errors import fail
from archir.diagnostics.hints import suggest
from archir.diagrams.diagram import Value
from archir.ir.value_io import MAX_NESTING
from archir.language.elaboration.context import Context
from archir.language.elaboration.values import MAX_BITS, Items
from archir.language.syntax import ast


def bind_net_arguments(context: Context, definition: ast.Definition, arguments: dict[str, Value]) -> None:
    """Bind the parameters of a net to the given arguments or to their defaults.

    Reports unknown parameters (A0203) and missing arguments (A0207). Raises ArchError (A1202) for Python values
    that the language does not have.
    """
    names = [param.name.text for param in definition.params]
    for name in arguments:
        if name not in names:
            hint = suggest(name, names) or (f"it has {', '.join(names)}" if names else "it has none")
            context.error("A0203", f"net `{definition.name}` has no parameter `{name}`", definition.name.span, hint)
    for param in definition.params:
        name = param.name.text
        if name in arguments:
            value = _static(arguments[name], name)
        elif param.default is not None:
            value = context.eval(param.default)
        else:
            value = context.error("A0207", f"net `{definition.name}` needs `{name}`", param.name.span, f"-p {name}=...")
        context.frame.env[name] = value
        context.graph.parameters[name] = value


def _static(value: Value, name: str, depth: int = 0) -> Value:
    """Convert a Python value to a value of the language. Raises ArchError (A1202) if there is no equivalent."""
    if isinstance(value, (list, tuple)) and depth < MAX_NESTING:
        return Items(_static(item, name, depth + 1) for item in value)
    match value:
        case int() if value.bit_length() > MAX_BITS:
            problem = "is too long a number"
        case float() if not isfinite(value):
            problem = f"is {value}: numbers are finite"
        case list() | tuple():
            problem = f"nests deeper than {MAX_NESTING} levels"
        case dict() | set() | bytes():
            problem = "is neither a number, nor text, nor a list of them"
        case _:
            return value
    raise fail("A1202", f"the parameter `{name}` {problem}")
