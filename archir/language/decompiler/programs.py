"""Blocks and nets as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING
from typing import Any

from archir.language.decompiler.outline import Body, Expr, Item, Name, Size, Times, filled, parts, rewritten, values
from archir.language.decompiler.statements import Statement, trees
from archir.language.decompiler.usual import Defaults
from archir.language.decompiler.wrapping import wrapped
from archir.language.decompiler.writer import Writer
from archir.language.source import literal


def bound(body: Body, taken: Iterable[str]) -> tuple[tuple[Item, ...], dict[str, Expr]]:
    """Statements with names for multiples of the input's channels that come more than once, and what these are."""
    counts: Counter[Expr] = Counter()
    for _, _, value in values(body.items):
        multiples = {part for part in parts(value) if isinstance(part, Times)}
        counts.update({one for one in multiples if isinstance(one.of, Size) and one.of.value in body.inputs})
    found: dict[Expr, str] = {}
    for part, often in counts.items():
        if often > 1:
            free = (name for name in ("inner", *(f"inner_{i}" for i in range(2, 1_000))) if name not in taken)
            found[part] = next(name for name in free if name not in found.values())
    swap = [rewritten(v, lambda p: Name(found[p]) if p in found else p) for _, _, v in values(body.items)]
    return filled(body.items, iter(swap)), {name: part for part, name in found.items()}


def block(name: str, body: Body, defaults: Mapping[str, Any], all_defaults: Defaults, taken: Iterable[str]) -> str:
    """The text of a block."""
    writer = Writer(all_defaults, (*taken, *defaults))
    inputs = []
    for number in body.inputs:
        live = set(body.inputs)
        inputs.append(writer.name(number, live, "x"))
    given = [*inputs, *(n if d is MISSING else f"{n} = {literal(d)}" for n, d in defaults.items())]
    items, local = bound(body, (*writer.taken, *defaults))
    writer.taken |= local.keys()
    statements = wrapped(trees(items, body.outputs), writer.length)
    writer.lines.append(f"block {name}({', '.join(given)}) {{")
    for variable, value in local.items():
        writer.line(f"{variable} = {writer.expression(value)}")
    last = statements[-1] if statements else None
    if last is not None and last.tree is not None and last.writes == body.outputs and len(body.outputs) == 1:
        writer.body(statements[:-1], last.needs(), {})
        writer.line(f"return {writer.text(last.tree)[0]}")
    else:
        writer.body(statements, set(body.outputs), {})
        writer.line(f"return {', '.join(writer.names[number] for number in body.outputs)}")
    writer.lines.append("}")
    return "\n".join(writer.lines)


def net(
    name: str, inputs: Mapping[str, tuple[int, str]], outputs: Mapping[str, int], items: Sequence[Item],
    all_defaults: Defaults, taken: Iterable[str],
) -> str:  # fmt: skip
    """The text of a net; inputs by label with their types."""
    writer = Writer(all_defaults, (*taken, *outputs, *inputs))
    writer.lines.append(f"net {name} {{")
    for label, (number, type_) in inputs.items():
        writer.names[number] = label
        writer.line(f"input {label}: {type_}")
    results = list(outputs.values())
    longest = max(map(len, outputs), default=0)
    statements = wrapped(trees(items, results), writer.length, last=len("output  = x") + longest)
    last: dict[int, Statement] = {}
    while (
        statements
        and statements[-1].tree is not None
        and len(statements[-1].writes) == 1
        and results.count(statements[-1].writes[0]) == 1
        and not any(statements[-1].writes[0] in one.needs() for one in last.values())
    ):
        statement = statements.pop()
        last[statement.writes[0]] = statement
    after = {number for number in results if number not in last} | {n for one in last.values() for n in one.needs()}
    writer.body(statements, after, {})
    for label, number in outputs.items():
        tree = last[number].tree if number in last else None
        writer.line(f"output {label} = {writer.text(tree)[0] if tree is not None else writer.names[number]}")
    writer.lines.append("}")
    return "\n".join(writer.lines)
