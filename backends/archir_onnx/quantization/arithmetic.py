"""Int8 models by `onnxruntime.quantization`: which formats, ranges and options.

Activations are uint8, weights int8 of 7 bits, one scale per output channel. Where a CPU has no VNNI, onnxruntime
multiplies with VPMADDUBSW, which adds two products in 16 bits and saturates: 2 * 255 * 64 < 2^15, so that 7 bits
cannot, while 8 bits can. Integer sums are then exact, and the same, on every CPU.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from archir.diagnostics.errors import fail
from archir_onnx.quantization.layers import CONVOLUTIONS, PRODUCTS, Arithmetic, layers

_CLAMPS = ("Relu", "Clip")
"""Operators that a range of uint8 can stand for."""


class Quantizer:
    """A float32 model that can be quantised, as often as it takes: ranges of activations are found once.

    `given` are the inputs that ranges come from; `folder` is for files that are in the way afterwards.
    """

    def __init__(
        self, model: onnx.ModelProto, arithmetic: Arithmetic, given: Iterable[dict[str, NDArray[Any]]], folder: Path
    ) -> None:
        self.arithmetic = arithmetic
        self._model = onnx.shape_inference.infer_shapes(model)
        self._given = given
        self._folder = folder

    def quantize(self, names: Iterable[str]) -> onnx.ModelProto:
        """The model with the layers of these names in int8. Raises ArchError (A2801) if onnxruntime cannot do it."""
        wanted = list(names)
        if not wanted:
            return self._model
        try:
            with _quiet():
                return self._static(wanted) if self.arithmetic == "static" else self._dynamic(wanted)
        except Exception as error:  # of any class: models come from anywhere
            raise fail("A2801", f"onnxruntime cannot quantise the model: {str(error).strip()[:500]}") from error

    def _static(self, names: list[str]) -> onnx.ModelProto:
        """Quantised and dequantised again around every layer (QDQ), which runtimes fuse into int8 layers."""
        from onnxruntime.quantization import QuantType
        from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

        tables = {
            one.tensor: [{"quant_type": QuantType.QUInt8}]  # signed by unsigned has no kernel, from the left
            if one.first else [{"quant_type": QuantType.QInt8, "symmetric": True, "reduce_range": True}]
            for one in layers(self._model)
            if one.name in names and not one.plain
        }  # fmt: skip
        clamps = [node.name for node in self._model.graph.node if node.op_type in _CLAMPS]
        quantizer = QDQQuantizer(
            _copy(self._model), True, True, QuantType.QInt8, QuantType.QUInt8, self._ranges, [*names, *clamps], [],
            [*CONVOLUTIONS, *PRODUCTS, *_CLAMPS], {"TensorQuantOverrides": tables},
        )  # fmt: skip
        quantizer.quantize_model()
        quantizer.model.topological_sort()
        made: onnx.ModelProto = quantizer.model.model
        return made

    def _dynamic(self, names: list[str]) -> onnx.ModelProto:
        """Ranges of activations are found as the model runs; the weights are those of linear maps."""
        from onnxruntime.quantization import QuantType, quantize_dynamic

        path = self._folder / "dynamic.onnx"
        quantize_dynamic(
            _copy(self._model), path, op_types_to_quantize=list(PRODUCTS), per_channel=True, reduce_range=True,
            weight_type=QuantType.QInt8, extra_options={"MatMulConstBOnly": True},
            nodes_to_quantize=[*names, *(f"{name}_MatMul" for name in names)],  # what it makes of a Gemm
        )  # fmt: skip
        return onnx.load(path)

    @cached_property
    def _ranges(self) -> Any:
        """The least and the largest of every activation that a layer reads or writes."""
        from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator

        path = self._folder / "float.onnx"
        onnx.save(self._model, path)
        calibrator = create_calibrator(
            path, [*CONVOLUTIONS, *PRODUCTS, *_CLAMPS], str(self._folder / "ranges.onnx"), CalibrationMethod.MinMax
        )
        given = iter(self._given)
        calibrator.collect_data(_Reader(given))
        return calibrator.compute_data()


class _Reader:
    """What onnxruntime reads calibration data from."""

    def __init__(self, given: Iterator[dict[str, NDArray[Any]]]) -> None:
        self._given = given

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        """The next inputs."""
        return next(self._given, None)


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    return made


@contextmanager
def _quiet() -> Iterator[None]:
    """Without advice in the log, and numpy's warnings about ranges that are empty."""
    before, nowhere = logging.root.manager.disable, logging.NullHandler()
    logging.root.addHandler(nowhere)  # or logging.warning() would set one up that stays
    logging.disable(logging.WARNING)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
        logging.root.removeHandler(nowhere)
