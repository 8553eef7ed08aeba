"""The names that a body gives values to, and every piece of syntax in which names are read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

from archir.language.syntax import ast

FURTHER: dict[str, dict[str, int | str | None]] = {
    "flops": {},
    "macs_conv_linear": {},
    "weight_bytes": {"dtype": "f32"},
    "kv_bytes": {"batch": 1, "context": None, "dtype": "f16"},
    "prefill_macs": {"context": None},
    "decode_macs": {"context": None},
    "sram_bytes": {},
    "flash_bytes": {},
}
"""Costs that are worked out where they are asked for, and what each takes: a context of None is the network's own."""
COSTS = ("params", "macs", "activation_bytes", "kernels", "peak_bytes", *FURTHER)
"""Names that mean an architecture's costs in a `require`."""
LATENCY = "latency"
"""What a `require` calls with the file of a table, such as `latency("cpu.json")`, for a cost in nanoseconds."""


def latency_name(file: str, confidence: float | None = None) -> str:
    """The name of the cost that the file of a table or a model gives."""
    return f'{LATENCY}("{file}")' if confidence is None else f'{LATENCY}("{file}", confidence={confidence:g})'


def latency_file(name: str) -> str | None:
    """The file in the name of a cost, such as `latency("cpu.json")`; None for other names."""
    found = _LATENCY.fullmatch(name)
    return found and found[1]


def latency_confidence(name: str) -> float | None:
    """With which probability networks are no slower than a cost such as `latency("cpu.json", confidence=0.95)`."""
    found = _LATENCY.fullmatch(name)
    return None if found is None or found[2] is None else float(found[2])


_LATENCY = re.compile(rf'{LATENCY}\("(.*?)"(?:,\s*confidence\s*=\s*(\d+(?:\.\d+)?))?\)', re.DOTALL)


def assigned(tree: Any) -> Iterator[str]:
    """Names that are given a value anywhere in a body."""
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
    """Every piece of syntax in which names are read, in the order of the text."""
    ahead = [tree]
    while ahead:
        part = ahead.pop()
        if type(part) is tuple:
            ahead += part[::-1]
        elif isinstance(part, ast.Tree):
            yield part
            ahead += [getattr(part, name) for name in _read(type(part).__name__)]


def names_read(tree: Any) -> frozenset[str]:
    """The names that are read anywhere in a piece of syntax."""
    return frozenset(part.text for part in walk(tree) if isinstance(part, ast.Name))


_GIVING: dict[type[ast.Tree], tuple[str, ...]] = {
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
"""Fields that give names rather than read them."""


@cache
def _read(name: str) -> tuple[str, ...]:
    """Fields of a class of trees in which names are read, the last one first."""
    kind_of = getattr(ast, name)
    giving = ("span", "depth", *_GIVING.get(kind_of, ()))
    return tuple(field.name for field in reversed(fields(kind_of)) if field.name not in giving)
