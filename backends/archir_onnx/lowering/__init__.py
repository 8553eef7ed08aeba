"""Lowering of graphs to ONNX: one rule per operation, and the inputs and outputs of models."""
