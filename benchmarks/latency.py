"""How well sums of operations' latencies predict those of whole networks: the full-attention space at 16 channels."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from measure import Table

import archir

SPACE = Path(__file__).resolve().parent.parent / "examples" / "full_attention" / "full_attention.arch"
DEVICES = {"cpu": ("cpu", "onnxruntime-cpu"), "cuda": ("cuda", "onnxruntime-cuda")}


def run(device: str, quick: bool) -> Table:
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
            made = archir.bench(space, Path(folder) / "table.json", device=name, threads=1)
            seconds = time.perf_counter() - begin
        found = archir.validate(made, space, count)
        measured = sorted(one.measured.median / 1e6 for one in found.networks)
        line = found.correction()
        table.add(
            name,
            str(len(made.entries)),
            f"{seconds:.1f}",
            f"{measured[0]:.1f} to {measured[-1]:.1f}",
            f"{found.rank_correlation:.3f}",
            f"{found.error:.1%}",
            f"{found.corrected_error:.1%}",
            f"{line.scale:.3f} x sum {line.offset / 1e6:+.2f} ms",
        )
    return table
