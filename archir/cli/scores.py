"""Command `archir scores`: compute additive scores of alternatives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from archir.api import searching
from archir.cli.net_arguments import space_of
from archir.cli.options import file_argument, force_option, json_option, net_options
from archir.cli.output import emit, say, table
from archir.cli.param_types import Integer, OutputFile
from archir.language.elaboration.context import Limits

SOURCES = ("trials", "logits", "supernet", "cost", "proxy")


@click.command("scores")
@file_argument
@click.option("--trials", metavar="RUN", help="Fit a model to the trials of RUN (or RUN:PHASE).")
@click.option("--pairs", is_flag=True, help="With --trials: also fit a score for each pair of choices.")
@click.option("--logits", metavar="RUN", help="Use the final log-probabilities of a differentiable search.")
@click.option(
    "--supernet",
    metavar="RUN",
    help="Score each alternative by itself in the largest network, with the supernet weights of RUN.",
)
@click.option(
    "--samples", type=Integer(1), help="With --supernet: number of samples to score on [all validation samples]."
)
@click.option("--cost", metavar="COST", help="Score each alternative by itself, by its negated cost.")
@click.option(
    "--proxy",
    metavar="NAME",
    help="Score each alternative by itself, by a zero-cost proxy of untrained networks: naswot, ...",
)
@click.option("--score", metavar="MEASURE", help="With --trials or --supernet: the measure to use [accuracy].")
@force_option
@click.option("-o", "--output", type=OutputFile(), required=True, help="JSON file to write.")
@net_options
@json_option
def scores_command(
    file: str, trials: str | None, pairs: bool, logits: str | None, supernet: str | None, samples: int | None,
    cost: str | None, proxy: str | None, score: str | None, output: Path, parameters: dict[str, Any], root: Path | None,
    limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Compute a score for each alternative of FILE and write them as JSON; an architecture's score is their sum.

    \b
    archir scores space.arch --trials runs/search -o scores.json
    archir scores space.arch --proxy naswot -o scores.json
    archir optimize space.arch --maximize scores.json --where "macs <= 0.5x"

    Give exactly one source: --trials, --logits, --supernet, --cost or --proxy. A higher score is better for every
    source: costs and losses are negated.
    """
    source_options = {"trials": trials, "logits": logits, "supernet": supernet, "cost": cost, "proxy": proxy}
    if sum(value is not None for value in source_options.values()) != 1:
        raise click.UsageError(f"give exactly one source: {', '.join(f'--{name}' for name in SOURCES)}")
    if pairs and trials is None:
        raise click.UsageError("--pairs needs --trials")
    if samples is not None and supernet is None:
        raise click.UsageError("--samples needs --supernet")
    if score is not None and trials is None and supernet is None:
        raise click.UsageError("--score needs --trials or --supernet")
    space = space_of(file, parameters, root, limits)
    scores = searching.scores(
        space, trials=trials, logits=logits, supernet=supernet, cost=cost, proxy=proxy, score=score or "accuracy",
        pairs=pairs, samples=samples,
    )  # fmt: skip
    scores.write(output, space)
    if as_json:
        emit({"space": space.name, "terms": len(scores.terms), "made": dict(scores.made)})
        return
    table(
        "",
        ["scores", "of"],
        [(str(value), name.replace("_", " ")) for name, value in scores.made.items() if value is not None],
    )
    say(f"{output}: {len(scores.terms):,} terms")
