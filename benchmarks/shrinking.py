"""A trained network cut to half of its multiply-accumulates: by `archir shrink`, and by importance alone.

    python benchmarks/shrinking.py --data parquet:CIFAR10 [--seeds 3] [--folder FOLDER]

Pruning by importance alone orders channels by L1, those of tied layers together, and leaves the same share of every
layer out, the least that keeps the budget. It is trained on with labels, by the same optimizer, schedule and
augmentation, for as many epochs as `archir shrink` has in both of its trainings. Accuracies are those of held-out
images after the last epoch; processor seconds are those of everything between the trained network and the smaller one.
In a folder, what was done is kept, and the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from measure import Table, machine

import archir
from archir.search.spaces.space import Space
from archir_torch.lowering.weights import read_weights, save_weights
from archir_torch.search.ordering import Trained
from archir_torch.search.ordering.order import ordered

NETS = Path(__file__).resolve().parent.parent / "examples" / "shrink" / "cifar.arch"
FULL, SHRUNK, PRUNED = "full", "archir shrink", "L1 pruning"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="CIFAR-10, such as parquet:FOLDER")
    parser.add_argument("--folder", type=Path, help="where networks are kept")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--epochs", type=int, default=5, help="of the full network")
    parser.add_argument("--elastic", type=int, default=1)
    parser.add_argument("--tune", type=int, default=3)
    parser.add_argument("--trials", type=int, default=100)
    given = parser.parse_args()
    torch.set_num_threads(1)
    title = "Held-out accuracy of a network for CIFAR-10, and at half of its multiply-accumulates; processor seconds"
    kinds = (FULL, SHRUNK, PRUNED)
    table = Table(title, ["seed", *kinds, *(f"{one} of {kind}" for one in ("MACs", "s") for kind in kinds)])
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(given.first, given.first + given.seeds):
            folder = (given.folder or Path(scratch)) / f"seed{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            rows.append(Comparison(seed, folder, given).figures())
            accuracies = [f"{100 * rows[-1][kind]['accuracy']:.2f}%" for kind in kinds]
            figures = [f"{rows[-1][kind][name]:,.0f}" for name in ("macs", "seconds") for kind in kinds]
            table.add(str(seed), *accuracies, *figures)
            print(*table.rows[-1], flush=True)
    means = {kind: mean(row[kind]["accuracy"] for row in rows) for kind in kinds}
    table.add("mean", *(f"{100 * one:.2f}%" for one in means.values()), *[""] * 6)
    print(f"{machine('cpu')}\n{table}")


class Comparison:
    """The three networks of a seed, in a folder."""

    def __init__(self, seed: int, folder: Path, given: Any) -> None:
        self.seed, self.folder, self.given = seed, folder, given
        self.full, self.space = archir.load(f"{NETS}:full").graph, archir.load(f"{NETS}:space")
        self.weights = folder / "full.safetensors"

    def figures(self) -> dict[str, dict[str, float]]:
        """Accuracy, costs and processor seconds of each."""
        makers = {FULL: self.train_full, SHRUNK: self.shrink, PRUNED: self.prune}
        return {kind: self.once(kind, make) for kind, make in makers.items()}

    def once(self, kind: str, make: Callable[[], dict[str, float]]) -> dict[str, float]:
        """What was found, or is found now."""
        kept = self.folder / f"{kind}.json"
        if not kept.exists():
            begin = time.process_time()
            found = make() | {"seconds": time.process_time() - begin}
            kept.write_text(json.dumps(found))
            print(self.seed, kind, found, flush=True)
        known: dict[str, float] = json.loads(kept.read_text())
        return known

    def train_full(self) -> dict[str, float]:
        """The network as it is."""
        settings = {"batch": 128, "flip": True, "seed": self.seed, "epochs": self.given.epochs, "lr": 4e-3}
        network, result = archir.train(self.full, data=self.given.data, settings=settings)
        save_weights(network, self.weights)
        return {"accuracy": result.measures["accuracy"], "macs": archir.cost(self.full).macs}

    def shrink(self) -> dict[str, float]:
        """By `archir shrink`."""
        settings = {
            "data": self.given.data, "elastic": self.given.elastic, "epochs": self.given.tune,
            "trials": self.given.trials, "samples": 1000, "lr": 2e-3, "batch": 128, "shift": 4, "flip": True,
            "seed": self.seed, "threads": 1,
        }  # fmt: skip
        nets = {"net": f"{NETS}:full", "space": f"{NETS}:space"}
        made = archir.shrink(
            nets["net"], self.weights, "macs <= 0.5x", self.folder / "run", space=nets["space"], settings=settings,
            int8=False,
        )["after"]  # fmt: skip
        return {"accuracy": made["accuracy"], "macs": made["macs"]}

    def prune(self) -> dict[str, float]:
        """By the same share of every layer."""
        uniform = largest_uniform(self.space, archir.cost(self.full).macs / 2)
        model = archir.supernet(self.space)
        model.load_state_dict(model.state_dict() | ordered(Trained(self.full, read_weights(self.weights)[0]), "l1"))
        start = self.folder / "pruned.safetensors"
        save_weights(archir.extract(model, uniform), start)
        graph = self.space.specialize(uniform)
        settings = {
            "batch": 128, "flip": True, "seed": self.seed, "epochs": self.given.elastic + self.given.tune, "lr": 2e-3,
            "warmup_epochs": 0.5, "clip": 1.0,
        }  # fmt: skip
        _, result = archir.train(graph, data=self.given.data, settings=settings, weights=start)
        return {"accuracy": result.measures["accuracy"], "macs": archir.cost(graph).macs}


def largest_uniform(space: Space, macs: float) -> Any:
    """The most expensive architecture, within a bound, of those that take the same outcome of every choice."""
    most = min(choice.outcomes for choice in space.choices)
    within = [space.exactly({choice.path: outcome for choice in space.choices}) for outcome in range(most)]
    costs = space.cost(within, ["macs"])["macs"]
    return within[max((cost, number) for number, cost in enumerate(costs) if cost <= macs)[1]]


if __name__ == "__main__":
    main()
