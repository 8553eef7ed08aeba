"""A trained network cut to half of its multiply-accumulates: by `archir shrink`, and by importance alone.

    python benchmarks/shrinking.py --data parquet:CIFAR10 [--seeds 3] [--folder FOLDER]

Pruning by importance alone orders channels by L1, those of tied layers together, and leaves the same share of every
layer out, the least that keeps the budget. It is trained on with labels, by the same optimizer, schedule and
augmentation, for as many epochs; and once more with the full network for a teacher, as `archir shrink` does it. `cut`
is what the network has before that, with statistics of norms measured anew. Accuracies are those of held-out images
after the last epoch; processor seconds are those of everything between the trained network and the smaller one. In a
folder, what was done is kept, and the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from measure import Table, machine

import archir
from archir.recipes.spaces import files_of
from archir.reuse.shrinking import Plan
from archir.spaces.space import Space
from archir.utils import toml
from archir_torch.lowering.weights import read_weights, save_weights
from archir_torch.reuse import Trained
from archir_torch.reuse.order import order_channels

NETS = Path(__file__).resolve().parent.parent / "examples" / "shrink" / "cifar.arch"
LR = 2e-3
FULL, SHRUNK, PRUNED, TAUGHT = "full", "archir shrink", "L1", "L1 with teacher"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="CIFAR-10, such as parquet:FOLDER")
    parser.add_argument("--folder", type=Path, help="where networks are kept")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--epochs", type=int, default=5, help="of the full network")
    parser.add_argument("--tune", type=int, default=2, help="epochs of what was cut out")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    torch.set_num_threads(1)
    title = "Held-out accuracy of a network for CIFAR-10, and at half of its multiply-accumulates; processor seconds"
    kinds = (FULL, SHRUNK, PRUNED, TAUGHT)
    table = Table(
        title,
        [
            "seed",
            *kinds,
            *(f"{one}, {kind}" for one in ("cut", "MACs", "s") for kind in kinds if one != "cut" or kind != FULL),
        ],
    )
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(given.first, given.first + given.seeds):
            folder = (given.folder or Path(scratch)) / f"seed{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            rows.append(Comparison(seed, folder, given).figures())
            accuracies = [f"{100 * rows[-1][kind]['accuracy']:.2f}%" for kind in kinds]
            figures = [f"{rows[-1][kind][name]:,.0f}" for name in ("macs", "seconds") for kind in kinds]
            cut = [f"{100 * rows[-1][kind]['cut']:.2f}%" for kind in kinds[1:]]
            table.add(str(seed), *accuracies, *cut, *figures)
            print(*table.rows[-1], flush=True)
    means = {kind: mean(row[kind]["accuracy"] for row in rows) for kind in kinds}
    table.add("mean", *(f"{100 * one:.2f}%" for one in means.values()), *[""] * 11)
    print(f"{machine(given.device)}\n{table}")


class Comparison:
    """The three networks of a seed, in a folder."""

    def __init__(self, seed: int, folder: Path, given: Any) -> None:
        self.seed, self.folder, self.given = seed, folder, given
        self.full, self.space = archir.load(f"{NETS}:full").graph, archir.load(f"{NETS}:space")
        self.weights = folder / "full.safetensors"

    def figures(self) -> dict[str, dict[str, float]]:
        """Accuracy, costs and processor seconds of each."""
        makers = {
            FULL: self.train_full,
            SHRUNK: self.shrink,
            PRUNED: self.prune,
            TAUGHT: partial(self.prune, taught=True),
        }
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
        network, result = archir.train(self.full, data=self.given.data, settings=settings, device=self.given.device)
        save_weights(network, self.weights)
        return {"accuracy": result.measures["accuracy"], "macs": archir.cost(self.full).macs}

    def shrink(self) -> dict[str, float]:
        """By `archir shrink`."""
        settings = {
            "data": self.given.data, "epochs": self.given.tune, "trials": self.given.trials, "samples": 2000, "lr": LR,
            "batch": 128, "shift": 4, "flip": True, "seed": self.seed, "threads": 1,
        }  # fmt: skip
        nets = {"net": f"{NETS}:full", "space": f"{NETS}:space"}
        made = archir.shrink(
            nets["net"], self.weights, "macs <= 0.5x", self.folder / "run", space=nets["space"], settings=settings,
            int8=False, device=self.given.device,
        )  # fmt: skip
        return {"accuracy": made["after"]["accuracy"], "cut": made["cut"]["accuracy"], "macs": made["after"]["macs"]}

    def prune(self, taught: bool = False) -> dict[str, float]:
        """By the same share of every layer."""
        uniform = largest_uniform(self.space, archir.cost(self.full).macs / 2)
        model = archir.supernet(self.space)
        model.load_state_dict(
            model.state_dict() | order_channels(Trained(self.full, read_weights(self.weights)[0]), "l1")
        )
        folder = self.folder / ("taught" if taught else "pruned")
        folder.mkdir(exist_ok=True)
        save_weights(archir.extract(model, uniform), folder / "start.safetensors")
        for name, text in files_of(NETS.name, NETS.parent).items():
            (folder / name).write_text(text, "utf-8")
        teacher = {
            "kind": "distillation", "teacher": f"{NETS.name}:full", "weights": str(self.weights),
            "temperature": Plan().temperature,
        }  # fmt: skip
        phase = {
            "start": {"weights": "./start.safetensors"},
            "fixed": {c.path: c.label(uniform.outcomes[c.path]) for c in self.space.choices},
        }
        trained = {
            "strategy": "train", "training": {"epochs": self.given.tune, "batch": 128},
            "weights": {"kind": "adamw", "lr": LR, "weight_decay": 0.01, "warmup_epochs": 0.5, "clip": 1.0},
        }  # fmt: skip
        recipe = {
            "space": f"{NETS.name}:space", "seed": self.seed, "threads": 1, "export": False,
            "data": {"source": self.given.data, "augment": {"shift": 4, "flip": True}},
            "phase": [
                {"name": "cut", "strategy": "inherit", **phase},
                {"name": "tuned", **trained, **phase, **({"also": [teacher]} if taught else {})},
            ],
        }  # fmt: skip
        (folder / "recipe.toml").write_text(toml.dump_toml(recipe), "utf-8")
        phases = archir.run(folder / "recipe.toml", folder / "run", device=self.given.device)["phases"]
        graph = self.space.specialize(uniform)
        made = {name: phases[phase]["accuracy"] for name, phase in (("accuracy", "tuned"), ("cut", "cut"))}
        return made | {"macs": archir.cost(graph).macs}


def largest_uniform(space: Space, macs: float) -> Any:
    """The most expensive architecture, within a bound, of those that take the same outcome of every choice."""
    most = min(choice.outcome_count for choice in space.choices)
    within = [space.from_outcomes({choice.path: outcome for choice in space.choices}) for outcome in range(most)]
    costs = space.cost(within, ["macs"])["macs"]
    return within[max((cost, number) for number, cost in enumerate(costs) if cost <= macs)[1]]


if __name__ == "__main__":
    main()
