"""Recurrent layers, whose gates ONNX has in another order than torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import operator

ORDERS = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""The places in ONNX of torch's gates."""


@operator("LSTM", "GRU", "RNN")
def recurrent(
    x: Tensor, weight: Tensor, again: Tensor, bias: Tensor | None = None, lengths: Any = None, state: Any = None,
    cells: Any = None, peepholes: Any = None, *, direction: str = "forward", layout: int = 0, hidden_size: int = 0,
    named: str = "LSTM", **given: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """What a layer gives for tokens [N, samples, D], [N, ways, samples, width], and its last states."""
    usual = not given.get("activations") and not given.get("clip") and not given.get("input_forget")
    if not usual or peepholes is not None or direction not in ("forward", "bidirectional"):
        raise RuleError("a recurrent layer with other activations, with clipped or joined gates, or from the end")
    if named == "GRU" and not given.get("linear_before_reset"):
        raise RuleError("a reset gate before the product")
    if any(one is not None for one in (lengths, state, cells)):
        raise RuleError("a recurrent layer with lengths or first states that are given")
    both, order = direction == "bidirectional", ORDERS[named]
    x = x.transpose(0, 1) if layout else x
    params: list[Tensor] = []
    for way in range(weight.shape[0]):
        params += [_ordered(weight[way], order), _ordered(again[way], order)]
        if bias is not None:
            params += [_ordered(one, order) for one in bias[way].chunk(2)]
    first = x.new_zeros(weight.shape[0], x.shape[1], hidden_size)
    with_bias = bias is not None
    if named == "LSTM":
        y, *last = torch.lstm(x, (first, first), params, with_bias, 1, 0.0, False, both, False)
    else:
        function = torch.gru if named == "GRU" else torch.rnn_tanh
        y, *last = function(x, first, params, with_bias, 1, 0.0, False, both, False)
    y = y.unflatten(-1, (weight.shape[0], hidden_size)).transpose(1, 2)
    if layout:
        y, last = y.permute(2, 0, 1, 3), [one.transpose(0, 1) for one in last]
    return y, *last


def _ordered(weight: Tensor, order: Sequence[int]) -> Tensor:
    gates = weight.chunk(len(order))
    return torch.cat([gates[place] for place in order]) if len(order) > 1 else weight
