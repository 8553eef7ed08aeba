"""Measure the work on spaces before any network is built: loading, counting, sampling, mutation, specialisation."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
from measure import Table
from torch.utils.flop_counter import FlopCounterMode

import archir

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SPACE = EXAMPLES / "full_attention" / "full_attention.arch"
NINE = {
    "full attention": "full_attention/full_attention.arch",
    "TrioNet": "trionet/trionet.arch",
    "AutoLA": "autola/autola.arch",
    "NOS": "nos/nos.arch:nos",
    "GLiT": "glit/glit.arch",
    "DARTS": "darts/darts.arch:darts",
    "NAS-Bench-201": "nas_bench_201/nas_bench_201.arch",
    "OFA-MobileNetV3": "mobilenet_v3_ofa/mobilenet_v3_ofa.arch",
    "AutoFormer-Tiny": "autoformer/autoformer.arch",
}
"""The nine published spaces, by file below `examples`."""


def seconds_per_call(run: object, count: int, rounds: int = 7) -> float:
    """Return seconds per call: the median of `rounds` runs of `count` calls."""
    samples = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(count):
            run()  # type: ignore[operator]
        samples.append((time.perf_counter() - begin) / count)
    return median(samples)


def run(quick: bool) -> Table:
    table = Table("the full-attention space (4,747,561,509,943 architectures, 1,003 nodes)", ["what", "figure"])
    load = seconds_per_call(lambda: archir.load(SPACE).size, 1, 3 if quick else 7)
    table.add("load, check every shape, count", f"{1000 * load:.0f} ms")
    space = archir.load(SPACE)
    rng = random.Random(0)
    numbers = np.random.default_rng(0)
    architecture = space.sample(rng)
    batched = seconds_per_call(lambda: space.sample_codes(100_000, numbers), 1)
    table.add("sampling in batches of 100,000", f"{100_000 / batched:,.0f} architectures/s")
    table.add("one sample", f"{1e6 * seconds_per_call(lambda: space.sample(rng), 300):.1f} us")
    table.add("one mutation", f"{1e6 * seconds_per_call(lambda: space.mutate(architecture, rng), 1000):.1f} us")
    table.add(
        "specialise one architecture", f"{1e3 * seconds_per_call(lambda: space.specialize(architecture), 30):.2f} ms"
    )
    graph = space.specialize(architecture)
    table.add("its parameters and MACs", f"{1e3 * seconds_per_call(lambda: archir.cost(graph), 10):.2f} ms")
    command = [sys.executable, "-m", "archir", "check", str(SPACE)]
    process_time = seconds_per_call(
        lambda: subprocess.run(command, check=True, capture_output=True), 1, 3 if quick else 9
    )
    table.add("archir check, whole process", f"{process_time:.2f} s")
    return table


def nine(quick: bool) -> Table:
    """Return the table of checking, specialising, sampling and costing in each of the published spaces, at full
    size."""
    heads = ["space", "nodes", "archir check, s", "specialise, ms", "10,000 samples, s", "costs, architectures/s"]
    table = Table("the published spaces, full size; params, MACs and activation bytes at once, one core", heads)
    rng = np.random.default_rng(0)
    for name, path in NINE.items():
        space = archir.load(EXAMPLES / path)
        file = str(EXAMPLES / path).partition(":")[0]
        command = [sys.executable, "-m", "archir", "check", file]
        check = seconds_per_call(lambda c=command: subprocess.run(c, check=True, capture_output=True), 1, 3)
        architectures = [space.sample(seed) for seed in range(5 if quick else 20)]
        specialise_time = median(seconds_per_call(lambda a=a, s=space: s.specialize(a), 1, 3) for a in architectures)
        samples = seconds_per_call(lambda s=space: s.sample_codes(10_000, rng), 1, 3)
        codes = space.sample_codes(200_000, rng)
        space.cost(codes[:1])
        costs = len(codes) / seconds_per_call(lambda s=space, c=codes: s.cost(c), 1, 3)
        table.add(
            name,
            f"{len(space.graph):,}",
            f"{check:.2f}",
            f"{1000 * specialise_time:.2f}",
            f"{samples:.3f}",
            f"{costs:,.0f}",
        )
    return table


def counters(quick: bool) -> Table:
    """Return the table of counting by tables, and by building each module and counting it."""
    heads = ["space", "built and counted, architectures/s", "tables, architectures/s", "faster"]
    table = Table("params and MACs: torch modules and torch.utils.flop_counter, or tables; one thread", heads)
    torch.set_num_threads(1)
    torch_backend = archir.backends.get("torch")
    for name in ("TrioNet", "OFA-MobileNetV3", "GLiT"):
        space = archir.load(EXAMPLES / NINE[name])
        graphs = [space.specialize(space.sample(seed)) for seed in range(3 if quick else 20)]
        begin = time.perf_counter()
        for graph in graphs:
            module = (
                torch_backend.lower(graph).eval().requires_grad_(False)
            )  # the counter fails at results that are parameters
            sum(parameter.numel() for parameter in module.parameters())
            counter = FlopCounterMode(display=False)
            with counter, torch.no_grad():
                module(torch.zeros(1, *graph[next(iter(graph.inputs.values()))].op.infer().shape))
        built = len(graphs) / (time.perf_counter() - begin)
        codes = space.sample_codes(200_000, np.random.default_rng(0))
        space.cost(codes[:1])
        fast = len(codes) / seconds_per_call(lambda s=space, c=codes: s.cost(c, ["params", "macs"]), 1, 5)
        table.add(name, f"{built:.2f}", f"{fast:,.0f}", f"{fast / built:,.0f}x")
    return table
