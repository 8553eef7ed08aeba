"""Evaluate models of latencies fitted to 10, 30 and 100 measured networks, on tables of devices that others measured.

ARCHIR_NAS=FOLDER python benchmarks/latency_models.py [--draws 20] [--tested 2000] [--only help_nas_bench_201]

The folder has the arrays of HELP (Lee et al. 2021), `help_nb201_latency.npz`, `help_fbnet.npz` and `help_ofa.npz`, and
`nb201.npz`. For each setting of devices, networks are sampled, a model is fitted to them as `archir latency fit` does,
and predicts networks that were not measured. The figures are kept in `benchmarks/results/latency_models_cpu.txt`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

import archir
from archir.costs.latencies.counts import RunCounts, counts_of_codes
from archir.costs.latencies.fitting import fit_model
from archir.tabular.results import read_codes
from archir.utils.ranks import spearman

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES, RESULTS = ROOT / "examples", ROOT / "benchmarks" / "results" / "latency_models_cpu.txt"
MEASURED = (10, 30, 100)
"""Numbers of measured networks."""
REFERENCE_COUNT = 256
"""Number of random networks that the fit takes as reference."""


@dataclass(frozen=True)
class Tables:
    """Latencies of a space's networks on several devices, in milliseconds, [n] of each device."""

    name: str
    counts: RunCounts
    reference: RunCounts
    devices: dict[str, NDArray[np.float64]]


def nas_bench_201(folder: Path) -> Tables:
    """Return the latencies of all 15,625 networks, in the order of the benchmark's numbers."""
    latencies = np.load(folder / "help_nb201_latency.npz")
    codes = np.load(folder / "nb201.npz")["ops"].astype(np.int16)
    return _tables("NAS-Bench-201", "nas_bench_201/nas_bench_201.arch", codes, dict(latencies))


def fbnet(folder: Path) -> Tables:
    """Return the latencies of 5,000 networks."""
    return _of_file(folder / "help_fbnet.npz", "FBNet", "zoo/fbnet.arch", "help_fbnet")


def ofa(folder: Path) -> Tables:
    """Return the latencies of the 220 networks with images of 224 pixels a side."""
    space = "mobilenet_v3_ofa/mobilenet_v3_ofa.arch"
    return _of_file(folder / "help_ofa.npz", "Once-for-all, 224 pixels", space, "help_ofa", "r", 224)


TABLES = {"help_nas_bench_201": nas_bench_201, "help_fbnet": fbnet, "help_ofa": ofa}
"""Functions that read the tables, by name."""


def _of_file(file: Path, name: str, space: str, mapping: str, column: str = "", cell: int = 0) -> Tables:
    """Return the latencies in a file of HELP; with `column`, of rows whose first value there is `cell`."""
    arrays = np.load(file)
    rows = arrays[column][:, 0] == cell if column else slice(None)
    codes = read_codes(file, EXAMPLES / f"tables/{mapping}.toml", archir.load(EXAMPLES / space))
    return _tables(
        name,
        space,
        codes,
        {key.removeprefix("latency_"): arrays[key][rows] for key in arrays if key.startswith("latency_")},
    )


def _tables(name: str, path: str, codes: NDArray[np.int16], devices: dict[str, NDArray[np.float32]]) -> Tables:
    space = archir.load(EXAMPLES / path)
    usual = space.sample_codes(REFERENCE_COUNT, np.random.default_rng(0))
    both = counts_of_codes(space.account, np.concatenate([codes, usual]))
    values = {device: latencies.astype(np.float64) for device, latencies in devices.items()}
    return Tables(name, both[: len(codes)], both[len(codes) :], values)


def evaluate_fit(tables: Tables, device: str, measured: int, draw: int, tested: int) -> tuple[float, float, float]:
    """Fit a model to a random sample of `measured` networks, and evaluate it on `tested` others.

    Returns Spearman's rank correlation, the share of networks within the 95% interval, and the interval's half width
    relative to the median latency.
    """
    latencies = tables.devices[device] * 1e6
    order = np.random.default_rng(draw).permutation(len(latencies))
    fitted, others = order[:measured], order[measured : measured + tested]
    if np.ptp(latencies[fitted]) == 0:  # all latencies are equal, by a coarse clock: no model can be fitted
        return 0.0, float((latencies[others] == latencies[fitted[0]]).mean()), 0.0
    counts = RunCounts(tables.counts.workloads, tables.counts.times[fitted])
    model = fit_model(counts, latencies[fitted], reference=tables.reference)
    entries = np.array([model.entries[workload.key] for workload in tables.counts.workloads])
    predicted = model.offset + tables.counts.times[others] @ entries
    within = np.abs(predicted - latencies[others]) <= model.margin(0.95)
    rank = spearman(predicted, latencies[others]) or 0.0
    return rank, float(within.mean()), model.margin(0.95) / float(np.median(latencies))


def lines(tables: Tables, draws: int, tested: int) -> Iterator[str]:
    """Yield the lines of figures of a table."""
    networks = len(tables.counts.times)
    yield f"{tables.name}: {networks:,} networks, {len(tables.devices)} settings, {draws} draws of measured networks"
    yield "mean over settings and draws of the rank correlation, and of how many lie within the stated 95% interval"
    yield "measured    rank   least setting              within  half width  seconds a fit"
    device_cells: dict[str, list[str]] = {device: [] for device in tables.devices}
    for measured in MEASURED:
        begin = time.process_time()
        means = {
            device: np.mean([evaluate_fit(tables, device, measured, draw, tested) for draw in range(draws)], axis=0)
            for device in tables.devices
        }
        seconds = (time.process_time() - begin) / (len(means) * draws)
        rank, within, width = np.mean(list(means.values()), axis=0)
        worst = min(means, key=lambda device: float(means[device][0]))
        least = f"{means[worst][0]:6.3f} {worst:20}"
        yield f"{measured:8}  {rank:6.3f}  {least} {within:6.1%}  {width:10.1%}  {seconds:.2f}"
        for device, figures in means.items():
            device_cells[device].append(f"{figures[0]:6.3f} {figures[1]:6.1%}")
    yield f"{'setting':20} " + "  ".join(f"{f'{measured} measured':>13}" for measured in MEASURED)
    for device, cells in device_cells.items():
        yield f"{device:20} " + "  ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--tested", type=int, default=2000, help="networks that each fitted model is tested on")
    parser.add_argument("--only", default=",".join(TABLES))
    arguments = parser.parse_args()
    folder = Path(os.environ["ARCHIR_NAS"])
    text: list[str] = []
    for name in arguments.only.split(","):
        part: list[str] = []
        for line in lines(TABLES[name](folder), arguments.draws, arguments.tested):
            print(line, flush=True)
            part.append(line)
        text.append("\n".join(part))
    if arguments.only == ",".join(TABLES):
        RESULTS.write_text("\n\n".join(text) + "\n")


if __name__ == "__main__":
    main()
