"""Names in a syntax tree: names of costs, names that a body assigns, and names that it reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

from archir.language.syntax import ast

COST_DEFAULTS: dict[str, dict[str, int | str | None]] = {
    "flops": {},
    "macs_conv_linear": {},
    "weight_bytes": {"dtype": "f32"},
    "kv_bytes": {"batch": 1, "context": None, "dtype": "f16"},
    "prefill_macs": {"context": None},
    "decode_macs": {"context": None},
    "sram_bytes": {},
    "flash_bytes": {},
}
"""Costs that are computed only where they are asked for, and the defaults of their arguments; a context of None is the
network's own."""
COSTS = ("params", "macs", "activation_bytes", "kernels", "peak_bytes", *COST_DEFAULTS)
"""Names that stand for costs of an architecture in a `require`."""
LATENCY = "latency"
"""Name of the function for latencies in a `require`: `latency("cpu.json")` is a cost in nanoseconds by that table."""


def latency_name(file: str, confidence: float | None = None) -> str:
    """Return the name of the cost by the file of a table or a model."""
    return f'{LATENCY}("{file}")' if confidence is None else f'{LATENCY}("{file}", confidence={confidence:g})'


def latency_file(name: str) -> str | None:
    """Return the file in the name of a cost, such as `latency("cpu.json")`; None for other names."""
    match = _LATENCY.fullmatch(name)
    return match and match[1]


def latency_confidence(name: str) -> float | None:
    """Return the confidence in the name of a cost, such as `latency("cpu.json", confidence=0.95)`; None without one.

    It is the probability with which a network is no slower than the cost says.
    """
    match = _LATENCY.fullmatch(name)
    return None if match is None or match[2] is None else float(match[2])


_LATENCY = re.compile(rf'{LATENCY}\("(.*?)"(?:,\s*confidence\s*=\s*(\d+(?:\.\d+)?))?\)', re.DOTALL)


def assigned(tree: Any) -> Iterator[str]:
    """Yield the names that are assigned anywhere in a body."""
    for part in walk(tree):
        match part:
            case ast.Assign() | ast.ForLoop() | ast.For():
                yield from (target.text for target in part.targets)
            case ast.Repeat(index=ast.Name() as index):
                yield index.text
            case ast.Input():
                yield part.name.text
            case ast.ChooseSubset(label=ast.Name() as label, where=ast.Expr()):
                yield label.text
            case ast.Require():
                yield from (*COSTS, LATENCY)


def walk(tree: Any) -> Iterator[ast.Tree]:
    """Yield every syntax node in which names are read, in the order of the text."""
    stack = [tree]
    while stack:
        part = stack.pop()
        if type(part) is tuple:
            stack += part[::-1]
        elif isinstance(part, ast.Tree):
            yield part
            stack += [getattr(part, name) for name in _reading_fields(type(part).__name__)]


def names_read(tree: Any) -> frozenset[str]:
    """Return the names that are read anywhere in a syntax tree."""
    return frozenset(part.text for part in walk(tree) if isinstance(part, ast.Name))


_DEFINING_FIELDS: dict[type[ast.Tree], tuple[str, ...]] = {
    ast.Definition: ("name",),
    ast.Param: ("name",),
    ast.Argument: ("name",),
    ast.Attribute: ("name",),
    ast.Alternative: ("name",),
    ast.ChooseValue: ("label",),
    ast.ChooseOne: ("label",),
    ast.ChooseSubset: ("label",),
    ast.Type: ("dtype",),
    ast.Input: ("name",),
    ast.Output: ("name",),
    ast.Assign: ("targets",),
    ast.ForLoop: ("targets",),
    ast.For: ("targets",),
    ast.Repeat: ("index",),
}
"""Fields that define names rather than read them, by class of syntax node."""


@cache
def _reading_fields(name: str) -> tuple[str, ...]:
    """Return the fields of a class of syntax nodes in which names are read, last field first."""
    kind_of = getattr(ast, name)
    excluded = ("span", "depth", *_DEFINING_FIELDS.get(kind_of, ()))
    return tuple(field.name for field in reversed(fields(kind_of)) if field.name not in excluded)
