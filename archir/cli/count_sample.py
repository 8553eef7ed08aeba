"""`archir count` and `archir sample`."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archir import api
from archir.cli.kinds import DRAWS, Finite, Output
from archir.cli.options import (
    file_argument,
    force_option,
    json_option,
    net_options,
    proxy_options,
    refuse,
    seed_option,
    where_option,
)
from archir.cli.output import big, counted, emit, say, table, write
from archir.cli.progress import tracked
from archir.cli.subject import space_of
from archir.diagnostics.errors import fail
from archir.diagrams.conditions import told
from archir.language.elaboration.context import Limits
from archir.utils.files import write_atomic

if TYPE_CHECKING:
    from archir.ir.graph import Graph
    from archir.spaces.architecture import Architecture
    from archir.spaces.space import Space


@click.command("count")
@file_argument
@click.option("--choices", "list_choices", is_flag=True, help="List the choices.")
@click.option("--unique", is_flag=True, help="Count those that compute something different, too; this lists them all.")
@where_option
@net_options
@json_option
def count_command(
    file: str, list_choices: bool, unique: bool, where: str | None, parameters: dict[str, Any], root: Path | None,
    limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Count the architectures of a space, exactly: all of them, and those that satisfy its `require` lines."""
    space = space_of(file, parameters, root, limits, where)
    different = None
    if unique:
        everything = tracked(space.enumerate(), space.satisfying, "comparing")
        different = sum(1 for _ in space.unique(everything))
    if as_json:
        choices = [
            {"path": c.path, "alternatives": list(c.alternatives), "take": c.take, "tags": sorted(c.tags)}
            for c in space.choices
        ]
        emit(
            {
                "net": space.name,
                "size": space.size,
                "satisfying": space.satisfying,
                "cost_bounds": space.bounded,
                "within_bounds": list(space.count()) if space.bounded else None,
                "choices": choices,
            }
            | ({"unique": different} if unique else {})
        )
        return
    say(f"{space.name}: {counted(space.size, 'architecture')}, {counted(len(space.choices), 'choice')}")
    if any(constraint.word == "require" and constraint.cost is None for constraint in space.graph.constraints):
        say(f"{big(space.satisfying)} of them satisfy the requirements on choices")
    if space.bounded:
        space.prove()
        bounds = " and ".join(c.text for c in space.graph.constraints if c.cost is not None)
        least, most = space.count()
        among = big(least) if least == most else f"between {big(least)} and {big(most)}"
        say(f"{among} of them have {bounds}")
    if different is not None:
        say(f"{different:,} of them compute something different")
    if list_choices:
        rows = [
            (
                c.path,
                ", ".join(map(str, c.alternatives)),
                "" if c.take is None else f"{c.take} of",
                " ".join(sorted(c.tags)),
                told(d.active),
            )
            for c, d in ((decision.choice, decision) for decision in space.order)
        ]
        table("", ["choice", "alternatives", "", "tags", "active"], rows)


@click.command("sample")
@file_argument
@click.option("-n", "count", type=DRAWS, default=1, show_default=True, help="How many architectures.")
@click.option("--unique", is_flag=True, help="Draw on while architectures compute the same as one before.")
@seed_option
@click.option(
    "--policy", type=click.Choice(["architectures", "choices"]), default="architectures", show_default=True,
    help="Uniform over architectures, or every choice uniform from the first to the last.",
)  # fmt: skip
@click.option("--by", metavar="PROXY", help="Keep the best by a zero-cost proxy; `archir doctor` lists them.")
@click.option("--best", type=click.IntRange(1), help="How many of the -n to keep, with --by  [default: 1]")
@click.option(
    "--at-least", type=Finite(), help="Keep only scores of at least that, with --by; without --best, all of them."
)
@proxy_options
@force_option
@click.option("-o", "--output", type=Output(), help="Write the architecture to a file.")
@where_option
@net_options
def sample_command(
    file: str,
    count: int,
    unique: bool,
    seed: int,
    policy: Any,
    by: str | None,
    best: int | None,
    at_least: float | None,
    data: str,
    batch: int,
    output: Path | None,
    where: str | None,
    parameters: dict[str, Any],
    root: Path | None,
    limits: Limits,
) -> None:
    """Draw architectures of a space, uniformly among those that satisfy its requirements, as JSON.

    With --by, the -n that were drawn are scored untrained, and the --best of them kept, or those that score --at-least
    so much, the best first; all start from weights of the same seed and see the same minibatch.
    """
    for option, given in {"--best": best, "--at-least": at_least}.items():
        if given is not None and by is None:
            raise click.UsageError(f"{option} needs --by PROXY")
    if by is None:
        refuse({"data", "batch"}, "is for proxies: add --by PROXY")
    space = space_of(file, parameters, root, limits, where)
    rng = random.Random(seed)
    found = space.sample_unique(count, rng, policy) if unique else [space.sample(rng, policy) for _ in range(count)]
    scores: list[float] = []
    if by is not None:
        most = best or (1 if at_least is None else count)
        found, scores = _best(space, found, most, by, api.scorer([by], data=data, batch=batch, seed=seed))
        if at_least is not None:
            kept = sum(score >= at_least for score in scores)
            if kept == 0:
                raise fail(
                    "A1119", f"no {by} of {count:,} architectures is {at_least:g} or more; the best is {scores[0]:g}"
                )
            found, scores = found[:kept], scores[:kept]
    if len(found) == 1:
        text = found[0].to_json(space.graph.parameters)
    else:
        text = "".join(json.dumps(json.loads(one.to_json(space.graph.parameters))) + "\n" for one in found)
    for place, score in enumerate(scores, 1):
        say(f"{by} of number {place}: {score:.6g}", err=True)
    if output is not None:
        write_atomic(output, text.encode())
        say(f"wrote {output}")
    else:
        write(text)


def _best(
    space: Space, found: list[Architecture], best: int, by: str, scorer: Callable[[Graph], dict[str, float]]
) -> tuple[list[Architecture], list[float]]:
    """The best of some architectures by a proxy, each once, the best first, and their scores."""
    distinct = list(dict.fromkeys(found))
    scores = [scorer(space.specialize(one))[by] for one in tracked(distinct, len(distinct), "scoring")]
    ranked = sorted(range(len(distinct)), key=lambda i: -scores[i])[:best]
    return [distinct[i] for i in ranked], [scores[i] for i in ranked]
