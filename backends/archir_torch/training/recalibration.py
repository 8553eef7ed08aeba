"""Statistics of batch norms, measured anew: those of a supernet belong to no architecture in particular."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from archir.ops.norm import BatchNorm
from archir_torch.lowering.module import Layer
from archir_torch.lowering.rules import RULES
from archir_torch.training import distributed


@torch.no_grad()
def recalibrate(network: nn.Module, batches: Iterable[Tensor | tuple[Tensor, ...]]) -> None:
    """Set running statistics to their means over all calls in batches of inputs; the network is in evaluation mode
    afterwards.

    Dropout is off meanwhile (Yu and Huang 2019, universally slimmable networks, calibrate so). Processes agree on the
    mean of what each has seen. Without batches, or without batch norms, nothing changes.
    """
    function = RULES[BatchNorm].function
    norms = [layer for layer in network.modules() if isinstance(layer, Layer) and layer.function is function]
    network.eval()
    if not norms:
        return
    for layer in norms:
        layer.train()
        _average_calls(layer)
    try:
        for inputs in batches:
            network(*inputs) if isinstance(inputs, tuple) else network(inputs)
    finally:
        for layer in norms:
            del layer.__dict__["lent"]
    distributed.average(getattr(layer, name) for layer in norms for name in ("running_mean", "running_var"))
    network.eval()


def _average_calls(layer: Layer) -> None:
    """Weigh all calls of a norm alike in its statistics, those of layers that share it too."""
    calls = count(1)

    def lent(function: Callable[..., Tensor], attributes: Mapping[str, Any], *operands: Tensor, **run: Any) -> Tensor:
        attributes = {**attributes, "momentum": 1 / next(calls)}
        return Layer.lent(layer, function, attributes, *operands, **run)

    layer.__dict__["lent"] = lent
