"""Compare networks from `.arch` files with the same networks written by hand."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from handwritten import DeiTTiny, ResNet50
from handwritten_mobilenet import MobileNetV2
from measure import Table, medians
from torch import nn

import archir

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PAIRS: dict[str, type[nn.Module]] = {"resnet50": ResNet50, "deit_tiny": DeiTTiny, "mobilenet_v2": MobileNetV2}
"""Classes written by hand, by file of `examples`."""


def training(device: str, quick: bool) -> Table:
    """Measure forward and backward passes of both."""
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


def compiled(device: str, quick: bool) -> Table:
    """Measure the same under torch.compile, both as one graph: a graph break is an error.

    On CPUs, times are of the processor, with one thread.
    """
    batch, threads = 4 if device == "cpu" else 64, torch.get_num_threads()
    torch.set_num_threads(1)
    table = Table(
        f"forward and backward under torch.compile, float32, batch {batch}, 224 x 224, no graph breaks"
        + (", one thread, processor time" if device == "cpu" else ""),
        ["network", "first step, s: by hand", "archir", "ms: by hand", "archir", "archir / by hand"],
    )
    x = torch.randn(batch, 3, 224, 224, device=device)
    for name, kind in PAIRS.items():
        first, steps = {}, {}
        for who, network in (("hand", kind()), ("ours", archir.compile(archir.load(EXAMPLES / f"{name}.arch").graph))):
            torch._dynamo.reset()
            network = network.to(device).train()
            fast = torch.compile(network, fullgraph=True)

            def step(network: nn.Module = network, fast: Any = fast) -> None:
                network.zero_grad(set_to_none=True)
                fast(x).sum().backward()
                if device != "cpu":
                    torch.cuda.synchronize()

            begin = time.perf_counter()
            step()
            first[who], steps[who] = time.perf_counter() - begin, step
        clock = time.process_time if device == "cpu" else time.perf_counter
        times = medians(steps, 5 if quick else 15, device, warm=2, clock=clock)
        cells = [f"{first[who]:.0f}" for who in first] + [f"{times[who]:.1f}" for who in first]
        table.add(name, *cells, f"{times['ours'] / times['hand']:.3f}")
    torch.set_num_threads(threads)
    return table
