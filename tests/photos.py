"""A small classifier of photos as another exporter writes it, and folders of photos that it classifies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

CLASSES = ("car", "horse", "ship")
"""Classes in the order of the model's outputs; their photos are reddish, greenish and bluish."""


def write_photos(folder: Path, count: int = 20, names: tuple[str, ...] = CLASSES, size: int = 32) -> Path:
    """Write `count` photos of noise for each class, with one channel that is brighter than the others."""
    rng = np.random.default_rng(0)
    for label, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 200, (size, size, 3))
            pixels[:, :, label % 3] += 55
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number:03}.png")
    return folder


def write_model(path: Path, size: int = 32) -> Path:
    """Write a network with a convolution and a linear layer, whose outputs are the mean brightness of each channel.

    It takes images float32 [batch, 3, size, size], whose pixels were scaled to 0..1 and normalised with a mean of 0.5
    and a deviation of 0.25, and has no names of classes.
    """
    kernel = np.zeros((8, 3, 1, 1), np.float32)
    kernel[range(3), range(3)] = kernel[range(3, 6), range(3)] = 1
    weights = np.eye(8, 3, dtype=np.float32) * 20
    nodes = [
        helper.make_node("Conv", ["input", "kernel"], ["maps"], "conv"),
        helper.make_node("GlobalAveragePool", ["maps"], ["means"], "pool"),
        helper.make_node("Flatten", ["means"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "weights", "bias"], ["scores"], "head"),
    ]
    graph = helper.make_graph(
        nodes, "photos",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 3, size, size])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(array, name) for name, array in
         (("kernel", kernel), ("weights", weights), ("bias", np.zeros(3, np.float32)))],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path
