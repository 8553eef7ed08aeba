"""The inputs that models are computed on when they are certified, and whenever somebody looks again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from archir.backends.certificates import SEED
from archir_onnx.lowering.interface import limit


def probe(model: onnx.ModelProto, sizes: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """The numbers that are computed with, by a seed: normal ones, pixels, other integers as far as the model says."""
    rng = np.random.default_rng(SEED)
    found, shapes = {}, shapes_of(model, sizes)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    for one in model.graph.input:
        shape = shapes[one.name]
        dtype = helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type)
        numbers = rng.integers(0, 256 if dtype == np.uint8 else limit(metadata, one.name), shape)
        found[one.name] = (rng.standard_normal(shape) if dtype.kind == "f" else numbers).astype(dtype)
    return found


def shapes_of(model: onnx.ModelProto, sizes: Mapping[str, int]) -> dict[str, list[int]]:
    """The shapes of the inputs, with these sizes of open axes, and 1 for those that are not among them."""
    return {
        one.name: [
            sizes.get(dim.dim_param, 1) if dim.dim_param else dim.dim_value for dim in one.type.tensor_type.shape.dim
        ]
        for one in model.graph.input
    }
