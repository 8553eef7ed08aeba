"""Load test of the HTTP service in `examples/serve`: clients that send the next request once the last is answered."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import Table

import archir

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.service import cases, load, running  # noqa: E402

NETWORKS = {
    "digits, 3 convolutions": """net digits {
        input image: f32[1, 8, 8]
        x = image |> conv(16) |> relu |> conv(16) |> relu |> conv(32, stride=2) |> relu
        output logits = x |> global_avg_pool |> linear(10)
    }""",
    "MobileNetV2 at 224 pixels": ROOT / "examples" / "mobilenet_v2.arch",
}
CLIENTS = (1, 8, 32)


def run(quick: bool) -> Table:
    """Return the table of figures."""
    seconds = 1 if quick else 10
    table = Table(
        f"the service of examples/serve, one thread for the model, {seconds} s of requests with a random sample each; "
        "bench: median of `archir bench` with a batch of 1",
        ["network", "clients", "requests a second", "p50, ms", "p99, ms", "batch", "bench, ms"],
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, source in NETWORKS.items():
            space = archir.load(source) if isinstance(source, Path) else archir.loads(source)
            model = folder / "net.onnx"
            archir.export(space.graph, model, archir.compile(space.graph), certified=True)
            (alone,) = archir.bench(model, on=["onnxruntime-cpu"], threads=1, seconds=seconds).measurements
            for clients in CLIENTS:
                with running(model, folder, "--notice", "0") as service:
                    before = service.counted()
                    done = asyncio.run(load(service.port, cases(model, min(64, clients)), clients, seconds))
                    after = service.counted()
                assert done.wrong == [], done.wrong[0]
                counters = ("serve_samples_total", "serve_batches_total")
                samples, batches = (after[counter] - before[counter] for counter in counters)
                p50, p99 = np.percentile(done.latencies, [50, 99])
                table.add(
                    name, str(clients), f"{len(done.latencies) / seconds:,.0f}", f"{1e3 * p50:.1f}", f"{1e3 * p99:.1f}",
                    f"{samples / batches:.1f}", f"{alone.latency.percentile(50) / 1e6:.2f}",
                )  # fmt: skip
    return table
