"""`archir eval`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from archir import api
from archir.api.loading import source
from archir.cli.options import arch_options, json_option, net_options
from archir.cli.output import big, emit, say
from archir.cli.subject import given_parameters
from archir.diagnostics.errors import ArchError, fail, listed, suggest
from archir.diagnostics.work import bounded
from archir.diagrams.cases import Value, at, support
from archir.diagrams.cases import when as when_is
from archir.diagrams.conditions import both
from archir.language.elaboration.asking import asked
from archir.language.elaboration.context import Limits
from archir.language.elaboration.files import split
from archir.spaces.space import Space

MOST_SHOWN = 40


@click.command("eval")
@click.argument("expression", metavar="EXPRESSION")
@click.argument("file", metavar="FILE[:NET]")
@click.option(
    "--choose", "chosen", metavar="PATH=LABEL", multiple=True,
    help="Only architectures in which a choice came to this, such as width=16 or 'paths=a,b'; may be repeated.",
)  # fmt: skip
@arch_options
@net_options
@json_option
def eval_command(
    expression: str, file: str, chosen: tuple[str, ...], arch: str | None, seed: int | None,
    parameters: dict[str, Any], root: Path | None, limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Print what an EXPRESSION comes to at the end of a net, where its variables are known.

    A value that depends on choices is printed as all that it may be, each with how many architectures have it; of a
    tensor, its type is. --choose leaves out some of them; --arch and --seed take one architecture. Of a file without
    nets, constants and blocks are known.

    \b
    archir eval 'width * 2' net.arch
    archir eval 'x |> conv(width, stride=2)' net.arch
    archir eval 'len(widths)' net.arch:large --seed 0
    archir eval x net.arch --choose width=16 --choose layer.op=skip
    """
    if sum([arch is not None, seed is not None, bool(chosen)]) > 1:
        raise click.UsageError("--arch, --seed and --choose exclude each other")
    written = api.architecture(arch) if arch is not None else None
    if written is not None:
        parameters = {**given_parameters(written), **parameters}
    path, net = split(file)
    if path != "-" and not Path(path).exists() and Path(split(expression)[0]).is_file():
        raise click.UsageError(f"the expression comes first: archir eval '{file}' {expression}")
    text, folder = source(path)
    answer = asked(expression, text, path, folder=folder, root=root, net=net, parameters=parameters, limits=limits)
    space = Space(answer.graph)
    values: Sequence[tuple[str, str, Value]] = answer.values
    if written is not None or seed is not None:
        one = space.architecture(written.choices) if written is not None else space.sample(seed or 0)
        values = [(text, kind, True) for text, kind, when in values if at(when, one.outcomes) is True]
    given = _given(space, chosen)
    counts = [_count(space, both(given, when)) for _, _, when in values]
    found = [(*value[:2], count) for value, count in zip(values, counts, strict=True) if count != 0]
    total = _count(space, given)
    if total == 0:
        raise fail("A1004", "no architecture makes these choices together")
    if as_json:
        named = [{"value": text, "kind": kind, "architectures": count} for text, kind, count in found]
        emit({"net": space.name, "of": total, "values": named})
    elif len(found) == 1:
        say(found[0][0])
    else:
        _print(found, total, ", before bounds on costs" if space.bounded else "")


def _given(space: Space, chosen: Sequence[str]) -> Value:
    """The condition that choices came to labels. Raises ArchError (A1002, A1003)."""
    given: Value = True
    for text in chosen:
        path, equals, label = text.partition("=")
        if not equals:
            raise click.UsageError(f"--choose takes PATH=LABEL, such as width=16, not {text}")
        decision = space.graph.decisions.get(path)
        if decision is None:
            every = list(space.graph.decisions)
            raise fail("A1002", f"`{space.name}` has no choice `{path}`", None, suggest(path, every) or _listed(every))
        choice = decision.choice
        outcome = choice.outcome(label if choice.take is None else label.split(","))
        if outcome is None:
            names = ", ".join(map(str, choice.alternatives))
            wanted = f"one of {names}" if choice.take is None else f"{choice.take} of {names}"
            raise fail("A1003", f"`{path}` is {label}, but must be {wanted}")
        given = both(given, both(decision.active, when_is(choice, [outcome])))
    return given


def _listed(paths: Sequence[str]) -> str:
    return f"there are {listed(paths)}" if paths else "it has no choices"


def _count(space: Space, when: Value) -> int | None:
    """In how many architectures a condition holds; None where it is about choices that no architecture makes."""
    if when is True:
        return space.satisfying
    if any(choice.path not in space.graph.decisions for choice in support(when)):
        return None
    try:
        with bounded():
            return space.holding(when)
    except ArchError:
        return None


def _print(found: Sequence[tuple[str, str, int | None]], total: int | None, when: str) -> None:
    width = max(len(text) for text, _, _ in found[:MOST_SHOWN])
    for text, _, count in found[:MOST_SHOWN]:
        known = f"  in {big(count)} of {big(total)} architectures{when}" if count is not None and total else ""
        say(f"{text:<{width}}{known}" if known else text)
    if len(found) > MOST_SHOWN:
        say(f"and {len(found) - MOST_SHOWN:,} more values; --json lists all")
