"""NSGA-II on accuracy and each of six latencies of HW-NAS-Bench: which part of the true hypervolume it finds.

ARCHIR_NAS=FOLDER python benchmarks/fronts.py [--seeds 100]

The folder has `nb201.npz` and `hw_nas_bench.npz` (see `benchmarks/published.py`). Volumes are measured from the worst
of the table in both objectives, and from the worst of the true front, where they are smaller. In a second part,
parameters and multiply-accumulates are bounded, and no candidate may be outside. Networks that compute the same are
tried apart: they were timed apart, and only some of them are on the front. The figures are kept in
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
from archir.search.no_dedup import without_dedup
from archir.search.pareto import hypervolume
from archir.spaces.space import Space
from archir.studies.anytime import GroundTruth
from archir.studies.study import LoadedTask, Task
from archir.tabular.results import Results

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("edgegpu", "raspi4", "edgetpu", "pixel3", "eyeriss", "fpga")
TRIALS = 300
OPTIONS = {"population": 20, "trials": TRIALS, "generations": None}
WHERE = "params <= 0.6M and macs <= 90M"


def joined(folder: Path, space: Space, about: Path) -> Iterator[tuple[str, Results]]:
    """The accuracies of one table with the latencies of the other, for each device."""
    data = Path(os.environ["ARCHIR_NAS"])
    one, other = np.load(data / "nb201.npz"), np.load(data / "hw_nas_bench.npz")
    file = folder / "both.npz"
    np.savez(file, ops=one["ops"], accuracy=one["val_acc_200_cifar10"], cifar10=other["cifar10"])
    text = about.read_text() + '\naccuracy = { column = "accuracy", scale = 0.01 }\n'
    (folder / "both.toml").write_text(text)
    for name in NAMES:
        yield name, archir.results(file, space, measures=["accuracy", f"{name}_latency"])


def searched(space: Space, table: Results, name: str, seed: int) -> list[Any]:
    """The architectures that a search tries."""
    aims = ["accuracy:max", f"{name}_latency:min"]
    search = archir.strategy("nsga2", space, {**OPTIONS, "objectives": aims}, seed=seed)
    found = []
    while batch := search.ask():
        found += [one.architecture for one in batch]
        search.tell(table.scored(batch))
    return found


def shares(truth: GroundTruth, rows: list[int]) -> tuple[float, float]:
    """Of the true volume, measured from the worst of the table and from that of the front."""

    def volume(points: Any, reference: Any) -> float:
        return hypervolume([tuple(row) for row in points.tolist()], reference.tolist())

    tried, front = truth.values[rows], truth.front
    ends = (truth.reference, front.max(0) + 1e-9)
    one, other = (volume(tried, end) / volume(front, end) for end in ends)
    return one, other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    given = parser.parse_args()
    begin = time.perf_counter()
    lines = [f"NSGA-II on NAS-Bench-201: accuracy (CIFAR-10) and latency, {TRIALS} evaluations, {given.seeds} seeds"]
    lines += ["share of the true front's hypervolume, median (least), from the worst of the table, and of the front"]
    whole = archir.load(ROOT / "examples/nas_bench_201/nas_bench_201.arch")
    with TemporaryDirectory() as folder:
        for name, table in joined(Path(folder), whole, ROOT / "examples/tables/hw_nas_bench.toml"):
            aims = ("accuracy:max", f"{name}_latency:min")
            cells = []
            for space in (without_dedup(whole), without_dedup(whole.where(WHERE))):
                truth = GroundTruth(LoadedTask(Task(name=name, space="", table=""), space, table, aims))
                found = [searched(space, table, name, seed) for seed in range(given.seeds)]
                outside = sum(not space.within(one) for those in found for one in those)
                both = [shares(truth, [table.rows[one.codes] for one in those]) for those in found]
                said = [f"{100 * median(one):.2f}% ({100 * min(one):.2f}%)" for one in zip(*both, strict=True)]
                cells.append(f"{' '.join(f'{one:18}' for one in said)} {outside} outside")
            lines.append(f"{name:8} {cells[0]}   within {WHERE}: {cells[1]}")
            print(lines[-1], f"{time.perf_counter() - begin:.0f} s", flush=True)
    (ROOT / "benchmarks/results/fronts_cpu.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
