"""Quantisation of float32 models to int8: selection of layers, error analysis, fallback of layers to float."""

from archir_onnx.quantization.quantize import Mode, Quantised, quantize

__all__ = ["Mode", "Quantised", "quantize"]
