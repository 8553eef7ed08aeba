"""Scores of alternatives one by one: what is best by them within a bound, beside networks that are drawn within it.

    python benchmarks/scores.py [--part 0.5] [--draws 50]

A supernet of `SPACE` is trained on the digits. Each alternative is put alone into the largest network and scored with
the supernet's weights, on samples for validation. The best sum within the bound is found exactly: choice by choice, of
the ways that lead to a state, those are kept than which none is both cheaper and better. All networks have the
supernet's weights, and are measured on held-out samples, by which nothing was chosen. Norms need no statistics.
"""

from __future__ import annotations

import argparse
import tempfile
from fractions import Fraction
from pathlib import Path
from statistics import median

import torch
from measure import Table, machine

import archir
from archir.search.recipes.spaces import space_of
from archir.search.reuse.borrowing import supernet_of
from archir.search.reuse.specializing import trained
from archir.search.scores.table import Scores
from archir.search.spaces.architecture import Architecture
from archir.search.spaces.partial import largest
from archir.search.spaces.space import Space
from archir_torch.lowering.weights import read_weights
from archir_torch.search.inheritance import restored
from archir_torch.search.job import Job
from archir_torch.search.preparation import images, of_run
from archir_torch.search.task import Task
from archir_torch.supernet.network import extract

SPACE = """
net stack(width = 16, layers = 4) {
    input image: f32[1, 8, 8]
    x = image |> conv(width) |> group_norm(groups=4) |> relu
    for i in 0..layers {
        y = x |> choose op {
            conv3:     conv(width) |> group_norm(groups=4)
            conv5:     conv(width, kernel=5) |> group_norm(groups=4)
            depthwise: conv(width, groups=width) |> conv(width, kernel=1) |> group_norm(groups=4)
            pointwise: conv(width, kernel=1) |> group_norm(groups=4)
            skip:      zero
        }
        x = relu(x + y)
    }
    output logits = x |> global_avg_pool |> linear(10)
}
"""
RECIPE = """
title = "A supernet of digits"
space = "space.arch"
threads = 1

[data]
source = "digits"
weights = 0.8

[[phase]]
name = "supernet"
strategy = "spos"
training = { epochs = 60, batch = 32 }
weights = { kind = "adamw", lr = 4e-3, weight_decay = 0.01, warmup_epochs = 1, clip = 1.0 }
options = { evaluate_every = 60 }
"""
Way = tuple[int, Fraction, tuple[int, ...]]
"""A cost, a score, and the outcomes so far."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", type=float, default=0.5, help="of the most multiply-accumulates that are allowed")
    parser.add_argument("--draws", type=int, default=50)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "space.arch").write_text(SPACE)
        (folder / "recipe.toml").write_text(RECIPE)
        archir.run(folder / "recipe.toml", folder / "run", device="cpu")
        compare(archir.load(folder / "space.arch"), str(folder / "run"), given.part, given.draws)


def compare(space: Space, run: str, part: float, draws: int) -> None:
    """Print what is best by the scores, and what is drawn."""
    scores = archir.scores(space, supernet=run)
    allowed = int(part * space.account.extremes("macs")[1].value)
    chosen, predicted = best(space, scores, allowed)
    within = space.where(f"macs <= {allowed}")
    drawn = [within.sample(seed) for seed in range(draws)]
    measured = held_out(run, space, [largest(space), chosen, *drawn])
    whole, own, *others = measured
    costs = space.cost([largest(space), chosen, *drawn], ["macs", "params"])
    title = f"Held-out accuracy with the supernet's weights; multiply-accumulates at most {allowed:,}"
    table = Table(title, ["network", "accuracy", "macs", "params"])
    table.add("the largest", f"{whole:.2%}", f"{costs['macs'][0]:,}", f"{costs['params'][0]:,}")
    table.add("the best sum of scores", f"{own:.2%}", f"{costs['macs'][1]:,}", f"{costs['params'][1]:,}")
    middles = [f"{int(median(costs[name][2:])):,}" for name in ("macs", "params")]
    table.add(f"median of {len(drawn)} drawn", f"{median(others):.2%}", *middles)
    table.add(f"best of {len(drawn)} drawn", f"{max(others):.2%}", "", "")
    print(machine("cpu"))
    print(table)
    print(f"scores: {scores.made['evaluated']} networks evaluated; the sum predicts {float(predicted):.2%}")
    print(f"drawn networks that are better than the best sum: {sum(one > own for one in others)} of {len(others)}")
    print(chosen)


def best(space: Space, scores: Scores, allowed: int) -> tuple[Architecture, Fraction]:
    """The architecture of the greatest sum that has at most so many multiply-accumulates, and that sum."""
    chain = space.account.chain("macs")
    single = {term.choices[0]: term.values for term in scores.terms}
    ways: dict[object, list[Way]] = {(): [(chain.constant[0], scores.constant, ())]}
    for decision, level in zip(space.order, chain.levels, strict=True):
        values = single.get(decision.choice.path, {})
        reached: dict[object, list[Way]] = {}
        for state, several in ways.items():
            for step in level[state]:  # type: ignore[index]
                own = values.get((step.outcome,), Fraction(0))
                reached.setdefault(step.after, []).extend(
                    (cost + step.costs[0], score + own, (*codes, step.outcome)) for cost, score, codes in several
                )
        ways = {state: undominated(several, allowed) for state, several in reached.items()}
    cost, score, codes = max((way for several in ways.values() for way in several), key=lambda way: (way[1], -way[0]))
    architecture = space.decode(codes)
    assert scores(architecture) == score
    assert int(space.cost([architecture], ["macs"])["macs"][0]) == cost <= allowed
    return architecture, score


def undominated(ways: list[Way], allowed: int) -> list[Way]:
    """Those within what is allowed than which none is both cheaper and better."""
    kept: list[Way] = []
    for way in sorted(ways, key=lambda way: (way[0], -way[1])):
        if way[0] <= allowed and (not kept or way[1] > kept[-1][1]):
            kept.append(way)
    return kept


def held_out(source: str, space: Space, several: list[Architecture]) -> list[float]:
    """The accuracies of networks with the weights that they have in a supernet, on held-out samples."""
    run, phase, record = trained(source)
    found = of_run(run, "cpu")
    own = space_of(found.recipe, phase, found.folder)
    settings = found.recipe.data_of(phase)
    (data,) = images({}, found.recipe, settings, own).values()
    assert supernet_of(run, f"phases/{phase.name}/supernet.json") == record
    model = restored(record, read_weights(run.folder / "phases" / phase.name / "weights.safetensors")[0])
    job = Job(phase.model_copy(update={"data": settings}), own, data, found.recipe.seed, "cpu")
    task = Task(job, model.graph)
    accuracies = []
    for architecture in several:
        network = extract(model, record.own(model.graph, architecture)).eval()
        with torch.no_grad():
            accuracies.append(float(task.measured(network, data.held_out, 0)["accuracy"]))
    return accuracies


if __name__ == "__main__":
    main()
