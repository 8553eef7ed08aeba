"""Networks in onnxruntime, timed."""
