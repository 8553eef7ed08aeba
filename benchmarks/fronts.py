"""Measure NSGA-II on accuracy and each of six latencies of HW-NAS-Bench: the share of the true hypervolume that it
finds.

ARCHIR_NAS=FOLDER python benchmarks/fronts.py [--seeds 100]

The folder has `nb201.npz` and `hw_nas_bench.npz` (see `benchmarks/published.py`). Reference points of the volumes are
the worst values of the table, and the worst of the true front, with which volumes are smaller. In a second part,
parameters and multiply-accumulates are bounded, and no candidate may exceed the bounds. Networks that compute the same
are not merged: they were timed separately, and only some of them are on the front. The figures are kept in
`benchmarks/results/fronts_cpu.txt`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import archir
from archir.search.pareto import hypervolume
from archir.search.proposals import without_dedup
from archir.spaces.space import Space
from archir.studies.anytime import GroundTruth
from archir.studies.study import LoadedTask, Task
from archir.tabular.results import Results

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("edgegpu", "raspi4", "edgetpu", "pixel3", "eyeriss", "fpga")
TRIALS = 300
OPTIONS = {"population": 20, "trials": TRIALS, "generations": None}
WHERE = "params <= 0.6M and macs <= 90M"


def joined_tables(folder: Path, space: Space, about: Path) -> Iterator[tuple[str, Results]]:
    """Yield the devices with tables of the accuracies of one benchmark and the device's latencies of the other."""
    data = Path(os.environ["ARCHIR_NAS"])
    accuracies, latencies = np.load(data / "nb201.npz"), np.load(data / "hw_nas_bench.npz")
    file = folder / "both.npz"
    np.savez(file, ops=accuracies["ops"], accuracy=accuracies["val_acc_200_cifar10"], cifar10=latencies["cifar10"])
    text = about.read_text() + '\naccuracy = { column = "accuracy", scale = 0.01 }\n'
    (folder / "both.toml").write_text(text)
    for name in NAMES:
        yield name, archir.results(file, space, measures=["accuracy", f"{name}_latency"])


def run_search(space: Space, table: Results, name: str, seed: int) -> list[Any]:
    """Return the architectures that a search evaluates."""
    objectives = ["accuracy:max", f"{name}_latency:min"]
    search = archir.strategy("nsga2", space, {**OPTIONS, "objectives": objectives}, seed=seed)
    architectures = []
    while batch := search.ask():
        architectures += [candidate.architecture for candidate in batch]
        search.tell(table.scored(batch))
    return architectures


def shares(truth: GroundTruth, rows: list[int]) -> tuple[float, float]:
    """Return the shares of the true hypervolume, with the worst values of the table and of the front as reference
    points."""

    def volume(points: Any, reference: Any) -> float:
        return hypervolume([tuple(row) for row in points.tolist()], reference.tolist())

    tried, front = truth.values[rows], truth.front
    of_table, of_front = truth.reference, front.max(0) + 1e-9
    return volume(tried, of_table) / volume(front, of_table), volume(tried, of_front) / volume(front, of_front)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    arguments = parser.parse_args()
    begin = time.perf_counter()
    lines = [
        f"NSGA-II on NAS-Bench-201: accuracy (CIFAR-10) and latency, {TRIALS} evaluations, {arguments.seeds} seeds"
    ]
    lines += ["share of the true front's hypervolume, median (least), from the worst of the table, and of the front"]
    full_space = archir.load(ROOT / "examples/nas_bench_201/nas_bench_201.arch")
    with TemporaryDirectory() as folder:
        for name, table in joined_tables(Path(folder), full_space, ROOT / "examples/tables/hw_nas_bench.toml"):
            objectives = ("accuracy:max", f"{name}_latency:min")
            cells = []
            for space in (without_dedup(full_space), without_dedup(full_space.where(WHERE))):
                truth = GroundTruth(LoadedTask(Task(name=name, space="", table=""), space, table, objectives))
                searches = [run_search(space, table, name, seed) for seed in range(arguments.seeds)]
                outside = sum(not space.within(architecture) for tried in searches for architecture in tried)
                both = [shares(truth, [table.rows[each.codes] for each in tried]) for tried in searches]
                texts = [f"{100 * median(part):.2f}% ({100 * min(part):.2f}%)" for part in zip(*both, strict=True)]
                cells.append(f"{' '.join(f'{text:18}' for text in texts)} {outside} outside")
            lines.append(f"{name:8} {cells[0]}   within {WHERE}: {cells[1]}")
            print(lines[-1], f"{time.perf_counter() - begin:.0f} s", flush=True)
    (ROOT / "benchmarks/results/fronts_cpu.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
