"""Scores of alternatives one by one: what is best by them within a bound, beside networks that are drawn within it.

    python benchmarks/scores.py [--part 0.5] [--draws 50] [--seeds 3]

For each seed a supernet of `SPACE` is trained on the digits. Each alternative is put alone into the largest network
and scored with the supernet's weights, on samples for validation; `archir.optimize` finds the best sum within the
bound. All networks have the supernet's weights, and are measured on held-out samples, by which nothing was chosen.
Norms need no statistics.
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
from archir.recipes.spaces import space_of
from archir.recipes.start_weights import read_supernet
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


@dataclass(frozen=True)
class Compared:
    """Held-out accuracies and multiply-accumulates: of the largest network, of the best sum of scores within the bound,
    and of those that are drawn within it."""

    largest: tuple[float, int]
    chosen: tuple[float, int]
    drawn: tuple[tuple[float, int], ...]
    evaluated: int

    def row(self, seed: int) -> list[str]:
        """A row of the table."""
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
    parser.add_argument("--part", type=float, default=0.5, help="of the most multiply-accumulates that are allowed")
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for seed in range(given.seeds):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "space.arch").write_text(SPACE)
            (folder / "recipe.toml").write_text(RECIPE.replace("SEED", str(seed)))
            archir.run(folder / "recipe.toml", folder / "run", device="cpu")
            space = archir.load(folder / "space.arch")
            found.append(compared(space, str(folder / "run"), given.part, given.draws, seed))
        print(f"seed {seed}: {found[-1].row(seed)}", flush=True)
    allowed = int(given.part * found[0].largest[1])
    table = Table(f"Held-out accuracy with the supernet's weights; multiply-accumulates at most {allowed:,}", COLUMNS)
    for seed, one in enumerate(found):
        table.add(*one.row(seed))
    print(machine("cpu"))
    print(table)
    print(f"scores: {found[0].evaluated} networks evaluated; drawn: {given.draws} for each seed")
    if not all(one.chosen[0] > median(accuracy for accuracy, _ in one.drawn) for one in found):
        raise SystemExit("the best sum is not better than the median of what is drawn")


def compared(space: Space, run: str, part: float, draws: int, seed: int) -> Compared:
    """What is best by the scores within a part of the most multiply-accumulates, and what is drawn within it."""
    scores = archir.scores(space, supernet=run)
    allowed = int(part * space.account.extremes("macs")[1].value)
    within = space.where(f"macs <= {allowed}")
    answer = archir.optimize(within, maximize=scores)
    assert answer.proved
    assert scores(answer.best) == answer.values[0]
    networks = [largest(space), answer.best, *(within.sample(seed * draws + i) for i in range(draws))]
    macs = space.cost(networks, ["macs"])["macs"].tolist()
    assert macs[1] <= allowed
    whole, chosen, *drawn = zip(held_out(run, space, networks), macs, strict=True)
    return Compared(whole, chosen, tuple(drawn), scores.made["evaluated"])


def held_out(source: str, space: Space, several: list[Architecture]) -> list[float]:
    """The accuracies of networks with the weights that they have in a supernet, on held-out samples."""
    run, phase, record = find_supernet(source)
    found = search_of_run(run, "cpu")
    own = space_of(found.recipe, phase, found.folder)
    settings = found.recipe.data_of(phase)
    (data,) = load_images({}, found.recipe, settings, own).values()
    assert read_supernet(run, f"phases/{phase.name}/supernet.json") == record
    model = restore_supernet(record, read_weights(run.folder / "phases" / phase.name / "weights.safetensors")[0])
    job = Job(phase.model_copy(update={"data": settings}), own, data, found.recipe.seed, "cpu")
    task = Task(job, model.graph)
    accuracies = []
    for architecture in several:
        network = extract(model, record.to_supernet(model.graph, architecture)).eval()
        with torch.no_grad():
            accuracies.append(float(task.measure(network, data.held_out, 0)["accuracy"]))
    return accuracies


if __name__ == "__main__":
    main()
