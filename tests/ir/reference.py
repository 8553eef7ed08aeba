"""A small numpy interpreter of graphs, independent of every backend, which defines what passes must not change."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
from numpy.typing import NDArray

from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Input, Select
from archir.ops.activation import Identity, Relu, Relu6, Scale, Shift, Sigmoid, Zero
from archir.ops.arithmetic import Add, Concat, Mul, Sub
from archir.ops.conv import Linear
from archir.ops.random import Dropout
from archir.ops.shape import Flatten, Reshape, Slice, Transpose

Array = NDArray[np.float64]


def drawn(*name: object, shape: tuple[int, ...]) -> Array:
    """Return random numbers that depend on a name only."""
    return np.random.default_rng(zlib.crc32(repr(name).encode())).normal(size=shape)


def assignments(graph: Graph) -> Iterator[dict[str, int]]:
    """Yield every assignment of outcomes to choices."""
    paths = list(graph.decisions)
    ranges = [range(decision.choice.outcome_count) for decision in graph.decisions.values()]
    return (dict(zip(paths, outcomes, strict=True)) for outcomes in product(*ranges))


def meaning(graph: Graph, outcomes: Mapping[str, int]) -> dict[str, Array]:
    """Return the outputs for some outcomes, with inputs and weights random by name."""
    values: dict[NodeId, Array] = {}

    def value(number: NodeId) -> Array:
        if number not in values:
            op, operands = graph[number].op, graph.operands(number)
            if isinstance(op, Select):
                values[number] = value(operands[op.cases[outcomes[op.choice]]])
            else:
                values[number] = compute(op.at(outcomes), graph[number].scope, *map(value, operands))
        return values[number]

    return {name: value(number) for name, number in graph.outputs.items()}


def compute(op: object, scope: str, *operands: Array) -> Array:
    """Compute one operation on arrays without a batch axis."""
    match op, operands:
        case Input(), _:
            return drawn(op.label, shape=op.dims)
        case ((Identity() | Dropout()), [x]):
            return x
        case Zero(), [x]:
            return np.zeros_like(x)
        case Relu(), [x]:
            return np.maximum(x, 0)
        case Relu6(), [x]:
            return np.clip(x, 0, 6)
        case Sigmoid(), [x]:
            return 1 / (1 + np.exp(-x))
        case Scale(factor), [x]:
            return x * factor
        case Shift(amount), [x]:
            return x + amount
        case Add(), [a, b]:
            return a + b
        case Sub(), [a, b]:
            return a - b
        case Mul(), [a, b]:
            return a * b
        case Flatten(), [x]:
            return x.ravel()
        case Reshape(shape), [x]:
            return x.reshape(shape)
        case Transpose(axes), [x]:
            return x.transpose(axes) if axes is not None else np.swapaxes(x, -1, -2)
        case Slice(start, stop, axis), [x]:
            axis = (0 if x.ndim == 3 else x.ndim - 1) if axis is None else axis
            return np.take(x, range(x.shape[axis])[start:stop], axis)
        case Concat(axis), xs:
            return np.concatenate(xs, (0 if xs[0].ndim == 3 else xs[0].ndim - 1) if axis is None else axis)
        case Linear(channels, bias), [x]:
            weight = drawn(scope, "weight", shape=(channels, x.shape[-1]))
            return x @ weight.T + (drawn(scope, "bias", shape=(channels,)) if bias else 0)
    raise NotImplementedError(op)
