"""Latency and memory of whole networks on torch, onnxruntime and TensorRT.

Each subject (a network on one target with one batch size) runs in its own process, so that its memory is
measured separately. The processes take turns, so that other load on the machine affects all of them alike.
Times are wall-clock times of single runs, from the call until the outputs are available.
"""
