"""An ONNX graph in the making."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from archir.types import TensorType

ELEMENTS = {
    "f32": TensorProto.FLOAT,
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "i64": TensorProto.INT64,
    "i32": TensorProto.INT32,
    "bool": TensorProto.BOOL,
}


class Builder:
    """Collects nodes and constants. Nodes are named `scope/Operator`; equal constants are one.

    `scope`, `type` and `types` are those of the node that is being lowered: where it stands, the type of its result,
    and the types of its operands.
    """

    def __init__(self, opset: int, inputs: Sequence[str]) -> None:
        self.opset = opset
        self.inputs = inputs
        self.nodes: list[onnx.NodeProto] = []
        self.arrays: dict[str, NDArray[Any]] = {}
        self.scope = ""
        self.type = TensorType(())
        self.types: list[TensorType] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._used: dict[str, int] = {}
        self._batch: str | None = None

    def node(self, operator: str, *inputs: str | None, outputs: int = 1, **attributes: Any) -> str:
        """Add a node; the name of its (first) result. None stands for an optional input that is left out."""
        name = self._fresh(f"{self.scope}/{operator}")
        names = [name] if outputs == 1 else [f"{name}:{i}" for i in range(outputs)]
        given = [one or "" for one in inputs]
        while given and not given[-1]:
            given.pop()
        self.nodes.append(helper.make_node(operator, given, names, name=name, **attributes))
        return names[0]

    def nodes_of(self, operator: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Add a node of several results; their names."""
        self.node(operator, *inputs, outputs=outputs, **attributes)
        return list(self.nodes[-1].output)

    def _fresh(self, name: str) -> str:
        count = self._used[name] = self._used.get(name, 0) + 1
        return name if count == 1 else f"{name}_{count}"

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        """The name of a constant tensor."""
        array = np.asarray(values, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = self._constants[key] = f"constant.{len(self._constants)}"
            self.arrays[name] = array
        return self._constants[key]

    def weight(self, name: str, array: NDArray[Any]) -> str:
        """A trained tensor under its state-dict name."""
        self.arrays.setdefault(name, array)
        return name

    def transposed(self, name: str) -> str:
        """A weight's transpose, made here rather than when the model runs."""
        made = f"{name}.T"
        return self.weight(made, self.arrays[name].T)

    def batch(self) -> str:
        """The batch size, as a tensor of one number."""
        if self._batch is None:
            scope, self.scope = self.scope, "batch"
            self._batch = self.node("Shape", self.inputs[0], start=0, end=1)
            self.scope = scope
        return self._batch

    def reshape(self, x: str, *dims: int) -> str:
        """Reshape everything but the batch axis, which is kept as it is."""
        return self.node("Reshape", x, self.constant([0, *dims]))

    def transpose(self, x: str, *axes: int) -> str:
        """Permute all axes, the batch axis among them."""
        return self.node("Transpose", x, perm=list(axes))

    def slice(self, x: str, axis: int, start: int, end: int) -> str:
        """A part of one axis."""
        return self.node("Slice", x, self.constant([start]), self.constant([end]), self.constant([axis]))

    def heads(self, x: str, heads: int, kind: TensorType) -> str:
        """Tokens [B, N, D] or a map [B, C, H, W] as [B, heads, positions, channels per head]."""
        if kind.rank == 2:
            tokens, features = kind.shape
            return self.transpose(self.reshape(x, tokens, heads, features // heads), 0, 2, 1, 3)
        channels, height, width = kind.shape
        return self.transpose(self.reshape(x, heads, channels // heads, height * width), 0, 1, 3, 2)

    def unheads(self, x: str, kind: TensorType) -> str:
        """The inverse of `heads`, for a result of type `kind`."""
        if kind.rank == 2:
            return self.reshape(self.transpose(x, 0, 2, 1, 3), *kind.shape)
        return self.reshape(self.transpose(x, 0, 1, 3, 2), *kind.shape)


def value_info(name: str, kind: TensorType) -> onnx.ValueInfoProto:
    """A graph input or output: the batch is symbolic."""
    return helper.make_tensor_value_info(name, ELEMENTS[kind.dtype], ["batch", *kind.shape])


def properties(model: onnx.ModelProto, metadata: Mapping[str, str]) -> None:
    """Put metadata into a model."""
    helper.set_model_props(model, dict(metadata))
