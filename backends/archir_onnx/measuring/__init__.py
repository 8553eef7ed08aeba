"""Latency measurement of networks and model files in onnxruntime."""
