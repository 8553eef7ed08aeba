"""Recurrent layers, written out as the library's blocks are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from archir.ir.graph import NodeId
from archir.language.decompiler.recurrences import layer
from archir.ops.activation import Tanh
from archir.ops.conv import Linear
from archir_torch.importing.builder import Builder, number_of
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Atom, Unsupported, Value
from archir_torch.importing.operators.movement import cat, select, stack, transpose
from archir_torch.importing.rules import understands

MOST_TOKENS = 256
"""Steps that are written out."""


def _recurrent(
    name: str, b: Builder, x: Value, states: Any, params: Sequence[Constant], biases: bool, layers: int,
    dropout: float, train: bool, both: bool, first: bool,
) -> list[Any]:  # fmt: skip
    """Layers of a kind, from the first token on or both ways; what they give, and the last states."""
    given = list(states) if isinstance(states, list | tuple) else [states]
    if not all(isinstance(one, Constant) and number_of(one) == 0 for one in given):
        raise Unsupported("states before the first token that are not 0")
    if not all(isinstance(one, Constant) for one in params):
        raise Unsupported("recurrent weights that depend on inputs")
    count, ways = 4 if biases else 2, 2 if both else 1
    if len(params) != count * layers * ways:
        raise Unsupported("a recurrent layer with a projection of its states")
    x = x if first else transpose(b, x, 0, 1)
    last: list[tuple[Value, Value]] = []
    for depth in range(layers):
        made = []
        for way in range(ways):
            begin = (depth * ways + way) * count
            made.append(_layer(b, name, x, params[begin : begin + count], bool(way)))
            y, cells = made[-1]
            last.append((select(b, y, 1, 0 if way else x.shape[1] - 1), cells))
        x = cat(b, [y for y, _ in made], 2) if both else made[0][0]
    ends = [stack(b, list(one), 0) for one in zip(*last, strict=True)]
    return [x if first else transpose(b, x, 0, 1), *(ends if name == "lstm" else ends[:1])]


def _layer(b: Builder, name: str, x: Value, params: Sequence[Constant], reverse: bool) -> tuple[Value, Value]:
    """What a layer gives [B, N, width], and the last cells of an LSTM."""
    tokens, features, width = x.shape[1], x.shape[2], params[1].tensor.shape[1]
    if x.axes[0] != (b.batch,):
        raise Unsupported("a recurrent layer along an axis, with others folded into the samples")
    if tokens > MOST_TOKENS:
        raise Unsupported(f"a recurrent layer of {tokens} tokens; {MOST_TOKENS} are the most that are written out")
    graph = layer(name, tokens, features, width, len(params) > 2, len(params) > 2, reverse)
    source = b.laid(x, x.axes[1:])
    (start,) = graph.inputs.values()
    known: dict[NodeId, NodeId] = {start: b.node(source)}
    for number in graph:
        if number == start:
            continue
        op, operands = graph[number].op, graph.operands(number)
        below = [known[operand] for operand in operands]
        if isinstance(op, Linear):
            held = params[0::2] if start in operands else params[1::2]
            known[number] = b.layer(op, dict(zip(("weight", "bias"), held, strict=False)), *below)
        else:
            known[number] = b.add(op, *below)
    (end,) = graph.outputs.values()
    state = graph.operands(end)[0 if reverse else -1]
    cell = next((graph.operands(one)[0] for one in graph.operands(state) if isinstance(graph[one].op, Tanh)), state)
    base = (source.base[0], (Atom(width),) if width > 1 else ())
    y = Value(known[end], base, ((b.batch,), *base))
    return y, replace(y, node=known[cell], base=((), base[1]), axes=((b.batch,), base[1]))


for _operator, _name in (("lstm", "lstm"), ("gru", "gru"), ("rnn_tanh", "rnn")):
    understands(_operator)(partial(_recurrent, _name))
