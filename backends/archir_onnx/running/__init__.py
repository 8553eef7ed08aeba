"""Sessions of onnxruntime, and where their nodes run."""
