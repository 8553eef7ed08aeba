"""`archir scores`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from archir import api
from archir.cli.kinds import Output
from archir.cli.options import file_argument, force_option, json_option, net_options
from archir.cli.output import emit, say, table
from archir.cli.subject import space_of
from archir.language.elaboration.context import Limits

SOURCES = ("trials", "logits", "supernet", "cost", "proxy")


@click.command("scores")
@file_argument
@click.option("--trials", metavar="RUN", help="A model fitted to what RUN (or RUN:PHASE) tried.")
@click.option("--pairs", is_flag=True, help="With --trials: a score for each pair of choices, too.")
@click.option("--logits", metavar="RUN", help="Log-probabilities that a differentiable search came to.")
@click.option("--supernet", metavar="RUN", help="Each alternative alone in the largest network, with RUN's weights.")
@click.option(
    "--samples", type=click.IntRange(1), help="With --supernet: samples that are scored [all for validation]."
)
@click.option("--cost", metavar="COST", help="Each alternative alone, by the opposite of a cost.")
@click.option("--proxy", metavar="NAME", help="Each alternative alone, by a score of untrained networks: naswot, ...")
@click.option("--score", help="With --trials and --supernet: the score that counts [accuracy].")
@force_option
@click.option("-o", "--output", type=Output(), required=True, help="The file to write.")
@net_options
@json_option
def scores_command(
    file: str, trials: str | None, pairs: bool, logits: str | None, supernet: str | None, samples: int | None,
    cost: str | None, proxy: str | None, score: str | None, output: Path, parameters: dict[str, Any], root: Path | None,
    limits: Limits, as_json: bool,
) -> None:  # fmt: skip
    """Scores of the alternatives of FILE that add up to an architecture's, as JSON.

    One source is named: --trials, --logits, --supernet, --cost or --proxy. More is better in all of them: costs and
    losses count with the opposite sign.
    """
    given = {"trials": trials, "logits": logits, "supernet": supernet, "cost": cost, "proxy": proxy}
    if sum(value is not None for value in given.values()) != 1:
        raise click.UsageError(f"name one source: {', '.join(f'--{name}' for name in SOURCES)}")
    if pairs and trials is None:
        raise click.UsageError("--pairs goes with --trials")
    if samples is not None and supernet is None:
        raise click.UsageError("--samples goes with --supernet")
    if score is not None and trials is None and supernet is None:
        raise click.UsageError("--score goes with --trials and --supernet")
    space = space_of(file, parameters, root, limits)
    found = api.scores(
        space, trials=trials, logits=logits, supernet=supernet, cost=cost, proxy=proxy, score=score or "accuracy",
        pairs=pairs, samples=samples,
    )  # fmt: skip
    found.write(output, space)
    if as_json:
        emit({"space": space.name, "terms": len(found.terms), "made": dict(found.made)})
        return
    table(
        "",
        ["scores", "of"],
        [(str(value), name.replace("_", " ")) for name, value in found.made.items() if value is not None],
    )
    say(f"{output}: {len(found.terms):,} terms")
