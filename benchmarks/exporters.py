"""Compare ONNX models of archir with those of torch's exporter, improved by whichever optimizer gives the fastest."""

from __future__ import annotations

import logging
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from measure import Table
from torch import Tensor, nn

import archir
from archir.ir.graph import Graph
from archir_torch.lowering import local_attention

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def _sample(path: str, without: str = "") -> Graph:
    """Return the first random architecture without a node in a scope that contains `without`."""
    space = archir.load(EXAMPLES / path)
    drawn = (space.specialize(space.sample(seed)) for seed in range(10_000))
    return next(graph for graph in drawn if not without or all(without not in graph[n].scope for n in graph))


NETWORKS: dict[str, Callable[[], Graph]] = {
    "ResNet-50": lambda: archir.load(EXAMPLES / "resnet50.arch").graph,
    "DeiT-Tiny": lambda: archir.load(EXAMPLES / "deit_tiny.arch").graph,
    "MobileNetV2": lambda: archir.load(EXAMPLES / "mobilenet_v2.arch").graph,
    # torch.export writes names of modules into Python code, and `nonlocal` cannot be one there
    "full attention": lambda: _sample("full_attention/full_attention.arch", without="nonlocal"),
    "TrioNet": lambda: _sample("trionet/trionet.arch"),
    "NOS": lambda: _sample("nos/nos.arch:nos"),
    "GLiT": lambda: _sample("glit/glit.arch"),
}
"""Functions that create the exported networks, by name."""


@dataclass
class ExportedModel:
    """A model file, and the seconds of its export."""

    path: Path
    seconds: float


def run(quick: bool) -> Table:
    """Return the table of comparisons."""
    table = Table(
        "archir's models against the fastest of torch.onnx.export(dynamo=True) alone (onnxscript's optimizer is part of"
        " it),\nwith onnxslim and with onnxsim; onnxruntime CPU, a batch of one; `latency` is a median ratio",
        [
            "network", "theirs", "export, s", "ours, s", "faster", "nodes", "ours", "MB", "ours", "ms", "ours",
            "latency",
        ],
    )  # fmt: skip
    logging.disable(logging.WARNING)
    for name in list(NETWORKS)[: 2 if quick else None]:
        with tempfile.TemporaryDirectory() as folder:
            table.add(name, *_compare(NETWORKS[name](), Path(folder), 7 if quick else 41))
    logging.disable(logging.NOTSET)
    return table


def _compare(graph: Graph, folder: Path, rounds: int) -> list[str]:
    """Return the cells of a network."""
    module = _perturb_vectors(archir.compile(graph).eval())
    x = torch.randn(1, *graph[next(iter(graph.inputs.values()))].op.infer().shape)
    exports = _export_by_torch(module, x, folder) | {"archir": _export_by_archir(graph, module, folder)}
    sessions = {name: _session(export.path) for name, export in exports.items()}
    expected = module(x).detach().numpy()
    for name, session in sessions.items():
        output = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
        assert np.abs(output - expected).max() <= 1e-3 * np.abs(expected).max(), name
    times: dict[str, list[float]] = {name: [] for name in sessions}
    for turn in range(3 + rounds):
        order = list(sessions.items())
        for name, session in order if turn % 2 else reversed(order):
            begin = time.perf_counter()
            session.run(None, {session.get_inputs()[0].name: x.numpy()})
            if turn >= 3:
                times[name].append(1000 * (time.perf_counter() - begin))
    best = min((name for name in exports if name != "archir"), key=lambda name: median(times[name]))
    theirs, ours = exports[best], exports["archir"]
    ratio = median(a / b for a, b in zip(times["archir"], times[best], strict=True))
    return [
        best, f"{theirs.seconds:.2f}", f"{ours.seconds:.3f}", f"{theirs.seconds / ours.seconds:.0f}x",
        str(_nodes(theirs.path)), str(_nodes(ours.path)), f"{_size(theirs.path):.2f}", f"{_size(ours.path):.2f}",
        f"{median(times[best]):.2f}", f"{median(times['archir']):.2f}", f"{ratio:.3f}",
    ]  # fmt: skip


def _perturb_vectors(module: nn.Module) -> nn.Module:
    """Change vectors at random, as training would: optimizers drop biases that are zero, and norms that do nothing."""
    numbers = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.dim() == 1:
                tensor += 0.1 * torch.rand(tensor.shape, generator=numbers)
    return module


def _export_by_archir(graph: Graph, module: nn.Module, folder: Path) -> ExportedModel:
    """Export by archir."""
    onnx_backend, arrays = archir.backends.get("onnx"), archir.backends.get("torch").arrays(module)
    path, seconds = folder / "archir.onnx", []
    for _ in range(5):
        os.sync()  # archir waits until its file is on the disk; earlier writes of others must not count
        begin = time.perf_counter()
        onnx_backend.write(graph, path, arrays, dynamic=())
        seconds.append(time.perf_counter() - begin)
    return ExportedModel(path, median(seconds))


def _export_by_torch(module: nn.Module, x: Tensor, folder: Path) -> dict[str, ExportedModel]:
    """Export by torch, and optimize by onnxslim and by onnxsim."""
    import onnxsim
    import onnxslim

    exported = folder / "exported.onnx"
    begin = time.perf_counter()
    with _exportable(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), exported, dynamo=True, verbose=False, external_data=False)
    exports = {"torch": ExportedModel(exported, time.perf_counter() - begin)}
    optimizers: dict[str, Callable[[Any], Any]] = {
        "onnxslim": onnxslim.slim,
        "onnxsim": lambda model: onnxsim.simplify(model)[0],
    }
    for name, optimize in optimizers.items():
        model = onnx.load(exported)
        begin = time.perf_counter()
        onnx.save(optimize(model), folder / f"{name}.onnx")
        exports[name] = ExportedModel(folder / f"{name}.onnx", exports["torch"].seconds + time.perf_counter() - begin)
    return exports


@contextmanager
def _exportable() -> Iterator[None]:
    """Replace functions that torch's exporter cannot export in reasonable time.

    Local attention unfolds windows (with shifted windows the exporter creates thousands of nodes, in more than ten
    minutes), and attention gets four axes (the exporter supports no five).
    """
    attention, max_unfolded = F.scaled_dot_product_attention, local_attention.MAX_UNFOLDED

    def of_four_axes(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, **options: Any) -> Tensor:
        """Attention over any number of axes as attention over four."""
        if q.dim() == 4:
            return attention(q, k, v, attn_mask=attn_mask, **options)
        q4, k4, v4 = (tensor.flatten(0, -4) for tensor in (q, k, v))
        mask = None if attn_mask is None else attn_mask.flatten(0, -4)
        return attention(q4, k4, v4, attn_mask=mask, **options).unflatten(0, q.shape[:-3])

    F.scaled_dot_product_attention, local_attention.MAX_UNFOLDED = of_four_axes, 1 << 60
    try:
        yield
    finally:
        F.scaled_dot_product_attention, local_attention.MAX_UNFOLDED = attention, max_unfolded


def _session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # a session's threads spin for a while after a run, and would slow down the other session's turn
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def _nodes(path: Path) -> int:
    return len(onnx.load(path).graph.node)


def _size(path: Path) -> float:
    return path.stat().st_size / 1e6
