"""Evaluate scores of single alternatives: the best network by their sum within a bound, and random networks within it.

    python benchmarks/scores.py [--part 0.5] [--draws 50] [--seeds 3]

For each seed a supernet of `SPACE` is trained on the digits. Each alternative is put into the largest network, all
others unchanged, and scored with the supernet's weights on validation samples; `archir.optimize` finds the best sum
within the bound. All networks use the supernet's weights, and are evaluated on held-out samples that nothing was chosen
by. The norms have no statistics.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from measure import Table, machine

import archir
from archir.recipes.job import read_supernet
from archir.recipes.spaces import space_of
from archir.reuse.specializing import find_supernet
from archir.spaces.architecture import Architecture
from archir.spaces.completion import largest
from archir.spaces.space import Space
from archir_torch.lowering.weights import read_weights
from archir_torch.search.inheritance import restore_supernet
from archir_torch.search.job import Job
from archir_torch.search.preparation import load_images, search_of_run
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
"""The program of the space."""
RECIPE = """
title = "A supernet of digits"
space = "space.arch"
threads = 1
seed = SEED

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
"""The recipe of the supernet."""


@dataclass(frozen=True)
class Comparison:
    """Held-out accuracies and multiply-accumulates of the largest network, of the best sum of scores within the bound,
    and of random networks within it."""

    largest: tuple[float, int]
    chosen: tuple[float, int]
    drawn: tuple[tuple[float, int], ...]
    evaluated: int

    def row(self, seed: int) -> list[str]:
        """Return a row of the table."""
        accuracies = [accuracy for accuracy, _ in self.drawn]
        return [
            str(seed),
            f"{self.largest[0]:.2%}",
            f"{self.chosen[0]:.2%}",
            f"{median(accuracies):.2%}",
            f"{max(accuracies):.2%}",
            str(sum(accuracy > self.chosen[0] for accuracy in accuracies)),
            f"{self.chosen[1]:,}",
            f"{int(median(macs for _, macs in self.drawn)):,}",
        ]


COLUMNS = ["seed", "the largest", "best sum", "median drawn", "best drawn", "better ones", "macs", "macs drawn"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--part", type=float, default=0.5, help="bound of multiply-accumulates, as a share of the maximum [%(default)s]"
    )
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    comparisons = []
    for seed in range(arguments.seeds):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "space.arch").write_text(SPACE)
            (folder / "recipe.toml").write_text(RECIPE.replace("SEED", str(seed)))
            archir.run(folder / "recipe.toml", folder / "run", device="cpu")
            space = archir.load(folder / "space.arch")
            comparisons.append(compare(space, str(folder / "run"), arguments.part, arguments.draws, seed))
        print(f"seed {seed}: {comparisons[-1].row(seed)}", flush=True)
    allowed = int(arguments.part * comparisons[0].largest[1])
    table = Table(f"Held-out accuracy with the supernet's weights; multiply-accumulates at most {allowed:,}", COLUMNS)
    for seed, comparison in enumerate(comparisons):
        table.add(*comparison.row(seed))
    print(machine("cpu"))
    print(table)
    print(f"scores: {comparisons[0].evaluated} networks evaluated; drawn: {arguments.draws} for each seed")
    if not all(each.chosen[0] > median(accuracy for accuracy, _ in each.drawn) for each in comparisons):
        raise SystemExit("the best sum is not better than the median of random networks")


def compare(space: Space, run: str, part: float, draws: int, seed: int) -> Comparison:
    """Compare the best network by scores within a share `part` of the maximum multiply-accumulates with random ones."""
    scores = archir.scores(space, supernet=run)
    allowed = int(part * space.account.extremes("macs")[1].value)
    within = space.where(f"macs <= {allowed}")
    answer = archir.optimize(within, maximize=scores)
    assert answer.proved
    assert scores(answer.best) == answer.values[0]
    networks = [largest(space), answer.best, *(within.sample(seed * draws + i) for i in range(draws))]
    macs = space.cost(networks, ["macs"])["macs"].tolist()
    assert macs[1] <= allowed
    full, chosen, *drawn = zip(held_out_accuracies(run, space, networks), macs, strict=True)
    return Comparison(full, chosen, tuple(drawn), scores.made["evaluated"])


def held_out_accuracies(source: str, space: Space, architectures: list[Architecture]) -> list[float]:
    """Return the accuracies of networks with the supernet's weights, on held-out samples."""
    run, phase, record = find_supernet(source)
    search = search_of_run(run, "cpu")
    space_of_phase = space_of(search.recipe, phase, search.folder)
    settings = search.recipe.data_of(phase)
    (data,) = load_images({}, search.recipe, settings, space_of_phase).values()
    assert read_supernet(run, f"phases/{phase.name}/supernet.json") == record
    model = restore_supernet(record, read_weights(run.folder / "phases" / phase.name / "weights.safetensors")[0])
    job = Job(phase.model_copy(update={"data": settings}), space_of_phase, data, search.recipe.seed, "cpu")
    task = Task(job, model.graph)
    accuracies = []
    for architecture in architectures:
        network = extract(model, record.to_supernet(model.graph, architecture)).eval()
        with torch.no_grad():
            accuracies.append(float(task.measure(network, data.held_out)["accuracy"]))
    return accuracies


if __name__ == "__main__":
    main()
