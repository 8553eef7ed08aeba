"""Zero-cost proxies of archir against those that NAS-Bench-Suite-Zero publishes, on the same cells of NAS-Bench-201.

ARCHIR_NAS=FOLDER ARCHIR_CIFAR10=FOLDER python benchmarks/proxies.py [--keep scores.csv] [--cells 1000]

The folder has `nb201.npz` and `nb201_zero_cost.npz` (see `benchmarks/published.py`), the other CIFAR-10 as Parquet.
Scores are kept in a CSV file, a line a cell and proxy, so that a run that was stopped goes on: some five seconds a cell
on an idle core. Each column is compared by Spearman's correlation with the accuracy after 200 epochs, on the cells that
have been scored so far. The figures are in `benchmarks/results/proxies_cpu.txt`.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import archir
from archir.costs.latencies.measurement import spearman
from archir.ir.graph import Graph

ROOT = Path(__file__).resolve().parents[1]
SPACE = ROOT / "examples/nas_bench_201/nas_bench_201.arch"
RESULTS = ROOT / "benchmarks" / "results" / "proxies_cpu.txt"
THEIRS = {
    "grad_norm": "grad_norm", "snip": "snip", "fisher": "fisher", "jacob_cov": "jacov", "naswot": "nwot",
    "synflow": "synflow", "grasp": "grasp",
}  # fmt: skip
"""archir's proxies, and the columns of the same."""
Scores = dict[tuple[int, str], float]


def cells(folder: Path, count: int) -> list[int]:
    """Numbers of cells that the benchmark has scores of, in a random order that is always the same."""
    scored = np.load(folder / "nb201_zero_cost.npz")["cifar10"]
    found = np.flatnonzero(~np.isnan(scored).any(axis=1))
    return [int(one) for one in np.random.default_rng(0).permutation(found)[:count]]


def kept(file: Path) -> Scores:
    """What was scored before; a line that a stopped run left unfinished is left out."""
    if not file.exists():
        return {}
    with file.open(newline="") as stream:
        return {(int(row[0]), row[1]): float(row[2]) for row in csv.reader(stream) if len(row) == 4}


def score(folder: Path, file: Path, wanted: list[int], proxies: list[str], batch: int) -> None:
    """Score what is missing."""
    before, space = kept(file), archir.load(SPACE)
    codes = np.load(folder / "nb201.npz")["ops"].astype(np.int16)
    scorers: dict[tuple[str, ...], Callable[[Graph], dict[str, float]]] = {}
    with file.open("a", newline="") as stream:
        lines = csv.writer(stream)
        for cell in wanted:
            missing = tuple(name for name in proxies if (cell, name) not in before)
            if missing:
                if missing not in scorers:
                    data = f"parquet:{os.environ['ARCHIR_CIFAR10']}"
                    scorers[missing] = archir.scorer(list(missing), data=data, batch=batch)
                found = scorers[missing](space.specialize(space.decode(codes[cell])))
                lines.writerows((cell, name, repr(value), "end") for name, value in found.items())
                stream.flush()


def lines(folder: Path, file: Path, wanted: list[int]) -> Iterator[str]:
    """The figures of the cells that are scored."""
    found = kept(file)
    published = np.load(folder / "nb201_zero_cost.npz")
    names = [str(one) for one in published["names_cifar10"]]
    accuracy = np.nanmean(np.load(folder / "nb201.npz")["val_acc_200_cifar10"], axis=1)
    yield "Spearman's correlation with the accuracy on CIFAR-10, of cells of NAS-Bench-201"
    yield f"{'proxy':10} {'cells':>6} {'archir':>8} {'Suite-Zero':>11} {'apart':>7} {'of both':>8}"
    for name, column in THEIRS.items():
        rows = [cell for cell in wanted if (cell, name) in found]
        if len(rows) < 3:
            continue
        ours = np.array([found[cell, name] for cell in rows])
        theirs = published["cifar10"][rows, names.index(column)]
        one, other = spearman(ours, accuracy[rows]), spearman(theirs, accuracy[rows])
        both = spearman(ours, theirs)
        assert one is not None
        assert other is not None
        yield f"{name:10} {len(rows):6,} {one:8.3f} {other:11.3f} {one - other:+7.3f} {both or 0:8.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, default=Path("proxies.csv"))
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--proxies", default=",".join(THEIRS))
    parser.add_argument("--only-figures", action="store_true", help="score nothing")
    given = parser.parse_args()
    folder = Path(os.environ["ARCHIR_NAS"])
    wanted, proxies = cells(folder, given.cells), given.proxies.split(",")
    if not given.only_figures:
        score(folder, given.keep, wanted, proxies, given.batch)
    text = "\n".join(lines(folder, given.keep, wanted)) + "\n"
    print(text)


if __name__ == "__main__":
    main()
