"""Statistics of batch norms, measured anew: those of a supernet belong to no architecture in particular."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from archir.ops.norm import BatchNorm
from archir_torch.lowering.module import Layer
from archir_torch.lowering.rules import RULES
from archir_torch.training import distributed


@torch.no_grad()
def recalibrate(network: nn.Module, batches: Iterable[Tensor | tuple[Tensor, ...]]) -> None:
    """Set running statistics to their means over batches of inputs; the network is in evaluation mode afterwards.

    Dropout is off meanwhile (Yu and Huang 2019, universally slimmable networks, calibrate so). Processes agree on the
    mean of what each has seen. Without batches, or without batch norms, nothing changes.
    """
    function = RULES[BatchNorm].function
    norms = [layer for layer in network.modules() if isinstance(layer, Layer) and layer.function is function]
    network.eval()
    if not norms:
        return
    before = [layer.attributes["momentum"] for layer in norms]
    for layer in norms:
        layer.train()
    for number, inputs in enumerate(batches, 1):
        for layer in norms:
            layer.attributes["momentum"] = 1 / number
        network(*inputs) if isinstance(inputs, tuple) else network(inputs)
    for layer, momentum in zip(norms, before, strict=True):
        layer.attributes["momentum"] = momentum
    distributed.average(getattr(layer, name) for layer in norms for name in ("running_mean", "running_var"))
    network.eval()
