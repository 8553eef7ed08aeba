"""How a model takes samples, and what it makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from archir.backends.samples import Arrays, Interface, Samples
from archir.diagnostics.errors import fail
from archir.ir.types import TensorType
from archir_onnx.lowering.form import Form, form_of
from archir_onnx.lowering.interface import ELEMENTS, is_raw, limit, unseen
from archir_onnx.running.sessions import run

BATCH = 64
"""Samples at a time where the model does not say how many."""

_DTYPES = {element: dtype for dtype, element in ELEMENTS.items() if dtype in ("f32", "i64", "i32", "bool")}


@dataclass(frozen=True)
class Entrance:
    """What a model takes and gives: of inputs that are `raw`, which it normalises itself, what the network behind it
    takes. `batch` is the number of samples, where it is fixed."""

    interface: Interface
    raw: frozenset[str]
    batch: int | None

    @classmethod
    def of(cls, model: onnx.ModelProto) -> Entrance:
        """A model's. Raises ArchError (A2801) if an input is of a size or a kind that samples cannot have."""
        constants = {tensor.name for tensor in model.graph.initializer}
        metadata = {one.key: one.value for one in model.metadata_props}
        given = [one for one in model.graph.input if one.name not in constants]
        inputs, raw, batches = {}, set(), set()
        for one in given:
            batch, *dims = _dims(one) or [0]
            element = one.type.tensor_type.elem_type
            pixels = element == onnx.TensorProto.UINT8 and len(dims) == 3
            if not (pixels or element in _DTYPES) or not all(dims):
                hint = "all sizes but the batch's must be known: float32, integers, or images uint8 [batch, H, W, C]"
                raise fail("A2801", f"the model takes `{one.name}`, which is not samples of one size", None, hint)
            shape = (dims[2], dims[0], dims[1]) if pixels else tuple(dims)
            dtype = "f32" if pixels else _DTYPES[element]
            below = None if dtype in ("f32", "bool") else limit(metadata, one.name)
            inputs[one.name] = TensorType(shape, dtype, below=below)
            batches.add(batch)
            if pixels or is_raw(metadata, one.name):
                raw.add(one.name)
        if not inputs or len(batches) != 1:
            raise fail("A2801", "the model takes no samples" if not inputs else "inputs have batches of unlike sizes")
        interface = Interface(model.graph.name or "model", inputs, dict(_outputs(model)))
        return cls(interface, frozenset(raw), batches.pop() or None)

    def form(self, known: Samples) -> Form:
        """How inputs that are taken as they come were normalised. Raises ArchError (A2801) where that is not known."""
        if lacking := sorted(self.raw - known.scales.keys()):
            raise fail("A2801", f"how `{lacking[0]}` is normalised is not known")
        return form_of(scales={name: known.scales[name] for name in self.raw})


def batches(entrance: Entrance, arrays: Arrays, known: Samples, most: int = BATCH) -> Iterator[tuple[Arrays, int]]:
    """What a model is given of samples as a network takes them, a batch at a time, and how many of a batch count: a
    fixed batch is filled up."""
    size, form = entrance.batch or most, entrance.form(known)
    for begin in range(0, len(next(iter(arrays.values()))), size):
        some = {name: array[begin : begin + size] for name, array in arrays.items()}
        count = len(next(iter(some.values())))
        if entrance.batch is not None:
            some = {name: np.resize(array, (size, *array.shape[1:])) for name, array in some.items()}
        yield {name: np.ascontiguousarray(array) for name, array in unseen(some, form).items()}, count


def outputs(running: Any, entrance: Entrance, arrays: Arrays, known: Samples) -> dict[str, NDArray[Any]]:
    """The outputs of a session by name, for all samples. Raises ArchError (A0914)."""
    found: dict[str, list[NDArray[Any]]] = {}
    for given, count in batches(entrance, arrays, known):
        for name, array in run(running, dict(given)).items():
            found.setdefault(name, []).append(array[:count])
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _dims(one: onnx.ValueInfoProto) -> list[int]:
    return [dim.dim_value for dim in one.type.tensor_type.shape.dim]


def _outputs(model: onnx.ModelProto) -> Iterator[tuple[str, TensorType]]:
    """The outputs of which the sizes are known, but for the batch's."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        raise fail("A2801", f"the sizes of the model's outputs cannot be worked out: {error}") from None
    for one in inferred.graph.output:
        _, *dims = _dims(one) or [0]
        if all(dims) and one.type.tensor_type.elem_type in _DTYPES:
            yield one.name, TensorType(tuple(dims), _DTYPES[one.type.tensor_type.elem_type])
