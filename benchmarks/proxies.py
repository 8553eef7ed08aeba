"""Compare archir's zero-cost proxies with the published scores of NAS-Bench-Suite-Zero, on cells of NAS-Bench-201.

ARCHIR_NAS=FOLDER ARCHIR_CIFAR10=FOLDER python benchmarks/proxies.py [--keep scores.csv] [--cells 1000]

The first folder has `nb201.npz` and `nb201_zero_cost.npz` (see `benchmarks/published.py`), the second CIFAR-10 as
Parquet. Scores are kept in a CSV file, a line per cell and proxy, so that an interrupted run continues; a cell takes
some five seconds on an idle core. Each column is compared with the accuracy after 200 epochs by Spearman's correlation,
on the cells that are scored so far. The figures are in `benchmarks/results/proxies_cpu.txt`.
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
from archir.ir.graph import Graph
from archir.utils.ranks import spearman

ROOT = Path(__file__).resolve().parents[1]
SPACE = ROOT / "examples/nas_bench_201/nas_bench_201.arch"
RESULTS = ROOT / "benchmarks" / "results" / "proxies_cpu.txt"
PUBLISHED_COLUMNS = {
    "grad_norm": "grad_norm", "snip": "snip", "fisher": "fisher", "jacob_cov": "jacov", "naswot": "nwot",
    "synflow": "synflow", "grasp": "grasp",
}  # fmt: skip
"""archir's proxies, and the published columns of the same proxies."""
Scores = dict[tuple[int, str], float]


def cells(folder: Path, count: int) -> list[int]:
    """Return numbers of cells that have published scores, in a fixed random order."""
    scored = np.load(folder / "nb201_zero_cost.npz")["cifar10"]
    complete = np.flatnonzero(~np.isnan(scored).any(axis=1))
    return [int(cell) for cell in np.random.default_rng(0).permutation(complete)[:count]]


def read_scores(file: Path) -> Scores:
    """Return the scores in a file; a line that an interrupted run left incomplete is ignored."""
    if not file.exists():
        return {}
    with file.open(newline="") as stream:
        return {(int(row[0]), row[1]): float(row[2]) for row in csv.reader(stream) if len(row) == 4}


def score(folder: Path, file: Path, wanted: list[int], proxies: list[str], batch: int) -> None:
    """Compute missing scores, and append them to a file."""
    done, space = read_scores(file), archir.load(SPACE)
    codes = np.load(folder / "nb201.npz")["ops"].astype(np.int16)
    scorers: dict[tuple[str, ...], Callable[[Graph], dict[str, float]]] = {}
    with file.open("a", newline="") as stream:
        lines = csv.writer(stream)
        for cell in wanted:
            missing = tuple(name for name in proxies if (cell, name) not in done)
            if missing:
                if missing not in scorers:
                    data = f"parquet:{os.environ['ARCHIR_CIFAR10']}"
                    scorers[missing] = archir.scorer(list(missing), data=data, batch=batch)
                results = scorers[missing](space.specialize(space.decode(codes[cell])))
                lines.writerows((cell, name, repr(value), "end") for name, value in results.items())
                stream.flush()


def lines(folder: Path, file: Path, wanted: list[int]) -> Iterator[str]:
    """Yield the lines of figures of the scored cells."""
    computed = read_scores(file)
    published = np.load(folder / "nb201_zero_cost.npz")
    names = [str(name) for name in published["names_cifar10"]]
    accuracy = np.nanmean(np.load(folder / "nb201.npz")["val_acc_200_cifar10"], axis=1)
    yield "Spearman's correlation with the accuracy on CIFAR-10, of cells of NAS-Bench-201"
    yield f"{'proxy':10} {'cells':>6} {'archir':>8} {'Suite-Zero':>11} {'apart':>7} {'of both':>8}"
    for name, column in PUBLISHED_COLUMNS.items():
        rows = [cell for cell in wanted if (cell, name) in computed]
        if len(rows) < 3:
            continue
        ours = np.array([computed[cell, name] for cell in rows])
        theirs = published["cifar10"][rows, names.index(column)]
        our_rank, their_rank = spearman(ours, accuracy[rows]), spearman(theirs, accuracy[rows])
        both = spearman(ours, theirs)
        assert our_rank is not None
        assert their_rank is not None
        difference = our_rank - their_rank
        yield f"{name:10} {len(rows):6,} {our_rank:8.3f} {their_rank:11.3f} {difference:+7.3f} {both or 0:8.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, default=Path("proxies.csv"))
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--proxies", default=",".join(PUBLISHED_COLUMNS))
    parser.add_argument("--only-figures", action="store_true", help="score nothing")
    arguments = parser.parse_args()
    folder = Path(os.environ["ARCHIR_NAS"])
    wanted, proxies = cells(folder, arguments.cells), arguments.proxies.split(",")
    if not arguments.only_figures:
        score(folder, arguments.keep, wanted, proxies, arguments.batch)
    text = "\n".join(lines(folder, arguments.keep, wanted)) + "\n"
    print(text)


if __name__ == "__main__":
    main()
