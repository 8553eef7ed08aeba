"""ONNX models of archir against those of torch's exporter, made better by whichever optimizer makes the fastest one."""

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


def _sampled(path: str, without: str = "") -> Graph:
    """The first random architecture in which no name is `without`."""
    space = archir.load(EXAMPLES / path)
    drawn = (space.specialize(space.sample(seed)) for seed in range(10_000))
    return next(graph for graph in drawn if not without or all(without not in graph[n].scope for n in graph))


NETWORKS: dict[str, Callable[[], Graph]] = {
    "ResNet-50": lambda: archir.load(EXAMPLES / "resnet50.arch").graph,
    "DeiT-Tiny": lambda: archir.load(EXAMPLES / "deit_tiny.arch").graph,
    "MobileNetV2": lambda: archir.load(EXAMPLES / "mobilenet_v2.arch").graph,
    # torch.export writes names of modules into Python code, and `nonlocal` cannot be one there
    "full attention": lambda: _sampled("full_attention/full_attention.arch", without="nonlocal"),
    "TrioNet": lambda: _sampled("trionet/trionet.arch"),
    "NOS": lambda: _sampled("nos/nos.arch:nos"),
    "GLiT": lambda: _sampled("glit/glit.arch"),
}


@dataclass
class Made:
    """A model file, and the seconds it took."""

    path: Path
    seconds: float


def run(quick: bool) -> Table:
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
            table.add(name, *_compared(NETWORKS[name](), Path(folder), 7 if quick else 41))
    logging.disable(logging.NOTSET)
    return table


def _compared(graph: Graph, folder: Path, rounds: int) -> list[str]:
    module = _trained(archir.compile(graph).eval())
    x = torch.randn(1, *graph[next(iter(graph.inputs.values()))].op.infer().shape)
    made = _theirs(module, x, folder) | {"archir": _ours(graph, module, folder)}
    sessions = {name: _session(one.path) for name, one in made.items()}
    wanted = module(x).detach().numpy()
    for name, running in sessions.items():
        found = running.run(None, {running.get_inputs()[0].name: x.numpy()})[0]
        assert np.abs(found - wanted).max() <= 1e-3 * np.abs(wanted).max(), name
    times: dict[str, list[float]] = {name: [] for name in sessions}
    for turn in range(3 + rounds):
        order = list(sessions.items())
        for name, running in order if turn % 2 else reversed(order):
            begin = time.perf_counter()
            running.run(None, {running.get_inputs()[0].name: x.numpy()})
            if turn >= 3:
                times[name].append(1000 * (time.perf_counter() - begin))
    best = min((name for name in made if name != "archir"), key=lambda name: median(times[name]))
    theirs, ours = made[best], made["archir"]
    ratio = median(a / b for a, b in zip(times["archir"], times[best], strict=True))
    return [
        best, f"{theirs.seconds:.2f}", f"{ours.seconds:.3f}", f"{theirs.seconds / ours.seconds:.0f}x",
        str(_nodes(theirs.path)), str(_nodes(ours.path)), f"{_size(theirs.path):.2f}", f"{_size(ours.path):.2f}",
        f"{median(times[best]):.2f}", f"{median(times['archir']):.2f}", f"{ratio:.3f}",
    ]  # fmt: skip


def _trained(module: nn.Module) -> nn.Module:
    """As if it were: optimizers leave out biases that are zero, and norms that do nothing."""
    numbers = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.dim() == 1:
                tensor += 0.1 * torch.rand(tensor.shape, generator=numbers)
    return module


def _ours(graph: Graph, module: nn.Module, folder: Path) -> Made:
    onnx_backend, arrays = archir.backends.get("onnx"), archir.backends.get("torch").arrays(module)
    path, seconds = folder / "archir.onnx", []
    for _ in range(5):
        os.sync()  # archir waits until its file is on the disk: what others wrote before is not to count
        begin = time.perf_counter()
        onnx_backend.write(graph, path, arrays, dynamic=())
        seconds.append(time.perf_counter() - begin)
    return Made(path, median(seconds))


def _theirs(module: nn.Module, x: Tensor, folder: Path) -> dict[str, Made]:
    import onnxsim
    import onnxslim

    plain = folder / "exported.onnx"
    begin = time.perf_counter()
    with _exportable(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), plain, dynamo=True, verbose=False, external_data=False)
    made = {"torch": Made(plain, time.perf_counter() - begin)}
    optimizers: dict[str, Callable[[Any], Any]] = {
        "onnxslim": onnxslim.slim,
        "onnxsim": lambda model: onnxsim.simplify(model)[0],
    }
    for name, optimize in optimizers.items():
        model = onnx.load(plain)
        begin = time.perf_counter()
        onnx.save(optimize(model), folder / f"{name}.onnx")
        made[name] = Made(folder / f"{name}.onnx", made["torch"].seconds + time.perf_counter() - begin)
    return made


@contextmanager
def _exportable() -> Iterator[None]:
    """What torch's exporter can take: windows that are unfolded (of shifted ones it makes thousands of nodes, in more
    than ten minutes), attention of four axes (of five it takes none)."""
    attention, small = F.scaled_dot_product_attention, local_attention.MAX_UNFOLDED

    def of_four_axes(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, **options: Any) -> Tensor:
        if q.dim() == 4:
            return attention(q, k, v, attn_mask=attn_mask, **options)
        q4, k4, v4 = (one.flatten(0, -4) for one in (q, k, v))
        mask = None if attn_mask is None else attn_mask.flatten(0, -4)
        return attention(q4, k4, v4, attn_mask=mask, **options).unflatten(0, q.shape[:-3])

    F.scaled_dot_product_attention, local_attention.MAX_UNFOLDED = of_four_axes, 1 << 60
    try:
        yield
    finally:
        F.scaled_dot_product_attention, local_attention.MAX_UNFOLDED = attention, small


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
