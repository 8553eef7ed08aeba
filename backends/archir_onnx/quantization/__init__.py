"""Int8 models made of float32 ones: what is quantised, what that costs, and what is left in float for it."""

from archir_onnx.quantization.quantize import Mode, Quantised, quantize

__all__ = ["Mode", "Quantised", "quantize"]
