"""From a graph to an ONNX model: rules by operation, and what a model takes and gives."""
