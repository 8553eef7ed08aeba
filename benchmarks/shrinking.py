"""Cut a trained network to half of its multiply-accumulates: by `archir shrink`, and by importance only.

    python benchmarks/shrinking.py --data parquet:CIFAR10 [--seeds 3] [--folder FOLDER]

Pruning by importance orders channels by L1, with tied layers together, and removes the same share of every layer, the
smallest share within the budget. The result is trained with labels, by the same optimizer, schedule and augmentation,
for as many epochs; and once more with the full network as the teacher, as `archir shrink` does it. `cut` is the
accuracy before that training, with recalibrated norms. Accuracies are of held-out images after the last epoch;
processor seconds include everything between the trained network and the smaller one. With a folder, finished steps are
kept, and the same command continues an interrupted run.
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
FULL, SHRUNK, PRUNED, DISTILLED = "full", "archir shrink", "L1", "L1 with teacher"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="CIFAR-10, such as parquet:FOLDER")
    parser.add_argument("--folder", type=Path, help="where networks are kept")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--epochs", type=int, default=5, help="epochs of the full network")
    parser.add_argument("--tune", type=int, default=2, help="epochs of the cut network")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    title = "Held-out accuracy of a network for CIFAR-10, and at half of its multiply-accumulates; processor seconds"
    kinds = (FULL, SHRUNK, PRUNED, DISTILLED)
    table = Table(
        title,
        [
            "seed",
            *kinds,
            *(f"{head}, {kind}" for head in ("cut", "MACs", "s") for kind in kinds if head != "cut" or kind != FULL),
        ],
    )
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            folder = (arguments.folder or Path(scratch)) / f"seed{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            rows.append(Comparison(seed, folder, arguments).figures())
            accuracies = [f"{100 * rows[-1][kind]['accuracy']:.2f}%" for kind in kinds]
            figures = [f"{rows[-1][kind][name]:,.0f}" for name in ("macs", "seconds") for kind in kinds]
            cut = [f"{100 * rows[-1][kind]['cut']:.2f}%" for kind in kinds[1:]]
            table.add(str(seed), *accuracies, *cut, *figures)
            print(*table.rows[-1], flush=True)
    means = {kind: mean(row[kind]["accuracy"] for row in rows) for kind in kinds}
    table.add("mean", *(f"{100 * accuracy:.2f}%" for accuracy in means.values()), *[""] * 11)
    print(f"{machine(arguments.device)}\n{table}")


class Comparison:
    """The networks of a seed, in a folder."""

    def __init__(self, seed: int, folder: Path, arguments: Any) -> None:
        self.seed, self.folder, self.arguments = seed, folder, arguments
        self.full, self.space = archir.load(f"{NETS}:full").graph, archir.load(f"{NETS}:space")
        self.weights = folder / "full.safetensors"

    def figures(self) -> dict[str, dict[str, float]]:
        """Return accuracy, costs and processor seconds of each network."""
        steps = {
            FULL: self.train_full,
            SHRUNK: self.shrink,
            PRUNED: self.prune,
            DISTILLED: partial(self.prune, distilled=True),
        }
        return {kind: self.once(kind, make) for kind, make in steps.items()}

    def once(self, kind: str, make: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Return the figures of a network: those in its file, or else computed by `make`."""
        file = self.folder / f"{kind}.json"
        if not file.exists():
            begin = time.process_time()
            figures = make() | {"seconds": time.process_time() - begin}
            file.write_text(json.dumps(figures))
            print(self.seed, kind, figures, flush=True)
        stored: dict[str, float] = json.loads(file.read_text())
        return stored

    def train_full(self) -> dict[str, float]:
        """Train the full network."""
        settings = {"batch": 128, "flip": True, "seed": self.seed, "epochs": self.arguments.epochs, "lr": 4e-3}
        network, result = archir.train(
            self.full, data=self.arguments.data, settings=settings, device=self.arguments.device
        )
        save_weights(network, self.weights)
        return {"accuracy": result.measures["accuracy"], "macs": archir.cost(self.full).macs}

    def shrink(self) -> dict[str, float]:
        """Shrink it by `archir shrink`."""
        settings = {
            "data": self.arguments.data, "epochs": self.arguments.tune, "trials": self.arguments.trials,
            "samples": 2000, "lr": LR, "batch": 128, "shift": 4, "flip": True, "seed": self.seed, "threads": 1,
        }  # fmt: skip
        nets = {"net": f"{NETS}:full", "space": f"{NETS}:space"}
        report = archir.shrink(
            nets["net"], self.weights, "macs <= 0.5x", self.folder / "run", space=nets["space"], settings=settings,
            int8=False, device=self.arguments.device,
        )  # fmt: skip
        return {
            "accuracy": report["after"]["accuracy"],
            "cut": report["cut"]["accuracy"],
            "macs": report["after"]["macs"],
        }

    def prune(self, distilled: bool = False) -> dict[str, float]:
        """Prune it by the same share of every layer."""
        uniform = largest_uniform(self.space, archir.cost(self.full).macs / 2)
        model = archir.supernet(self.space)
        model.load_state_dict(
            model.state_dict() | order_channels(Trained(self.full, read_weights(self.weights)[0]), "l1")
        )
        folder = self.folder / ("distilled" if distilled else "pruned")
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
            "strategy": "train", "training": {"epochs": self.arguments.tune, "batch": 128},
            "weights": {"kind": "adamw", "lr": LR, "weight_decay": 0.01, "warmup_epochs": 0.5, "clip": 1.0},
        }  # fmt: skip
        recipe = {
            "space": f"{NETS.name}:space", "seed": self.seed, "threads": 1, "export": False,
            "data": {"source": self.arguments.data, "augment": {"shift": 4, "flip": True}},
            "phase": [
                {"name": "cut", "strategy": "inherit", **phase},
                {"name": "tuned", **trained, **phase, **({"also": [teacher]} if distilled else {})},
            ],
        }  # fmt: skip
        (folder / "recipe.toml").write_text(toml.dump_toml(recipe), "utf-8")
        phases = archir.run(folder / "recipe.toml", folder / "run", device=self.arguments.device)["phases"]
        graph = self.space.specialize(uniform)
        accuracies = {name: phases[phase]["accuracy"] for name, phase in (("accuracy", "tuned"), ("cut", "cut"))}
        return accuracies | {"macs": archir.cost(graph).macs}


def largest_uniform(space: Space, macs: float) -> Any:
    """Return the most expensive architecture within a bound that has the same outcome of every choice."""
    outcome_count = min(choice.outcome_count for choice in space.choices)
    uniform = [
        space.from_outcomes({choice.path: outcome for choice in space.choices}) for outcome in range(outcome_count)
    ]
    costs = space.cost(uniform, ["macs"])["macs"]
    return uniform[max((cost, number) for number, cost in enumerate(costs) if cost <= macs)[1]]


if __name__ == "__main__":
    main()
