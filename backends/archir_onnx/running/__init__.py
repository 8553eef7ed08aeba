"""onnxruntime sessions, and the devices on which their nodes run."""
