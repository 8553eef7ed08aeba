"""Compare the costs that archir counts with those that benchmarks publish of all their networks.

ARCHIR_NAS=FOLDER python benchmarks/published.py

The folder has the arrays of the benchmarks, `nb201.npz`, `nb_macro.npz` and `accel_nasbench.npz`, with the columns that
`examples/tables` describes. The figures are kept in `benchmarks/results/published_cpu.txt`.
"""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import archir
from archir.ir.graph import Graph
from archir.ir.verify import checked_types
from archir.ops.norm import BatchNorm
from archir.ops.pool import GlobalAvgPool
from archir.spaces.space import Space
from archir.tabular.results import read_codes

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES, RESULTS = ROOT / "examples", ROOT / "benchmarks" / "results"
NB201, MACRO, ACCEL = "nas_bench_201/nas_bench_201.arch", "zoo/nas_bench_macro.arch", "zoo/accel_mnasnet.arch"
OPERATIONS = {28_000: "nor_conv_1x1", 243_040: "nor_conv_3x3"}
"""NAS-Bench-201's operations with weights, by their number of parameters in the fifteen cells."""


def main() -> None:
    folder = Path(os.environ["ARCHIR_NAS"])
    text = "\n\n".join("\n".join(lines(folder)) for lines in (nas_bench_201, nas_bench_macro, accel_nasbench)) + "\n"
    print(text)
    (RESULTS / "published_cpu.txt").write_text(text)


def nas_bench_201(folder: Path) -> Iterator[str]:
    """Yield lines about the parameters of all networks, and the names of those that differ."""
    arrays = np.load(folder / "nb201.npz")
    names = tomllib.loads((EXAMPLES / "tables/nas_bench_201.toml").read_text())["labels"]["*"]
    differing: dict[int, int] = {}
    yield "NAS-Bench-201: parameters published and counted, of 15,625 networks"
    for data, classes, size in (("cifar10", 10, 32), ("cifar100", 100, 32), ("imagenet16", 120, 16)):
        space = archir.load(EXAMPLES / NB201, classes=classes, size=size)
        excess = arrays[f"params_{data}"] - count_costs(space, folder / "nb201.npz", "nas_bench_201")["params"]
        wrong = {int(row): int(excess[row]) for row in np.flatnonzero(excess)}
        assert not differing or differing == wrong
        differing = wrong
        yield f"{data:10}  equal {len(excess) - len(wrong):6,}  differ {len(wrong)}"
    yield "The same networks differ on all three, each by the parameters of exactly one operation in all fifteen cells:"
    for excess, count in sorted(Counter(differing.values()).items()):
        direction = "many" if excess > 0 else "few"
        yield f"{count:4} are published with one {OPERATIONS[abs(excess)]} too {direction} ({excess:+,})"
    yield "They are, by the benchmark's number:"
    for row, excess in differing.items():
        cell = iter(names[code] for code in arrays["ops"][row])
        text = "+".join("|" + "|".join(f"{next(cell)}~{i}" for i in range(node)) + "|" for node in (1, 2, 3))
        yield f"{row:6} {excess:+8,} {text}"


def nas_bench_macro(folder: Path) -> Iterator[str]:
    """Yield lines about parameters and multiply-accumulates of all networks."""
    arrays = np.load(folder / "nb_macro.npz")
    ours = count_costs(archir.load(EXAMPLES / MACRO), folder / "nb_macro.npz", "nas_bench_macro")
    yield f"NAS-Bench-Macro: {len(arrays['params']):,} networks"
    for theirs, name in (("params", "params"), ("flops", "macs")):
        yield f"{name:6}  equal {int((arrays[theirs] == ours[name]).sum()):6,}"


def accel_nasbench(folder: Path) -> Iterator[str]:
    """Yield lines about both costs, and about the operations that the published multiply-accumulates include."""
    path = folder / "accel_nasbench.npz"
    arrays, space = np.load(path), archir.load(EXAMPLES / ACCEL)
    ours = count_costs(space, path, "accel_nasbench")
    params, macs = (np.rint(arrays[f"{name}_m"] * 1e6).astype(np.int64) for name in ("params", "macs"))
    codes = codes_of(space, path, "accel_nasbench")
    additional = np.array([other_operations(space.specialize(space.decode(tuple(row)))) for row in codes.tolist()])
    yield f"Accel-NASBench: {len(params):,} networks"
    yield f"params  equal {int((params == ours['params']).sum()):6,}"
    yield f"macs    equal {int((macs == ours['macs']).sum()):6,}"
    yield f"macs    equal {int((macs == ours['macs'] + additional).sum()):6,} with what they count besides:"
    yield "        four operations for each number that a batch norm makes, one for each that an average over all"
    yield "        positions reads or makes"


def other_operations(graph: Graph) -> int:
    """Return the number of operations that Accel-NASBench counts in addition to multiply-accumulates."""
    types, count = checked_types(graph), 0
    for number in graph:
        elements = prod(types[number].shape)
        if isinstance(graph[number].op, BatchNorm):
            count += 4 * elements
        elif isinstance(graph[number].op, GlobalAvgPool):
            count += elements + prod(types[graph.operands(number)[0]].shape)
    return count


def count_costs(space: Space, path: Path, mapping: str) -> dict[str, NDArray[np.int64]]:
    """Return archir's costs of each row's network."""
    return space.cost(codes_of(space, path, mapping), ["params", "macs"])


def codes_of(space: Space, path: Path, mapping: str) -> NDArray[np.int16]:
    """Return the encoded architecture of each row of a table; all must be in the space."""
    codes = read_codes(path, EXAMPLES / f"tables/{mapping}.toml", space)
    assert (codes > -2).all()
    return codes


if __name__ == "__main__":
    main()
