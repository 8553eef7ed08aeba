"""Quantisation of float32 models to int8: choice of layers, error analysis, and layers that stay in float."""

from archir_onnx.quantization.quantize import Mode, Quantised, quantize

__all__ = ["Mode", "Quantised", "quantize"]
