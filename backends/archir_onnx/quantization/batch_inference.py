"""Interface of a model file, and inference on samples in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from archir.backends.samples import Arrays, Interface, Samples
from archir.data.metadata import labels_in, resizing_in
from archir.diagnostics.errors import fail
from archir.ir.types import TensorType
from archir_onnx.lowering.export_options import ExportOptions, make_options
from archir_onnx.lowering.interface import ELEMENT_TYPES, denormalize_inputs, input_limit, is_raw
from archir_onnx.running.sessions import run

BATCH = 64
"""Batch size for models with a dynamic batch axis."""

_DTYPES = {element: dtype for dtype, element in ELEMENT_TYPES.items() if dtype in ("f32", "i64", "i32", "bool")}
"""Dtype of samples by ONNX element type."""


@dataclass(frozen=True)
class ModelInterface:
    """Inputs and outputs of a model file.

    `interface` has the types that the network takes. `batch` is the fixed batch size, or None if the batch axis is
    dynamic.
    """

    interface: Interface
    batch: int | None

    @classmethod
    def of(cls, model: onnx.ModelProto) -> ModelInterface:
        """Return the interface of a model.

        Raises ArchError (A2801) if an input is not a batch of samples of one size, or if inputs have different batch
        sizes.
        """
        constants = {tensor.name for tensor in model.graph.initializer}
        metadata = {value_info.key: value_info.value for value_info in model.metadata_props}
        model_inputs = [value_info for value_info in model.graph.input if value_info.name not in constants]
        inputs, raw, batches = {}, set(), set()
        for value_info in model_inputs:
            batch, *dims = _dims(value_info) or [0, 0]  # a scalar is no batch
            element = value_info.type.tensor_type.elem_type
            pixels = element == onnx.TensorProto.UINT8 and len(dims) == 3
            if not (pixels or element in _DTYPES) or not all(dims):
                hint = "inputs need known sizes apart from batch: float32, integers, or images uint8 [batch, H, W, C]"
                raise fail("A2801", f"the input `{value_info.name}` is not a batch of samples of one size", None, hint)
            shape = (dims[2], dims[0], dims[1]) if pixels else tuple(dims)
            dtype = "f32" if pixels else _DTYPES[element]
            limit_value = None if dtype in ("f32", "bool") else input_limit(metadata, value_info.name)
            inputs[value_info.name] = TensorType(shape, dtype, integer_limit=limit_value)
            batches.add(batch)
            if pixels or is_raw(metadata, value_info.name):
                raw.add(value_info.name)
        if not inputs or len(batches) != 1:
            raise fail("A2801", "the model has no inputs" if not inputs else "the inputs have different batch sizes")
        outputs, resizing = dict(_output_types(model)), resizing_in(metadata)
        labels = labels_in(metadata)
        if next(iter(outputs.values()), TensorType(())).shape != (len(labels),):
            labels = ()
        interface = Interface(model.graph.name or "model", inputs, outputs, resizing, labels, frozenset(raw))
        return cls(interface, batches.pop() or None)

    @property
    def raw(self) -> frozenset[str]:
        """Names of the inputs that the model normalises itself."""
        return self.interface.raw

    def raw_input_options(self, samples: Samples) -> ExportOptions:
        """Return export options that hold the normalisation of raw inputs.

        Raises ArchError (A2801) if the normalisation is unknown.
        """
        if unknown := sorted(self.raw - samples.scales.keys()):
            raise fail("A2801", f"the normalisation of `{unknown[0]}` is unknown")
        return make_options(scales={name: samples.scales[name] for name in self.raw})


def batches(
    model_interface: ModelInterface, arrays: Arrays, samples: Samples, max_batch: int = BATCH
) -> Iterator[tuple[Arrays, int]]:
    """Convert network inputs to batches of model inputs; yield each batch with its number of valid samples.

    If the batch size is fixed, the last batch is padded with repeated samples.
    """
    size, options = model_interface.batch or max_batch, model_interface.raw_input_options(samples)
    for begin in range(0, len(next(iter(arrays.values()))), size):
        batch = {name: array[begin : begin + size] for name, array in arrays.items()}
        count = len(next(iter(batch.values())))
        if model_interface.batch is not None:
            batch = {name: np.resize(array, (size, *array.shape[1:])) for name, array in batch.items()}
        yield {name: np.ascontiguousarray(array) for name, array in denormalize_inputs(batch, options).items()}, count


def run_batches(
    runtime: Any, model_interface: ModelInterface, arrays: Arrays, samples: Samples
) -> dict[str, NDArray[Any]]:
    """Run a session on all samples; return its outputs by name. Raises ArchError (A0914) if the session fails."""
    chunks: dict[str, list[NDArray[Any]]] = {}
    for batch, count in batches(model_interface, arrays, samples):
        for name, array in run(runtime, dict(batch)).items():
            chunks.setdefault(name, []).append(array[:count])
    return {name: np.concatenate(pieces) for name, pieces in chunks.items()}


def _dims(value_info: onnx.ValueInfoProto) -> list[int]:
    return [dim.dim_value for dim in value_info.type.tensor_type.shape.dim]


def _output_types(model: onnx.ModelProto) -> Iterator[tuple[str, TensorType]]:
    """Yield the name and type of each output whose sizes, apart from the batch axis, are known.

    Raises ArchError (A2801) if shape inference fails.
    """
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        raise fail("A2801", f"the sizes of the model's outputs cannot be inferred: {error}") from None
    for value_info in inferred.graph.output:
        _, *dims = _dims(value_info) or [0]
        if all(dims) and value_info.type.tensor_type.elem_type in _DTYPES:
            yield value_info.name, TensorType(tuple(dims), _DTYPES[value_info.type.tensor_type.elem_type])
