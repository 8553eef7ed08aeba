"""Measure how well sums of operations' latencies predict those of networks: the full-attention space at 16 channels."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from measure import Table

import archir

SPACE = Path(__file__).resolve().parent.parent / "examples" / "full_attention" / "full_attention.arch"
DEVICES = {"cpu": ("cpu", "onnxruntime-cpu"), "cuda": ("cuda", "onnxruntime-cuda")}
"""Measured devices of archir, by device of torch."""


def run(device: str, quick: bool) -> Table:
    """Return the table of figures."""
    count = 5 if quick else 20
    table = Table(
        f"latency tables of the full-attention space, 16 channels, batch 1, one thread; {count} random architectures",
        [
            "device", "operations", "table, s", "networks, ms", "rank correlation", "mean error",
            "corrected, leave-one-out", "correction",
        ],
    )  # fmt: skip
    space = archir.load(SPACE, channels=16)
    for name in DEVICES[device.split(":")[0]]:
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            latency_table = archir.measure_operations(space, Path(folder) / "table.json", device=name, threads=1)
            seconds = time.perf_counter() - begin
        validation = archir.validate(latency_table, space, count)
        measured = sorted(network.measured.mean / 1e6 for network in validation.networks)
        line = validation.correction()
        table.add(
            name,
            str(len(latency_table.entries)),
            f"{seconds:.1f}",
            f"{measured[0]:.1f} to {measured[-1]:.1f}",
            f"{validation.rank_correlation:.3f}",
            f"{validation.error:.1%}",
            f"{validation.corrected_error:.1%}",
            f"{line.scale:.3f} x sum {line.offset / 1e6:+.2f} ms",
        )
    return table
