"""Prints block and net definitions of decompiled programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING
from typing import Any

from archir.language.decompiler.parameters import Defaults
from archir.language.decompiler.program_tree import (
    Body,
    Expr,
    Item,
    Multiple,
    ParameterRef,
    Size,
    expressions_in,
    rewrite,
    subexpressions,
    with_expressions,
)
from archir.language.decompiler.statements import Statement, group_steps, wrap_statements
from archir.language.decompiler.writer import Writer
from archir.language.literals import literal


def name_multiples(body: Body, taken: Iterable[str]) -> tuple[tuple[Item, ...], dict[str, Expr]]:
    """Introduce variables for multiples of input channels that occur repeatedly.

    Returns the rewritten statements, and the expression of each variable by name.
    """
    counts: Counter[Expr] = Counter()
    for _, _, value in expressions_in(body.items):
        multiples = {part for part in subexpressions(value) if isinstance(part, Multiple)}
        counts.update(
            {multiple for multiple in multiples if isinstance(multiple.of, Size) and multiple.of.value in body.inputs}
        )
    names: dict[Expr, str] = {}
    for part, count in counts.items():
        if count > 1:
            free = (name for name in ("inner", *(f"inner_{i}" for i in range(2, 1_000))) if name not in taken)
            names[part] = next(name for name in free if name not in names.values())
    swap = [rewrite(v, lambda p: ParameterRef(names[p]) if p in names else p) for _, _, v in expressions_in(body.items)]
    return with_expressions(body.items, iter(swap)), {name: part for part, name in names.items()}


def block_text(name: str, body: Body, defaults: Mapping[str, Any], all_defaults: Defaults, taken: Iterable[str]) -> str:
    """Return the source text of a block.

    `defaults` are the defaults of the block's own parameters; `all_defaults` has the defaults of all blocks, which are
    needed for the calls in the body.
    """
    writer = Writer(all_defaults, (*taken, *defaults))
    inputs = []
    for number in body.inputs:
        live = set(body.inputs)
        inputs.append(writer.new_name(number, live, "x"))
    signature = [*inputs, *(n if d is MISSING else f"{n} = {literal(d)}" for n, d in defaults.items())]
    items, local = name_multiples(body, (*writer.taken, *defaults))
    writer.taken |= local.keys()
    statements = wrap_statements(group_steps(items, body.outputs), writer.length)
    writer.lines.append(f"block {name}({', '.join(signature)}) {{")
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


def net_text(
    name: str, inputs: Mapping[str, tuple[int, str]], outputs: Mapping[str, int], items: Sequence[Item],
    all_defaults: Defaults, taken: Iterable[str],
) -> str:  # fmt: skip
    """Return the source text of a net; `inputs` maps each label to the number and the type of the input value."""
    writer = Writer(all_defaults, (*taken, *outputs, *inputs))
    writer.lines.append(f"net {name} {{")
    for label, (number, type_) in inputs.items():
        writer.names[number] = label
        writer.line(f"input {label}: {type_}")
    results = list(outputs.values())
    longest = max(map(len, outputs), default=0)
    statements = wrap_statements(group_steps(items, results), writer.length, last=len("output  = x") + longest)
    last: dict[int, Statement] = {}
    while (
        statements
        and statements[-1].tree is not None
        and len(statements[-1].writes) == 1
        and results.count(statements[-1].writes[0]) == 1
        and not any(statements[-1].writes[0] in final.needs() for final in last.values())
    ):
        statement = statements.pop()
        last[statement.writes[0]] = statement
    after = {number for number in results if number not in last} | {n for final in last.values() for n in final.needs()}
    writer.body(statements, after, {})
    for label, number in outputs.items():
        tree = last[number].tree if number in last else None
        writer.line(f"output {label} = {writer.text(tree)[0] if tree is not None else writer.names[number]}")
    writer.lines.append("}")
    return "\n".join(writer.lines)
