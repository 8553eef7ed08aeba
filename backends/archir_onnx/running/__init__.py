"""onnxruntime sessions, and checks of the devices on which their nodes run."""
