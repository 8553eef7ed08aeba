"""`archir eval`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from archir import api
from archir.api.loading import source
from archir.base.errors import ArchError
from archir.base.work import bounded
from archir.cli.options import arch_options, json_option, net_options
from archir.cli.output import big, emit, say
from archir.cli.subject import given_parameters
from archir.ir.choices.cases import Value, at, support
from archir.language.elaboration.asking import asked
from archir.language.elaboration.context import Limits
from archir.language.elaboration.files import split
from archir.search.spaces.counting import compile_program
from archir.search.spaces.space import Space

MOST_SHOWN = 40


@click.command("eval")
@click.argument("expression", metavar="EXPRESSION")
@click.argument("file", metavar="FILE[:NET]")
@arch_options
@net_options
@json_option
def eval_command(
    expression: str, file: str, arch: str | None, seed: int | None, parameters: dict[str, Any], root: Path | None,
    limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Print what an EXPRESSION comes to at the end of a net, where its variables are known.

    A value that depends on choices is printed as all that it may be, each with how many architectures have it; of a
    tensor, its type is. --arch and --seed take one architecture instead. Of a file without nets, constants and blocks
    are known.

    \b
    archir eval 'width * 2' net.arch
    archir eval 'x |> conv(width, stride=2)' net.arch
    archir eval 'len(widths)' net.arch:large --seed 0
    """
    if arch is not None and seed is not None:
        raise click.UsageError("--arch and --seed exclude each other")
    written = api.architecture(arch) if arch is not None else None
    if written is not None:
        parameters = {**given_parameters(written), **parameters}
    path, net = split(file)
    text, folder = source(path)
    answer = asked(expression, text, path, folder=folder, root=root, net=net, parameters=parameters, limits=limits)
    space = Space(answer.graph)
    values: Sequence[tuple[str, str, Value]] = answer.values
    if written is not None or seed is not None:
        one = space.architecture(written.choices) if written is not None else space.sample(seed or 0)
        values = [(text, kind, True) for text, kind, when in values if at(when, one.outcomes) is True]
    counts = [_count(space, when) for _, _, when in values]
    found = [(*value[:2], count) for value, count in zip(values, counts, strict=True) if count != 0]
    if as_json:
        named = [{"value": text, "kind": kind, "architectures": count} for text, kind, count in found]
        emit({"net": space.name, "of": space.satisfying, "values": named})
    elif len(found) == 1:
        say(found[0][0])
    else:
        _print(found, space.satisfying)


def _count(space: Space, when: Value) -> int | None:
    """In how many architectures a condition holds; None where it is about choices that no architecture makes."""
    if when is True:
        return space.satisfying
    if any(choice.path not in space.graph.decisions for choice in support(when)):
        return None
    try:
        with bounded():
            conditions = [one.condition for one in space.graph.constraints if one.cost is None]
            return compile_program(space.order, [*conditions, when]).size
    except ArchError:
        return None


def _print(found: Sequence[tuple[str, str, int | None]], total: int) -> None:
    width = max(len(text) for text, _, _ in found[:MOST_SHOWN])
    for text, _, count in found[:MOST_SHOWN]:
        say(f"{text:<{width}}  in {big(count)} of {big(total)} architectures" if count is not None else text)
    if len(found) > MOST_SHOWN:
        say(f"and {len(found) - MOST_SHOWN:,} more values; --json lists all")
