"""Builder of ONNX graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from archir.ir.types import TensorType
from archir_onnx.lowering.export_options import ExportOptions

CONTRIB = "com.microsoft"
"""Operator domain of onnxruntime's own (contrib) operators."""

END = 2**31 - 1
"""End position of a `Slice` that extends to the end of the axis."""
MAX_CONSTANT_BYTES = 2**24
"""Maximum size in bytes of a tensor stored in a `Constant` node; larger ones become initializers."""


class Builder:
    """Builder of an ONNX graph: collects nodes and constants.

    Nodes are named `scope/Operator`; equal constants are stored once. `scope`, `type` and `types` describe the
    operation being lowered: its scope, the type of its result, and the types of its operands. If the model accepts
    any image size ("sizes are open"), the heights and widths in these types are only those declared in the net;
    lowering rules then take the actual sizes from a tensor, the parameter `like` of `reshape`.
    """

    def __init__(self, options: ExportOptions, inputs: Sequence[str]) -> None:
        self.options = options
        self.inputs = inputs
        self.nodes: list[onnx.NodeProto] = []
        self.arrays: dict[str, NDArray[Any]] = {}
        self.shared_weights: frozenset[str] = frozenset()
        """Names of weights used by operations of different kinds.

        They are stored once and must not be transformed at export.
        """
        self.scope = ""
        self.type = TensorType(())
        self.types: list[TensorType] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._used: dict[str, int] = {}
        self._unexpanded: dict[str, str] = {}
        """Name of the operand of `Expand`, by the name of the expanded tensor."""
        self._shared_shapes: dict[tuple[object, ...], str] = {}
        """Names of shape tensors that are computed only once, by key."""

    @property
    def opset(self) -> int:
        """Opset of the model, which the options of a builder always have."""
        assert self.options.opset is not None
        return self.options.opset

    def node(self, operator: str, *inputs: str | None, outputs: int = 1, **attributes: Any) -> str:
        """Add a node; return the name of its (first) result. An input of None is an omitted optional input."""
        name = self._fresh(f"{self.scope}/{operator}")
        names = [name] if outputs == 1 else [f"{name}:{i}" for i in range(outputs)]
        input_names = [name_or_none or "" for name_or_none in inputs]
        while input_names and not input_names[-1]:
            input_names.pop()
        self.nodes.append(helper.make_node(operator, input_names, names, name=name, **attributes))
        return names[0]

    def multi_output_node(self, operator: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Add a node with several results; return the names of the results."""
        self.node(operator, *inputs, outputs=outputs, **attributes)
        return list(self.nodes[-1].output)

    def _fresh(self, name: str) -> str:
        count = self._used[name] = self._used.get(name, 0) + 1
        return name if count == 1 else f"{name}_{count}"

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        """Return the name of a constant tensor, which is stored on first use."""
        array = np.asarray(values, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = self._constants[key] = f"constant.{len(self._constants)}"
            self.arrays[name] = array
        return self._constants[key]

    def number(self, values: Any) -> str:
        """Return the name of a constant tensor with the model's floating-point precision."""
        return self.constant(values, self.options.dtype)

    def weight(self, name: str, array: NDArray[Any]) -> str:
        """Store a trained tensor under its state-dict name, or a tensor computed from trained ones; return its name.

        A number is appended to the name if another tensor has it: operations that share weights may need them in
        different forms. Raises ArchError (A0931) if the tensor overflows the model's precision.
        """
        array = self.options.cast(name, array)
        names = chain((name,), (f"{name}_{number}" for number in count(2)))
        name = next(
            name
            for name in names
            if name not in self.arrays or np.array_equal(self.arrays[name], array, equal_nan=True)
        )
        self.arrays.setdefault(name, array)
        return name

    def as_constant(self, name: str) -> str:
        """Move an untrained tensor into a `Constant` node; return its name.

        Large or shared tensors stay initializers.
        """
        array = self.arrays[name]
        if name in self.shared_weights or array.nbytes > MAX_CONSTANT_BYTES:
            return name
        return self.node("Constant", value=numpy_helper.from_array(self.arrays.pop(name), name))

    def transposed_weight(self, name: str) -> str:
        """Return the name of a weight's transpose.

        The transpose is computed at export, unless other operations need the weight unchanged; then a `Transpose` node
        is added.
        """
        if name in self.shared_weights:
            return self.node("Transpose", name, perm=[1, 0])
        transposed_name = f"{name}.T"
        return self.weight(transposed_name, self.arrays[name].T)

    def weight_slice(self, name: str, position: int) -> str:
        """Return the name of the slice of a weight at a position of its first axis.

        The slice is computed at export, unless other operations need the weight unchanged; then a `Gather` node is
        added.
        """
        if name in self.shared_weights:
            return self.node("Gather", name, self.constant(position), axis=0)
        return self.weight(f"{name}.{position}", self.arrays[name][position])

    def batch_size(self) -> str:
        """Return the name of a tensor [1] that holds the batch size."""
        if "batch" not in self.options.dynamic:
            return self.constant([self.options.batch])
        return self._once(("batch",), "batch", lambda: self.node("Shape", self.inputs[0], start=0, end=1))

    def spatial_size(self, like: str) -> str:
        """Return the name of a tensor [2] that holds the height and width of the map `like`."""
        return self._once((like,), self.scope, lambda: self.node("Shape", like, start=2))

    def _once(self, key: tuple[object, ...], scope: str, make: Callable[[], str]) -> str:
        """Return the name of the tensor with this key; on first use, the tensor is created in the given scope."""
        if key not in self._shared_shapes:
            before, self.scope = self.scope, scope
            self._shared_shapes[key] = make()
            self.scope = before
        return self._shared_shapes[key]

    def shape(self, dims: Sequence[int], like: str | None = None, batch: bool = False) -> str:
        """Return the name of a tensor that holds the shape [batch, *dims].

        If the model accepts any image size, the last two of `dims` are replaced by the height and width of the map
        `like`. With `batch`, the first element is the batch size, otherwise 0, which `Reshape` interprets as unchanged.
        """
        resized = like is not None and self.options.has_open_sizes
        if not (resized or (batch and "batch" in self.options.dynamic)):
            return self.constant([self.options.batch if batch else 0, *dims])
        first = self.batch_size() if batch else self.constant([0])
        if not resized or like is None:
            return self.node("Concat", first, self.constant([*dims]), axis=0)
        return self.node("Concat", first, self.constant([*dims[:-2]]), self.spatial_size(like), axis=0)

    def reshape(self, x: str, *dims: int, like: str | None = None) -> str:
        """Reshape all axes except the batch axis. One of `dims` may be -1 and is then inferred.

        If the model accepts any image size, the last two of `dims` are replaced by the height and width of the map
        `like`.
        """
        return self.node("Reshape", x, self.shape(dims, like))

    def expand_to_batch(self, value: str, dims: Sequence[int]) -> str:
        """Expand a tensor that is the same for every sample along the batch axis."""
        expanded = self.node("Expand", value, self.shape(dims, batch=True))
        self._unexpanded[expanded] = value
        return expanded

    def broadcast_operands(self, a: str, b: str) -> tuple[str, str]:
        """Return the operands of an element-wise operator, without redundant batch expansions.

        An expansion is redundant if broadcasting against the other operand has the same effect.
        """
        if a in self._unexpanded and b in self._unexpanded:
            return a, b
        return self._unexpanded.get(a, a), self._unexpanded.get(b, b)

    def reduce(self, operator: str, x: str, axis: int, keep: bool = False) -> str:
        """Add `ReduceSum`, `ReduceMax`, `ReduceMean` or `ReduceL2` over one axis."""
        if operator == "ReduceSum" or self.opset >= 18:
            return self.node(operator, x, self.constant([axis]), keepdims=int(keep))
        return self.node(operator, x, axes=[axis], keepdims=int(keep))

    def split(self, x: str, axis: int, parts: int, size: int) -> list[str]:
        """Split an axis of length `size` into equal parts; return the names of the parts."""
        if self.opset >= 18:
            return self.multi_output_node("Split", x, outputs=parts, axis=axis, num_outputs=parts)
        return self.multi_output_node("Split", x, self.constant([size // parts] * parts), outputs=parts, axis=axis)

    def transpose(self, x: str, *axes: int) -> str:
        """Permute all axes, including the batch axis."""
        return self.node("Transpose", x, perm=list(axes))

    def slice(self, x: str, axis: int, start: int, end: int) -> str:
        """Return a slice of one axis."""
        return self.node("Slice", x, self.constant([start]), self.constant([end]), self.constant([axis]))

    def tokens(self, kind: TensorType) -> int:
        """Return the number of tokens to pass to `reshape`; -1 (inferred) if the model accepts inputs of any size."""
        return -1 if self.options.has_open_sizes else kind.shape[0]

    def split_heads(self, x: str, heads: int, kind: TensorType) -> str:
        """Split the channels of tokens [B, N, D] or of a map [B, C, H, W] into heads.

        The result is [B, heads, positions, channels per head].
        """
        if kind.rank == 2:
            return self.transpose(self.reshape(x, self.tokens(kind), heads, kind.channels // heads), 0, 2, 1, 3)
        return self.transpose(self.reshape(x, heads, kind.channels // heads, -1), 0, 1, 3, 2)

    def merge_heads(self, x: str, kind: TensorType, like: str) -> str:
        """Merge heads (inverse of `split_heads`) into a result of type `kind`.

        If the result is a map, it gets the height and width of `like`.
        """
        if kind.rank == 2:
            return self.reshape(self.transpose(x, 0, 2, 1, 3), self.tokens(kind), kind.channels)
        return self.reshape(self.transpose(x, 0, 1, 3, 2), *kind.shape, like=like)


def set_metadata(model: onnx.ModelProto, metadata: Mapping[str, str]) -> None:
    """Set the metadata of a model."""
    helper.set_model_props(model, dict(metadata))
