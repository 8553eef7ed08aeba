"""Commands `archir count` and `archir sample`: count and sample the architectures of a space."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from archir.api import searching
from archir.cli.net_arguments import space_of
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
from archir.cli.output import emit, say, table, write
from archir.cli.param_types import SAMPLE_COUNT, Integer, Number, OutputFile
from archir.cli.progress import track_progress
from archir.diagnostics.errors import fail
from archir.diagrams.conditions import describe_condition
from archir.language.elaboration.context import Limits
from archir.utils.counts import count_noun, format_count
from archir.utils.files import write_atomic

if TYPE_CHECKING:
    from archir.ir.graph import Graph
    from archir.spaces.architecture import Architecture
    from archir.spaces.space import Space


@click.command("count")
@file_argument
@click.option("--choices", "list_choices", is_flag=True, help="Also list the choices.")
@click.option("--unique", is_flag=True, help="Also count distinct functions. This enumerates every architecture.")
@where_option
@net_options
@json_option
def count_command(
    file: str, list_choices: bool, unique: bool, where: str | None, parameters: dict[str, Any], root: Path | None,
    limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Count the architectures of a space exactly: all of them, and those that satisfy its `require` statements.

    \b
    archir count space.arch --choices
    archir count space.arch --where "macs <= 600M"
    """
    space = space_of(file, parameters, root, limits, where)
    different = None
    if unique:
        everything = track_progress(space.enumerate(), space.satisfying, "comparing")
        different = sum(1 for _ in space.unique(everything))
    if as_json:
        choices = [
            {"path": c.path, "alternatives": list(c.alternatives), "take": c.k, "tags": sorted(c.tags)}
            for c in space.choices
        ]
        emit(
            {
                "net": space.name,
                "size": space.size,
                "satisfying": space.satisfying,
                "cost_bounds": space.has_cost_bounds,
                "within_bounds": list(space.count()) if space.has_cost_bounds else None,
                "choices": choices,
            }
            | ({"unique": different} if unique else {})
        )
        return
    say(f"{space.name}: {count_noun(space.size, 'architecture')}, {count_noun(len(space.choices), 'choice')}")
    if any(constraint.keyword == "require" and constraint.cost is None for constraint in space.graph.constraints):
        say(f"{format_count(space.satisfying)} of them satisfy the requirements on choices")
    if space.has_cost_bounds:
        space.check_bounds()
        bounds = " and ".join(c.text for c in space.graph.constraints if c.cost is not None)
        least, most = space.count()
        among = format_count(least) if least == most else f"between {format_count(least)} and {format_count(most)}"
        say(f"{among} of them have {bounds}")
    if different is not None:
        say(f"{different:,} of them compute something different")
    if list_choices:
        rows = [
            (
                c.path,
                ", ".join(map(str, c.alternatives)),
                "" if c.k is None else f"{c.k} of",
                " ".join(sorted(c.tags)),
                describe_condition(d.active),
            )
            for c, d in ((decision.choice, decision) for decision in space.order)
        ]
        table("", ["choice", "alternatives", "", "tags", "active"], rows)


@click.command("sample")
@file_argument
@click.option("-n", "count", type=SAMPLE_COUNT, default=1, show_default=True, help="Number of architectures to sample.")
@click.option("--unique", is_flag=True, help="Skip architectures that compute the same as an earlier sample.")
@seed_option
@click.option(
    "--policy", type=click.Choice(["architectures", "choices"]), default="architectures", show_default=True,
    help="Sample uniformly over architectures, or each choice uniformly in turn.",
)  # fmt: skip
@click.option("--by", metavar="PROXY", help="Keep the best by a zero-cost proxy; `archir doctor --all` lists them.")
@click.option("--best", type=Integer(1), help="With --by: number of architectures to keep out of -n  [default: 1]")
@click.option(
    "--at-least",
    type=Number(),
    help="With --by: keep only architectures with at least this score (all, without --best).",
)
@proxy_options
@force_option
@click.option("-o", "--output", type=OutputFile(), help="Write the architectures to this file.")
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
    """Sample architectures of a space as JSON, uniformly among those that satisfy its requirements.

    \b
    archir sample space.arch --seed 3 -o arch.json
    archir sample space.arch -n 100 --where "macs <= 600M"
    archir sample space.arch -n 100 --by naswot --best 5

    With --by PROXY, the -n sampled architectures are scored by a zero-cost proxy, without training. The --best of them,
    or those with a score of at least --at-least, are kept, best first. All networks are initialised with the same seed
    and scored on the same minibatch.
    """
    for option, value in {"--best": best, "--at-least": at_least}.items():
        if value is not None and by is None:
            raise click.UsageError(f"{option} needs --by PROXY")
    if by is None:
        refuse({"data", "batch"}, "only applies to proxies: add --by PROXY")
    space = space_of(file, parameters, root, limits, where)
    rng = random.Random(seed)
    architectures = (
        space.sample_unique(count, rng, policy) if unique else [space.sample(rng, policy) for _ in range(count)]
    )
    scores: list[float] = []
    if by is not None:
        keep = best or (1 if at_least is None else count)
        architectures, scores = _best(
            space, architectures, keep, by, searching.scorer([by], data=data, batch=batch, seed=seed)
        )
        if at_least is not None:
            kept = sum(score >= at_least for score in scores)
            if kept == 0:
                raise fail(
                    "A1119",
                    f"none of {count:,} architectures has {by} >= {at_least:g}; the best one has {scores[0]:g}",
                )
            architectures, scores = architectures[:kept], scores[:kept]
    if len(architectures) == 1:
        text = architectures[0].to_json(space.graph.parameters)
    else:
        text = "".join(
            json.dumps(json.loads(architecture.to_json(space.graph.parameters))) + "\n"
            for architecture in architectures
        )
    for rank, score in enumerate(scores, 1):
        say(f"{by} of number {rank}: {score:.6g}", err=True)
    if output is not None:
        write_atomic(output, text.encode())
        say(f"wrote {output}")
    else:
        write(text)


def _best(
    space: Space, architectures: list[Architecture], best: int, by: str, scorer: Callable[[Graph], dict[str, float]]
) -> tuple[list[Architecture], list[float]]:
    """Return the `best` distinct architectures with the highest proxy scores, in descending order, and their scores."""
    distinct = list(dict.fromkeys(architectures))
    scores = [
        scorer(space.specialize(architecture))[by]
        for architecture in track_progress(distinct, len(distinct), "scoring")
    ]
    ranked = sorted(range(len(distinct)), key=lambda i: -scores[i])[:best]
    return [distinct[i] for i in ranked], [scores[i] for i in ranked]
