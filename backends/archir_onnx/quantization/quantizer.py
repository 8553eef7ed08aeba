"""Quantisation with `onnxruntime.quantization`: number formats, ranges and options.

In int8, activations are uint8; weights are int8 restricted to 7 bits, with one scale per output channel. On CPUs
without VNNI, onnxruntime multiplies with VPMADDUBSW, which adds two products in 16 bits with saturation. With 7-bit
weights, 2 * 255 * 64 < 2^15, so the sum cannot saturate; with 8-bit weights it can. Integer sums are therefore
exact, and the same on every CPU.

In int4, each block of BLOCK weights of an output has a scale; activations stay in float32.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from archir.diagnostics.errors import ArchError, fail
from archir_onnx.quantization.layers import CONVOLUTIONS, PRODUCTS, ResolvedMode, layers

BLOCK = 32
"""Number of 4-bit weights with a common scale. A scale has 4 bytes, so that a weight takes 5 bits."""
_CLAMPS = ("Relu", "Clip")
"""Operators that quantisation can absorb, because the range of uint8 activations has the same effect."""


class Quantizer:
    """Quantises a float32 model, repeatedly and with different sets of layers.

    Activation ranges are calibrated only once. `calibration_inputs` are batches of model inputs for calibration;
    `folder` is where temporary files are written.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        mode: ResolvedMode,
        calibration_inputs: Iterable[dict[str, NDArray[Any]]],
        folder: Path,
    ) -> None:
        self.mode = mode
        self._model = _infer_types(model)
        self._calibration_inputs = calibration_inputs
        self._folder = folder

    def quantize(self, names: Iterable[str]) -> onnx.ModelProto:
        """Return the model with the named layers quantised. Raises ArchError (A2801) if onnxruntime fails, or if it
        needs a package that is not installed."""
        wanted = list(names)
        if not wanted:
            return self._model
        try:
            with _without_warnings():
                return self._converters[self.mode](wanted)
        except ArchError:
            raise
        except Exception as error:  # any class: models are untrusted
            raise fail("A2801", f"onnxruntime cannot quantise the model: {str(error).strip()[:500]}") from error

    @property
    def _converters(self) -> Mapping[ResolvedMode, Callable[[list[str]], onnx.ModelProto]]:
        """Functions that quantise the named layers, by mode."""
        return {"static": self._static, "dynamic": self._dynamic, "int4": self._int4}

    def _static(self, names: list[str]) -> onnx.ModelProto:
        """Insert quantise-dequantise (QDQ) pairs around the named layers, which runtimes fuse into int8 layers."""
        from onnxruntime.quantization import QuantType
        from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

        tables = {
            layer.tensor: [{"quant_type": QuantType.QUInt8}]  # signed by unsigned has no kernel, from the left
            if layer.is_weight_left else [{"quant_type": QuantType.QInt8, "symmetric": True, "reduce_range": True}]
            for layer in layers(self._model)
            if layer.name in names and not layer.supports_per_channel
        }  # fmt: skip
        clamps = [node.name for node in self._model.graph.node if node.op_type in _CLAMPS]
        quantizer = QDQQuantizer(
            _copy(self._model), True, True, QuantType.QInt8, QuantType.QUInt8, self._ranges, [*names, *clamps], [],
            [*CONVOLUTIONS, *PRODUCTS, *_CLAMPS], {"TensorQuantOverrides": tables},
        )  # fmt: skip
        quantizer.quantize_model()
        quantizer.model.topological_sort()
        quantised: onnx.ModelProto = quantizer.model.model
        return quantised

    def _dynamic(self, names: list[str]) -> onnx.ModelProto:
        """Quantise the named linear layers, with activation ranges that are computed at run time."""
        from onnxruntime.quantization import QuantType, quantize_dynamic

        path = self._folder / "dynamic.onnx"
        quantize_dynamic(
            _copy(self._model), path, op_types_to_quantize=list(PRODUCTS), per_channel=True, reduce_range=True,
            weight_type=QuantType.QInt8, extra_options={"MatMulConstBOnly": True},
            nodes_to_quantize=[*names, *(f"{name}_MatMul" for name in names)],  # what it makes of a Gemm
        )  # fmt: skip
        return onnx.load(path)

    def _int4(self, names: list[str]) -> onnx.ModelProto:
        """Store the weights of the named linear layers in 4 bits, for the operator `MatMulNBits` of onnxruntime."""
        try:
            from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
            from onnxruntime.quantization.onnx_model import ONNXModel
        except ImportError as error:
            text = f"4-bit weights need the package onnx-ir: {error}"
            raise fail("A2801", text, None, "pip install onnx-ir") from None

        model = ONNXModel(_copy(self._model))
        model.replace_gemm_with_matmul()
        quantizer = MatMulNBitsQuantizer(
            model.model, bits=4, block_size=BLOCK, is_symmetric=True, op_types_to_quantize=("MatMul",),
            nodes_to_include=[*names, *(f"{name}_MatMul" for name in names)],  # what it makes of a Gemm
        )  # fmt: skip
        quantizer.process()
        quantised: onnx.ModelProto = quantizer.model.model
        return quantised

    @cached_property
    def _ranges(self) -> Any:
        """Calibrated minimum and maximum of every activation that a layer reads or writes."""
        from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator

        path = self._folder / "float.onnx"
        onnx.save(self._model, path)
        calibrator = create_calibrator(
            path, [*CONVOLUTIONS, *PRODUCTS, *_CLAMPS], str(self._folder / "ranges.onnx"), CalibrationMethod.MinMax
        )
        inputs = iter(self._calibration_inputs)
        calibrator.collect_data(_Reader(inputs))
        return calibrator.compute_data()


class _Reader:
    """Calibration data reader in the form that onnxruntime expects."""

    def __init__(self, inputs: Iterator[dict[str, NDArray[Any]]]) -> None:
        self._inputs = inputs

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        """Return the next batch of inputs, or None at the end."""
        return next(self._inputs, None)


def _infer_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with the types of its values, which onnxruntime's quantiser needs.

    onnx infers no types for group norms, nor for anything computed from their results.
    """
    typed = _copy(model)
    outputs = {value_info.name for value_info in model.graph.output}
    typed.graph.value_info.extend(
        onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, None)
        for node in model.graph.node
        if node.op_type == "GroupNormalization" and node.output[0] not in outputs
    )
    return onnx.shape_inference.infer_shapes(typed)


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Context manager that suppresses onnxruntime's log messages, and numpy's warnings about empty ranges."""
    disabled_before, null_handler = logging.root.manager.disable, logging.NullHandler()
    logging.root.addHandler(null_handler)  # or logging.warning() would set one up that stays
    logging.disable(logging.WARNING)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled_before)
        logging.root.removeHandler(null_handler)
