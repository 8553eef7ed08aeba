"""Lowering of graphs to ONNX models: one rule per operation, and the inputs and outputs of models."""
