"""Import of ONNX model files: operator calls, and submodels for comparison."""
