"""Networks from `.arch` files against the same ones by hand; ONNX export against torch's own exporter."""

from __future__ import annotations

import logging
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from handwritten import DeiTTiny, ResNet50
from measure import Table, medians
from torch import nn

import archir
from archir_onnx.verify import session

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PAIRS: dict[str, type[nn.Module]] = {"resnet50": ResNet50, "deit_tiny": DeiTTiny}


def training(device: str, quick: bool) -> Table:
    table = Table(
        "forward and backward, eager, float32, 224 x 224",
        ["network", "batch", "by hand, ms", "archir, ms", "archir / by hand"],
    )
    batch = 4 if device == "cpu" else 64
    for name, kind in PAIRS.items():
        ours = archir.compile(archir.load(EXAMPLES / f"{name}.arch").graph).to(device).train()
        theirs = kind().to(device).train()
        assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
        x = torch.randn(batch, 3, 224, 224, device=device)

        def step(module: nn.Module, x: torch.Tensor = x) -> None:
            module.zero_grad(set_to_none=True)
            module(x).sum().backward()

        times = medians({"hand": lambda m=theirs: step(m), "ours": lambda m=ours: step(m)}, 5 if quick else 11, device)
        ratio = times["ours"] / times["hand"]
        table.add(name, str(batch), f"{times['hand']:.1f}", f"{times['ours']:.1f}", f"{ratio:.3f}")
    return table


def exporting(quick: bool) -> Table:
    table = Table(
        "ONNX export, and latency of the models in onnxruntime (CPU, batch 1)",
        ["network", "torch.onnx.export, s", "archir, s", "faster", "its latency, ms", "ours, ms", "ours / its"],
    )
    logging.disable(logging.WARNING)
    graphs = {name: archir.load(EXAMPLES / f"{name}.arch").graph for name in PAIRS}
    if not quick:
        graphs["mobilenet_v2"] = archir.load(EXAMPLES / "mobilenet_v2.arch").graph
    torch_backend, onnx_backend = archir.backends.get("torch"), archir.backends.get("onnx")
    for name, graph in graphs.items():
        module = archir.compile(graph).eval()
        shape = graph[next(iter(graph.inputs.values()))].op.infer().shape
        x = torch.randn(1, *shape)
        with tempfile.TemporaryDirectory() as folder:
            theirs, ours = Path(folder) / "theirs.onnx", Path(folder) / "ours.onnx"
            begin = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(module, (x,), theirs, dynamo=True, verbose=False, external_data=False)
            slow = time.perf_counter() - begin
            took = []
            for _ in range(3):
                begin = time.perf_counter()
                onnx_backend.write(graph, ours, torch_backend.arrays(module))
                took.append(time.perf_counter() - begin)
            fast = sorted(took)[1]
            sessions = {key: session(path) for key, path in (("theirs", theirs), ("ours", ours))}
            feed = np.asarray(x)
            calls = {key: (lambda s=s: s.run(None, {s.get_inputs()[0].name: feed})) for key, s in sessions.items()}
            times = medians(calls, 15 if quick else 41, warm=5)
        ratio = times["ours"] / times["theirs"]
        table.add(
            name,
            f"{slow:.2f}",
            f"{fast:.3f}",
            f"{slow / fast:.0f}x",
            f"{times['theirs']:.2f}",
            f"{times['ours']:.2f}",
            f"{ratio:.3f}",
        )
    logging.disable(logging.NOTSET)
    assert onnxruntime.__version__
    return table
