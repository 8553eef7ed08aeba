"""How a model takes images, and what it makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from archir.backends.images import Images
from archir.base.errors import fail
from archir_onnx.running.sessions import run

BATCH = 64
"""Images at a time where the model does not say how many."""

Array = NDArray[Any]


@dataclass(frozen=True)
class ImageInput:
    """The one input of a model. `size` is [C, H, W]; `raw` ones take pixels, uint8 [batch, H, W, C], others normalised
    float32 [batch, C, H, W]. `batch` is the number of images, where it is fixed."""

    name: str
    size: tuple[int, int, int]
    batch: int | None
    raw: bool

    @classmethod
    def of(cls, model: onnx.ModelProto) -> ImageInput:
        """A model's input. Raises ArchError (A2801) if it takes something else than one image of a fixed size."""
        constants = {tensor.name for tensor in model.graph.initializer}
        inputs = [one for one in model.graph.input if one.name not in constants]
        kind = inputs[0].type.tensor_type if len(inputs) == 1 else onnx.TypeProto.Tensor()
        batch, *dims = [dim.dim_value for dim in kind.shape.dim] or [0]
        raw = kind.elem_type == onnx.TensorProto.UINT8
        if len(dims) != 3 or not all(dims) or not (raw or kind.elem_type == onnx.TensorProto.FLOAT):
            given = ", ".join(f"`{one.name}`" for one in inputs) or "nothing"
            hint = "what it takes must be float32 [batch, C, H, W] or uint8 [batch, H, W, C], with C, H and W known"
            raise fail("A2801", f"the model takes {given}, which is not one image of a fixed size", None, hint)
        channels, height, width = (dims[2], dims[0], dims[1]) if raw else dims
        return cls(inputs[0].name, (channels, height, width), batch or None, raw)

    def fed(self, images: Array, mean: tuple[float, ...], std: tuple[float, ...]) -> Array:
        """Normalised images [n, C, H, W] as the model takes them."""
        if not self.raw:
            return images.astype(np.float32, copy=False)
        shape = (1, len(mean), 1, 1)
        pixels = images * np.reshape(std, shape) + np.reshape(mean, shape)
        return np.ascontiguousarray((255 * pixels).round().clip(0, 255).astype(np.uint8).transpose(0, 2, 3, 1))


def batches(
    entrance: ImageInput, images: Array, known: Images, most: int = BATCH
) -> Iterator[tuple[dict[str, Array], int]]:
    """What a model is given, a batch at a time, and how many of a batch's images count: a fixed batch is filled up."""
    size = entrance.batch or most
    for begin in range(0, len(images), size):
        some = images[begin : begin + size]
        filled = some if entrance.batch is None else np.resize(some, (size, *some.shape[1:]))
        yield {entrance.name: entrance.fed(filled, known.mean, known.std)}, len(some)


def outputs(running: Any, entrance: ImageInput, images: Array, known: Images) -> list[Array]:
    """Each output of a session, for all images. Raises ArchError (A0914)."""
    found = [[one[:count] for one in run(running, given).values()] for given, count in batches(entrance, images, known)]
    return [np.concatenate(parts) for parts in zip(*found, strict=True)]


def accuracy(running: Any, entrance: ImageInput, known: Images) -> tuple[float, int]:
    """The share of the held-out images whose label is where the first output is largest, and how many they are.

    Raises ArchError (A1108) if there are more classes than outputs, and A0914.
    """
    right, total = 0, 0
    assert known.held_out is not None
    for images, labels in known.held_out():
        if not len(labels):
            continue
        scores = outputs(running, entrance, images, known)[0]
        if scores.ndim != 2 or scores.shape[1] < known.classes:
            raise fail("A1108", f"the data has {known.classes} classes, but the model's output is {scores.shape[1:]}")
        right += int((scores.argmax(1) == labels).sum())
        total += len(labels)
    return right / max(total, 1), total
