"""Scores of alternatives one by one: what is best by them within a bound, beside networks that are drawn within it.

    archir search examples/autoformer/digits.toml -o RUN
    python benchmarks/scores.py examples/autoformer/autoformer.arch RUN:supernet --parameters '{"head": 16, ...}'

Each alternative is put alone into the largest network and scored with the supernet's weights, on samples for
validation. The best sum within the bound is found exactly: choice by choice, of the ways that lead to a state, those
are kept than which none is both cheaper and better. All networks have the supernet's weights, and are measured on
held-out samples, by which nothing was chosen.
"""

from __future__ import annotations

import argparse
import json
from fractions import Fraction
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
from archir_torch.lowering.weights import load_tensors
from archir_torch.search.inheritance import restored
from archir_torch.search.job import Job
from archir_torch.search.preparation import images, of_run
from archir_torch.search.task import Task
from archir_torch.supernet.network import extract

Way = tuple[int, Fraction, tuple[int, ...]]
"""A cost, a score, and the outcomes so far."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("space")
    parser.add_argument("run", help="FOLDER:PHASE that trained a supernet")
    parser.add_argument("--parameters", default="{}", help="of the space, as JSON")
    parser.add_argument("--part", type=float, default=0.5, help="of the most multiply-accumulates that are allowed")
    parser.add_argument("--draws", type=int, default=50)
    given = parser.parse_args()
    torch.set_num_threads(1)
    space = archir.load(given.space, **json.loads(given.parameters))
    scores = archir.scores(space, supernet=given.run)
    allowed = int(given.part * space.account.extremes("macs")[1].value)
    chosen, predicted = best(space, scores, allowed)
    within = space.where(f"macs <= {allowed}")
    drawn = [within.sample(seed) for seed in range(given.draws)]
    measured = held_out(given.run, space, [largest(space), chosen, *drawn])
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
    model = restored(record, load_tensors(run.content(f"phases/{phase.name}/weights.safetensors")))
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
