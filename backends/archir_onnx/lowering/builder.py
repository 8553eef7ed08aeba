"""An ONNX graph in the making."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from archir.ir.types import TensorType
from archir_onnx.lowering.form import Form

CONTRIB = "com.microsoft"
"""The domain of onnxruntime's own operators."""

END = 2**31 - 1
"""Where a slice ends that goes on to the end of an axis."""
MOST_TOLD = 2**24
"""Bytes of a tensor that a node says."""


class Builder:
    """Collects nodes and constants. Nodes are named `scope/Operator`; equal constants are one.

    `scope`, `type` and `types` are those of the node that is being lowered: where it stands, the type of its result,
    and the types of its operands. Where images may have any size, `height` and `width` in types are those of the net's
    own: rules then take them from a tensor that has them, the `like` of `reshape`.
    """

    def __init__(self, form: Form, inputs: Sequence[str]) -> None:
        self.form = form
        self.inputs = inputs
        self.nodes: list[onnx.NodeProto] = []
        self.arrays: dict[str, NDArray[Any]] = {}
        self.lent: frozenset[str] = frozenset()
        """Weights that operations of several kinds share: they are kept once, as they are."""
        self.scope = ""
        self.type = TensorType(())
        self.types: list[TensorType] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._used: dict[str, int] = {}
        self._spread: dict[str, str] = {}
        self._shared: dict[tuple[object, ...], str] = {}

    @property
    def opset(self) -> int:
        """The opset of the model."""
        return self.form.opset

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

    def number(self, values: Any) -> str:
        """The name of a constant tensor of the model's precision."""
        return self.constant(values, self.form.dtype)

    def weight(self, name: str, array: NDArray[Any]) -> str:
        """A trained tensor under its state-dict name. Raises ArchError (A0931)."""
        self.arrays.setdefault(name, self.form.cast(name, array))
        return name

    def told(self, name: str) -> str:
        """A tensor that is not trained, as a node that says it; as a weight, if it is large."""
        array = self.arrays[name]
        if name in self.lent or array.nbytes > MOST_TOLD:
            return name
        return self.node("Constant", value=numpy_helper.from_array(self.arrays.pop(name), name))

    def transposed(self, name: str) -> str:
        """A weight's transpose, made here rather than when the model runs, unless others need it as it is."""
        if name in self.lent:
            return self.node("Transpose", name, perm=[1, 0])
        made = f"{name}.T"
        return self.weight(made, self.arrays[name].T)

    def position(self, name: str, position: int) -> str:
        """One position of a weight along its first axis, taken here rather than when the model runs, unless others need
        it as it is."""
        if name in self.lent:
            return self.node("Gather", name, self.constant(position), axis=0)
        return self.weight(f"{name}.{position}", self.arrays[name][position])

    def batch(self) -> str:
        """The batch size, as a tensor of one number."""
        if "batch" not in self.form.dynamic:
            return self.constant([self.form.batch])
        return self._once(("batch",), "batch", lambda: self.node("Shape", self.inputs[0], start=0, end=1))

    def sizes(self, like: str) -> str:
        """Height and width of a map, as a tensor of two numbers."""
        return self._once((like,), self.scope, lambda: self.node("Shape", like, start=2))

    def _once(self, key: tuple[object, ...], scope: str, make: Callable[[], str]) -> str:
        if key not in self._shared:
            before, self.scope = self.scope, scope
            self._shared[key] = make()
            self.scope = before
        return self._shared[key]

    def shape(self, dims: Sequence[int], like: str | None = None, batch: bool = False) -> str:
        """The shape [batch, *dims] as a tensor; the last two of `dims` are the sizes of the map `like`, where sizes are
        open. The batch axis is 0, which `Reshape` leaves as it is, unless `batch` asks for its size."""
        resized = like is not None and self.form.resizable
        if not (resized or (batch and "batch" in self.form.dynamic)):
            return self.constant([self.form.batch if batch else 0, *dims])
        first = self.batch() if batch else self.constant([0])
        if not resized or like is None:
            return self.node("Concat", first, self.constant([*dims]), axis=0)
        return self.node("Concat", first, self.constant([*dims[:-2]]), self.sizes(like), axis=0)

    def reshape(self, x: str, *dims: int, like: str | None = None) -> str:
        """Reshape everything but the batch axis, which is kept as it is. One of `dims` may be -1: as many as are left.
        The last two are those of the map `like`, where there is one."""
        return self.node("Reshape", x, self.shape(dims, like))

    def spread(self, value: str, dims: Sequence[int]) -> str:
        """A learned tensor, the same for all samples."""
        made = self.node("Expand", value, self.shape(dims, batch=True))
        self._spread[made] = value
        return made

    def together(self, a: str, b: str) -> tuple[str, str]:
        """Operands of an element-wise operator: a tensor that is the same for all samples need not be spread."""
        if a in self._spread and b in self._spread:
            return a, b
        return self._spread.get(a, a), self._spread.get(b, b)

    def reduce(self, operator: str, x: str, axis: int, keep: bool = False) -> str:
        """`ReduceSum`, `ReduceMax`, `ReduceMean` or `ReduceL2` over one axis."""
        if operator == "ReduceSum" or self.opset >= 18:
            return self.node(operator, x, self.constant([axis]), keepdims=int(keep))
        return self.node(operator, x, axes=[axis], keepdims=int(keep))

    def split(self, x: str, axis: int, parts: int, size: int) -> list[str]:
        """An axis of `size` positions cut into equal parts."""
        if self.opset >= 18:
            return self.nodes_of("Split", x, outputs=parts, axis=axis, num_outputs=parts)
        return self.nodes_of("Split", x, self.constant([size // parts] * parts), outputs=parts, axis=axis)

    def transpose(self, x: str, *axes: int) -> str:
        """Permute all axes, the batch axis among them."""
        return self.node("Transpose", x, perm=list(axes))

    def slice(self, x: str, axis: int, start: int, end: int) -> str:
        """A part of one axis."""
        return self.node("Slice", x, self.constant([start]), self.constant([end]), self.constant([axis]))

    def tokens(self, kind: TensorType) -> int:
        """The number of tokens, for `reshape`: -1 where sizes are open, of which it may depend."""
        return -1 if self.form.resizable else kind.shape[0]

    def heads(self, x: str, heads: int, kind: TensorType) -> str:
        """Tokens [B, N, D] or a map [B, C, H, W] as [B, heads, positions, channels per head]."""
        if kind.rank == 2:
            return self.transpose(self.reshape(x, self.tokens(kind), heads, kind.channels // heads), 0, 2, 1, 3)
        return self.transpose(self.reshape(x, heads, kind.channels // heads, -1), 0, 1, 3, 2)

    def unheads(self, x: str, kind: TensorType, like: str) -> str:
        """The inverse of `heads`, for a result of type `kind`, a map as large as `like`."""
        if kind.rank == 2:
            return self.reshape(self.transpose(x, 0, 2, 1, 3), self.tokens(kind), kind.channels)
        return self.reshape(self.transpose(x, 0, 1, 3, 2), *kind.shape, like=like)


def properties(model: onnx.ModelProto, metadata: Mapping[str, str]) -> None:
    """Put metadata into a model."""
    helper.set_model_props(model, dict(metadata))
