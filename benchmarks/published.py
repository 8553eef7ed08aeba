"""What archir counts of networks, against what benchmarks publish of all of theirs.

ARCHIR_NAS=FOLDER python benchmarks/published.py

The folder has the arrays of the benchmarks, `nb201.npz`, `nb_macro.npz` and `accel_nasbench.npz`, whose columns are
what `examples/tables` says. The figures are kept in `benchmarks/results/published_cpu.txt`.
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
"""NAS-Bench-201's operations with weights, and how many parameters one has in the fifteen cells."""


def main() -> None:
    folder = Path(os.environ["ARCHIR_NAS"])
    text = "\n\n".join("\n".join(lines(folder)) for lines in (nas_bench_201, nas_bench_macro, accel_nasbench)) + "\n"
    print(text)
    (RESULTS / "published_cpu.txt").write_text(text)


def nas_bench_201(folder: Path) -> Iterator[str]:
    """Parameters of all networks, and those that differ by name."""
    arrays = np.load(folder / "nb201.npz")
    names = tomllib.loads((EXAMPLES / "tables/nas_bench_201.toml").read_text())["labels"]["*"]
    differing: dict[int, int] = {}
    yield "NAS-Bench-201: parameters published and counted, of 15,625 networks"
    for data, classes, size in (("cifar10", 10, 32), ("cifar100", 100, 32), ("imagenet16", 120, 16)):
        space = archir.load(EXAMPLES / NB201, classes=classes, size=size)
        off = arrays[f"params_{data}"] - counted(space, folder / "nb201.npz", "nas_bench_201")["params"]
        wrong = {int(row): int(off[row]) for row in np.flatnonzero(off)}
        assert not differing or differing == wrong
        differing = wrong
        yield f"{data:10}  equal {len(off) - len(wrong):6,}  differ {len(wrong)}"
    yield "The same networks differ on all three, each by the parameters of exactly one operation in all fifteen cells:"
    for off, count in sorted(Counter(differing.values()).items()):
        yield f"{count:4} are published with one {OPERATIONS[abs(off)]} too {'many' if off > 0 else 'few'} ({off:+,})"
    yield "They are, by the benchmark's number:"
    for row, off in differing.items():
        cell = iter(names[one] for one in arrays["ops"][row])
        text = "+".join("|" + "|".join(f"{next(cell)}~{i}" for i in range(node)) + "|" for node in (1, 2, 3))
        yield f"{row:6} {off:+8,} {text}"


def nas_bench_macro(folder: Path) -> Iterator[str]:
    """Parameters and multiply-accumulates of all networks."""
    arrays = np.load(folder / "nb_macro.npz")
    ours = counted(archir.load(EXAMPLES / MACRO), folder / "nb_macro.npz", "nas_bench_macro")
    yield f"NAS-Bench-Macro: {len(arrays['params']):,} networks"
    for theirs, name in (("params", "params"), ("flops", "macs")):
        yield f"{name:6}  equal {int((arrays[theirs] == ours[name]).sum()):6,}"


def accel_nasbench(folder: Path) -> Iterator[str]:
    """The same, and what the published multiply-accumulates have besides."""
    path = folder / "accel_nasbench.npz"
    arrays, space = np.load(path), archir.load(EXAMPLES / ACCEL)
    ours = counted(space, path, "accel_nasbench")
    params, macs = (np.rint(arrays[f"{name}_m"] * 1e6).astype(np.int64) for name in ("params", "macs"))
    codes = codes_of(space, path, "accel_nasbench")
    besides = np.array([other_operations(space.specialize(space.decode(tuple(row)))) for row in codes.tolist()])
    yield f"Accel-NASBench: {len(params):,} networks"
    yield f"params  equal {int((params == ours['params']).sum()):6,}"
    yield f"macs    equal {int((macs == ours['macs']).sum()):6,}"
    yield f"macs    equal {int((macs == ours['macs'] + besides).sum()):6,} with what they count besides:"
    yield "        four operations for each number that a batch norm makes, one for each that an average over all"
    yield "        positions reads or makes"


def other_operations(graph: Graph) -> int:
    """What is counted there beside multiply-accumulates."""
    types, found = checked_types(graph), 0
    for number in graph:
        made = prod(types[number].shape)
        if isinstance(graph[number].op, BatchNorm):
            found += 4 * made
        elif isinstance(graph[number].op, GlobalAvgPool):
            found += made + prod(types[graph.operands(number)[0]].shape)
    return found


def counted(space: Space, path: Path, mapping: str) -> dict[str, NDArray[np.int64]]:
    """What archir counts of each row's network."""
    return space.cost(codes_of(space, path, mapping), ["params", "macs"])


def codes_of(space: Space, path: Path, mapping: str) -> NDArray[np.int16]:
    """The architecture of each row of a table. All are of the space."""
    codes = read_codes(path, EXAMPLES / f"tables/{mapping}.toml", space)
    assert (codes > -2).all()
    return codes


if __name__ == "__main__":
    main()
