"""ONNX recurrent layers; weights are reordered, as ONNX and torch order gates differently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from archir.diagnostics.errors import RuleError
from archir_torch.importing.calls.operators.registry import onnx_operator

ORDERS = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""For each kind of layer, the index in ONNX's gate order of each gate in torch's order."""
ACTIVATIONS = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}
"""Supported activations of a direction, in lower case, by kind of layer."""


@onnx_operator("LSTM", "GRU", "RNN")
def recurrent(
    x: Tensor, weight: Tensor, recurrent_weight: Tensor, bias: Tensor | None = None, lengths: Any = None,
    state: Any = None,
    cells: Any = None, peepholes: Any = None, *, direction: str = "forward", layout: int = 0, hidden_size: int = 0,
    named: str = "LSTM", **attributes: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Apply a recurrent layer to tokens [N, samples, D].

    Returns the outputs [N, directions, samples, width] and the last states.
    """
    activations = [name.casefold() for name in attributes.get("activations") or ACTIVATIONS[named]]
    is_standard = activations == ACTIVATIONS[named] * (len(activations) // len(ACTIVATIONS[named]))
    is_standard = is_standard and not attributes.get("clip") and not attributes.get("input_forget")
    if not is_standard or peepholes is not None or direction not in ("forward", "bidirectional"):
        raise RuleError("other activations, clipping, peepholes, coupled gates and reverse order are not supported")
    if named == "GRU" and not attributes.get("linear_before_reset"):
        raise RuleError("a GRU is supported only with linear_before_reset")
    if any(tensor is not None for tensor in (lengths, state, cells)):
        raise RuleError("sequence lengths and initial states of recurrent layers are not supported")
    bidirectional, order = direction == "bidirectional", ORDERS[named]
    x = x.transpose(0, 1) if layout else x
    params: list[Tensor] = []
    for direction_index in range(weight.shape[0]):
        params += [
            _reorder_gates(weight[direction_index], order),
            _reorder_gates(recurrent_weight[direction_index], order),
        ]
        if bias is not None:
            params += [_reorder_gates(tensor, order) for tensor in bias[direction_index].chunk(2)]
    initial_state = x.new_zeros(weight.shape[0], x.shape[1], hidden_size)
    with_bias = bias is not None
    if named == "LSTM":
        y, *last = torch.lstm(x, (initial_state, initial_state), params, with_bias, 1, 0.0, False, bidirectional, False)
    else:
        function = torch.gru if named == "GRU" else torch.rnn_tanh
        y, *last = function(x, initial_state, params, with_bias, 1, 0.0, False, bidirectional, False)
    y = y.unflatten(-1, (weight.shape[0], hidden_size)).transpose(1, 2)
    if layout:
        y, last = y.permute(2, 0, 1, 3), [tensor.transpose(0, 1) for tensor in last]
    return y, *last


def _reorder_gates(weight: Tensor, order: Sequence[int]) -> Tensor:
    """Reorder the gates of a weight from ONNX's order to torch's."""
    gates = weight.chunk(len(order))
    return torch.cat([gates[place] for place in order]) if len(order) > 1 else weight
