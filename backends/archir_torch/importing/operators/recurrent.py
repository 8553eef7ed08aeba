"""Import of recurrent layers, unrolled in the same way as the recurrent blocks of the standard library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from archir.ir.graph import NodeId
from archir.language.decompiler.recurrences import recurrent_net
from archir.ops.activation import Tanh
from archir.ops.conv import Linear
from archir_torch.importing.builder import Builder, uniform_value
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Atom, Unsupported, Value
from archir_torch.importing.operators.movement import cat, select, stack, transpose
from archir_torch.importing.rules import torch_operator

MAX_TOKENS = 256
"""Maximum number of time steps of an unrolled recurrent layer."""


def _recurrent_stack(
    name: str, b: Builder, x: Value, states: Any, params: Sequence[Constant], biases: bool, layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> list[Any]:  # fmt: skip
    """Import a stack of recurrent layers of one kind. Returns the outputs and the last states.

    `bidirectional` layers run in both directions; `batch_first` is True if the first axis is the batch.
    """
    initial_states = list(states) if isinstance(states, list | tuple) else [states]
    if not all(isinstance(tensor, Constant) and uniform_value(tensor) == 0 for tensor in initial_states):
        raise Unsupported("states before the first token that are not 0")
    if not all(isinstance(tensor, Constant) for tensor in params):
        raise Unsupported("weights of a recurrent layer that depend on inputs")
    count, directions = 4 if biases else 2, 2 if bidirectional else 1
    if len(params) != count * layers * directions:
        raise Unsupported("a recurrent layer with a projection of its states")
    x = x if batch_first else transpose(b, x, 0, 1)
    last: list[tuple[Value, Value]] = []
    for depth in range(layers):
        results = []
        for direction in range(directions):
            begin = (depth * directions + direction) * count
            results.append(_add_layer(b, name, x, params[begin : begin + count], bool(direction)))
            y, cells = results[-1]
            last.append((select(b, y, 1, 0 if direction else x.shape[1] - 1), cells))
        x = cat(b, [y for y, _ in results], 2) if bidirectional else results[0][0]
    last_states = [stack(b, list(tensor), 0) for tensor in zip(*last, strict=True)]
    return [x if batch_first else transpose(b, x, 0, 1), *(last_states if name == "lstm" else last_states[:1])]


def _add_layer(b: Builder, name: str, x: Value, params: Sequence[Constant], reverse: bool) -> tuple[Value, Value]:
    """Add one recurrent layer in one direction.

    Returns its outputs [B, N, width], and the last cell state of an LSTM.
    """
    tokens, features, width = x.shape[1], x.shape[2], params[1].tensor.shape[1]
    if x.axes[0] != (b.batch,):
        raise Unsupported("a recurrent layer with other axes folded into the batch axis")
    if tokens > MAX_TOKENS:
        raise Unsupported(f"a recurrent layer of {tokens} tokens, which are more than {MAX_TOKENS}")
    graph = recurrent_net(name, tokens, features, width, len(params) > 2, len(params) > 2, reverse)
    source = b.with_base(x, x.axes[1:])
    (start,) = graph.inputs.values()
    nodes: dict[NodeId, NodeId] = {start: b.node(source)}
    for number in graph:
        if number == start:
            continue
        op, operands = graph[number].op, graph.operands(number)
        operand_nodes = [nodes[operand] for operand in operands]
        if isinstance(op, Linear):
            weights = params[0::2] if start in operands else params[1::2]
            nodes[number] = b.add_layer(op, dict(zip(("weight", "bias"), weights, strict=False)), *operand_nodes)
        else:
            nodes[number] = b.add(op, *operand_nodes)
    (end,) = graph.outputs.values()
    state = graph.operands(end)[0 if reverse else -1]
    cell = next(
        (graph.operands(candidate)[0] for candidate in graph.operands(state) if isinstance(graph[candidate].op, Tanh)),
        state,
    )
    base = (source.base[0], (Atom(width),) if width > 1 else ())
    y = Value(nodes[end], base, ((b.batch,), *base))
    return y, replace(y, node=nodes[cell], base=((), base[1]), axes=((b.batch,), base[1]))


for _operator, _name in (("lstm", "lstm"), ("gru", "gru"), ("rnn_tanh", "rnn")):
    torch_operator(_operator)(partial(_recurrent_stack, _name))
