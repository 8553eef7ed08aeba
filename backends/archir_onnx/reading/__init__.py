"""Import of ONNX model files: their operator calls, and extraction of submodels for comparison."""
