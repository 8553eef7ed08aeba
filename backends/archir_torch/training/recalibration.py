"""Recalibration of batch-norm statistics, because those of a supernet do not fit any single architecture."""

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
    """Set the running statistics of all batch norms to their means over these batches of inputs.

    The network is left in evaluation mode. Dropout is off during recalibration, as in Yu and Huang 2019 (universally
    slimmable networks). Results are averaged over processes. Without batches or batch norms, nothing changes.
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
            del layer.__dict__["call_function"]
    distributed.average(getattr(layer, name) for layer in norms for name in ("running_mean", "running_var"))
    network.eval()


def _average_calls(layer: Layer) -> None:
    """Make a norm average its statistics over all calls with equal weight, including calls by layers that share it."""
    calls = count(1)

    def averaging_call(
        function: Callable[..., Tensor], attributes: Mapping[str, Any], *operands: Tensor, **run: Any
    ) -> Tensor:
        attributes = {**attributes, "momentum": 1 / next(calls)}
        return Layer.call_function(layer, function, attributes, *operands, **run)

    layer.__dict__["call_function"] = averaging_call
