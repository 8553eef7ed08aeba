"""Networks from `.arch` files against the same ones by hand; ONNX export against torch's own exporter."""

from __future__ import annotations

import logging
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import onnxruntime
import torch
from handwritten import DeiTTiny, ResNet50
from measure import Table, medians
from torch import nn

import archir

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
            slow = median(
                _seconds(lambda m=module, x=x, to=theirs: _dynamo(m, x, to)) for _ in range(1 if quick else 3)
            )
            arrays = torch_backend.arrays(module)
            fast = median(_seconds(lambda g=graph, a=arrays, to=ours: onnx_backend.write(g, to, a)) for _ in range(5))
            sessions = {key: _session(path) for key, path in (("theirs", theirs), ("ours", ours))}
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
    return table


def _dynamo(module: nn.Module, x: torch.Tensor, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), path, dynamo=True, verbose=False, external_data=False)


def _seconds(work: Callable[[], object]) -> float:
    os.sync()  # archir waits until its file is on the disk: what others wrote before is not to count
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # a session's threads spin for a while after a run, and would slow down the other session's turn
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
