"""Networks from `.arch` files against the same ones by hand."""

from __future__ import annotations

from pathlib import Path

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
