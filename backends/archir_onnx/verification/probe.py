"""Deterministic random inputs for which models are certified and verified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from archir.backends.certificates import SEED
from archir_onnx.lowering.interface import input_limit


def probe_inputs(model: onnx.ModelProto, sizes: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """Return random inputs generated from a fixed seed, by name.

    They are normally distributed numbers, pixels, or integers below the limits in the model's metadata.
    """
    rng = np.random.default_rng(SEED)
    inputs, shapes = {}, input_shapes(model, sizes)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    for value_info in model.graph.input:
        shape = shapes[value_info.name]
        dtype = helper.tensor_dtype_to_np_dtype(value_info.type.tensor_type.elem_type)
        numbers = rng.integers(0, 256 if dtype == np.uint8 else input_limit(metadata, value_info.name), shape)
        inputs[value_info.name] = (rng.standard_normal(shape) if dtype.kind == "f" else numbers).astype(dtype)
    return inputs


def input_shapes(model: onnx.ModelProto, sizes: Mapping[str, int]) -> dict[str, list[int]]:
    """Return the shapes of a model's inputs. Dynamic axes get the size in `sizes` (by axis name), or 1."""
    return {
        value_info.name: [
            sizes.get(dim.dim_param, 1) if dim.dim_param else dim.dim_value
            for dim in value_info.type.tensor_type.shape.dim
        ]
        for value_info in model.graph.input
    }
