"""Command `archir print`: print the value of an expression inside a net."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from archir.api import loading
from archir.api.loading import read_source
from archir.cli.net_arguments import stored_parameters
from archir.cli.options import arch_options, json_option, net_options
from archir.cli.output import emit, say
from archir.diagnostics.errors import ArchError, fail, join_names
from archir.diagnostics.hints import suggest
from archir.diagnostics.work import work_budget
from archir.diagrams.conditions import conjoin
from archir.diagrams.diagram import Value, support, value_at
from archir.diagrams.diagram import outcome_in as when_is
from archir.language.elaboration.context import Limits
from archir.language.elaboration.expression_query import evaluate_expression
from archir.language.elaboration.files import split_net
from archir.spaces.space import Space
from archir.utils.counts import format_count

MAX_SHOWN = 40
"""Maximum number of values that are printed without `--json`."""


@click.command("print")
@click.argument("expression", metavar="EXPRESSION")
@click.argument("file", metavar="FILE[:NET]")
@click.option(
    "--choose", "chosen", metavar="PATH=LABEL", multiple=True,
    help="Only consider architectures in which this choice has this alternative, such as width=16 or 'paths=a,b'; may "
    "be repeated.",
)  # fmt: skip
@arch_options
@net_options
@json_option
def print_command(
    expression: str, file: str, chosen: tuple[str, ...], arch: str | None, seed: int | None,
    parameters: dict[str, Any], root: Path | None, limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Print the value of EXPRESSION at the end of a net, where all of the net's variables are in scope.

    If the value depends on choices, every possible value is printed with the number of architectures that have it. For
    a tensor, its type is printed. --choose restricts the architectures; --arch and --seed select a single one. In a
    file without nets, the expression can use constants and blocks.

    \b
    archir print 'width * 2' net.arch
    archir print 'x |> conv(width, stride=2)' net.arch
    archir print 'len(widths)' net.arch:large --seed 0
    archir print x net.arch --choose width=16 --choose layer.op=skip
    """
    if sum([arch is not None, seed is not None, bool(chosen)]) > 1:
        raise click.UsageError("--arch, --seed and --choose exclude each other")
    stored = loading.architecture(arch) if arch is not None else None
    if stored is not None:
        parameters = {**stored_parameters(stored), **parameters}
    path, net = split_net(file)
    if path != "-" and not Path(path).exists() and Path(split_net(expression)[0]).is_file():
        raise click.UsageError(f"the expression comes first: archir print '{file}' {expression}")
    text, folder = read_source(path)
    answer = evaluate_expression(
        expression, text, path, folder=folder, root=root, net=net, parameters=parameters, limits=limits
    )
    space = Space(answer.graph)
    values: Sequence[tuple[str, str, Value]] = answer.values
    if stored is not None or seed is not None:
        selected = space.architecture(stored.choices) if stored is not None else space.sample(seed or 0)
        values = [(text, kind, True) for text, kind, when in values if value_at(when, selected.outcomes) is True]
    condition = _chosen_condition(space, chosen)
    counts = [_count(space, conjoin(condition, when)) for _, _, when in values]
    reachable = [(*value[:2], count) for value, count in zip(values, counts, strict=True) if count != 0]
    total = _count(space, condition)
    if total == 0:
        raise fail("A1004", "no architecture makes these choices together")
    if as_json:
        named = [{"value": text, "kind": kind, "architectures": count} for text, kind, count in reachable]
        emit({"net": space.name, "of": total, "values": named})
    elif len(reachable) == 1:
        say(reachable[0][0])
    else:
        _print(reachable, total, ", before bounds on costs" if space.has_cost_bounds else "")


def _chosen_condition(space: Space, chosen: Sequence[str]) -> Value:
    """Return the condition that choices have the outcomes required by `--choose PATH=LABEL`.

    Raises ArchError: A1002 (no such choice), A1003 (no such alternative).
    """
    condition: Value = True
    for text in chosen:
        path, equals, label = text.partition("=")
        if not equals:
            raise click.UsageError(f"--choose takes PATH=LABEL, such as width=16, not {text}")
        decision = space.graph.decisions.get(path)
        if decision is None:
            every = list(space.graph.decisions)
            raise fail(
                "A1002", f"`{space.name}` has no choice `{path}`", None, suggest(path, every) or _choices_hint(every)
            )
        choice = decision.choice
        outcome = choice.outcome(label if choice.k is None else label.split(","))
        if outcome is None:
            names = ", ".join(map(str, choice.alternatives))
            wanted = f"one of {names}" if choice.k is None else f"{choice.k} of {names}"
            raise fail("A1003", f"`{path}` is {label}, but must be {wanted}")
        condition = conjoin(condition, conjoin(decision.active, when_is(choice, [outcome])))
    return condition


def _choices_hint(paths: Sequence[str]) -> str:
    """Return the hint that lists the paths of all choices."""
    return f"there are {join_names(paths)}" if paths else "it has no choices"


def _count(space: Space, when: Value) -> int | None:
    """Return the number of architectures that satisfy a condition.

    Returns None if the condition depends on choices that are not part of the space, or if counting exceeds the work
    limit.
    """
    if when is True:
        return space.satisfying
    if any(choice.path not in space.graph.decisions for choice in support(when)):
        return None
    try:
        with work_budget():
            return space.count_where(when)
    except ArchError:
        return None


def _print(values: Sequence[tuple[str, str, int | None]], total: int | None, when: str) -> None:
    """Print each value with the number of architectures that have it."""
    width = max(len(text) for text, _, _ in values[:MAX_SHOWN])
    for text, _, count in values[:MAX_SHOWN]:
        suffix = (
            f"  in {format_count(count)} of {format_count(total)} architectures{when}"
            if count is not None and total
            else ""
        )
        say(f"{text:<{width}}{suffix}" if suffix else text)
    if len(values) > MAX_SHOWN:
        say(f"and {len(values) - MAX_SHOWN:,} more values; --json lists all")
