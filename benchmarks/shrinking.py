"""A trained network cut to half of its multiply-accumulates: by `archir shrink`, and by importance alone.

python benchmarks/shrinking.py --data parquet:CIFAR10 [--seeds 3] [--epochs 10] [--elastic 3] [--tune 6]

Pruning by importance alone orders channels by L1 and leaves the same share of each layer out, the largest that keeps
the budget; it is trained on with labels for as many epochs as `archir shrink` has in both of its trainings.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from measure import Table, machine

import archir
from archir_torch.lowering.weights import save_weights
from archir_torch.search.ordering import Trained
from archir_torch.search.ordering.order import ordered

NETS = Path(__file__).resolve().parent.parent / "examples" / "shrink" / "cifar.arch"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="CIFAR-10, such as parquet:FOLDER")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10, help="of the full network")
    parser.add_argument("--elastic", type=int, default=3)
    parser.add_argument("--tune", type=int, default=6)
    parser.add_argument("--trials", type=int, default=200)
    given = parser.parse_args()
    torch.set_num_threads(1)
    table = Table(
        "Held-out accuracy of a network for CIFAR-10, and at half of its multiply-accumulates",
        ["seed", "full", "archir shrink", "L1 pruning", "MACs", "shrink's", "L1's", "CPU s full", "shrink", "L1"],
    )
    rows = []
    for seed in range(given.seeds):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(compared(seed, Path(folder), given))
        one = rows[-1]
        table.add(
            str(seed), *(f"{100 * one[name]:.2f}%" for name in KINDS), *(f"{one[name + '_macs']:,}" for name in KINDS),
            *(f"{one[name + '_seconds']:.0f}" for name in KINDS),
        )  # fmt: skip
        print(*table.rows[-1], flush=True)
    means = {name: mean(row[name] for row in rows) for name in KINDS}
    table.add("mean", *(f"{100 * means[name]:.2f}%" for name in KINDS))
    print(f"{machine('cpu')}\n{table}")


KINDS = ("full", "shrink", "l1")


def compared(seed: int, folder: Path, given: Any) -> dict[str, float]:
    """Accuracies, costs and processor seconds of the three networks."""
    full, space = archir.load(f"{NETS}:full"), archir.load(f"{NETS}:space")
    usual = {"batch": 128, "flip": True, "seed": seed}
    found: dict[str, float] = {}

    begin = time.process_time()
    network, result = archir.train(full.graph, data=given.data, settings=usual | {"epochs": given.epochs, "lr": 4e-3})
    weights = folder / "full.safetensors"
    save_weights(network, weights)
    found |= {"full": result.measures["accuracy"], "full_macs": archir.cost(full.graph).macs}
    found["full_seconds"] = time.process_time() - begin

    begin = time.process_time()
    settings = {"data": given.data, "elastic": given.elastic, "epochs": given.tune, "trials": given.trials,
                "samples": 2000, "lr": 2e-3, "batch": 128, "shift": 4, "flip": True, "seed": seed,
                "threads": 1}  # fmt: skip
    made = archir.shrink(f"{NETS}:full", weights, "macs <= 0.5x", folder / "run", space=f"{NETS}:space",
                         settings=settings, int8=False)["after"]  # fmt: skip
    found |= {"shrink": made["accuracy"], "shrink_macs": made["macs"], "shrink_seconds": time.process_time() - begin}

    begin = time.process_time()
    uniform = max(
        (space.architecture({choice.path: index for choice in space.choices}) for index in range(13)),
        key=lambda one: (macs := space.cost([one], ["macs"])["macs"][0]) * (macs <= found["full_macs"] / 2),
    )
    model = archir.supernet(space)
    model.load_state_dict(model.state_dict() | ordered(Trained(full.graph, network.state_dict()), "l1"))
    graph = space.specialize(uniform)
    save_weights(archir.extract(model, uniform), folder / "l1.safetensors")
    epochs = usual | {"epochs": given.elastic + given.tune, "lr": 2e-3}
    _, result = archir.train(graph, data=given.data, settings=epochs, weights=folder / "l1.safetensors")
    found |= {"l1": result.measures["accuracy"], "l1_macs": archir.cost(graph).macs}
    return found | {"l1_seconds": time.process_time() - begin}


if __name__ == "__main__":
    main()
