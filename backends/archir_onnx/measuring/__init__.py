"""Timing of networks in onnxruntime."""
