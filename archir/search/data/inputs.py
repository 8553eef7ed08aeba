"""What networks take: what data must fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from archir.backends.ranges import ranged_inputs
from archir.base.errors import ArchError, Span, fail
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir.ir.typing import infer


@dataclass(frozen=True)
class Input:
    """An input of a net: its name, its type, and where it is written."""

    name: str
    type: TensorType
    span: Span | None = None

    @property
    def is_image(self) -> bool:
        """Whether it is a map [C, H, W] of floating-point numbers."""
        return self.type.rank == 3 and self.type.dtype == "f32"


Inputs = tuple[Input, ...]
Size = Sequence[int] | Inputs
"""What a net takes: its inputs, or the size [C, H, W] of the one image."""


def inputs_of(graph: Graph) -> Inputs:
    """The inputs of a net, in order. Raises ArchError (A1103) if there are none, or a size depends on a choice."""
    types = infer(graph)
    ranged = ranged_inputs(graph, types)
    found = tuple(Input(name, ranged[name], graph[number].span) for name, number in graph.inputs.items())
    for one in found:
        if one.type.varied:
            raise fail(
                "A1103", f"the input `{one.name}` of `{graph.name}` has a size that depends on a choice", one.span
            )
    if not found:
        raise fail("A1103", f"`{graph.name}` has no input")
    return found


def as_inputs(size: Size) -> Inputs:
    """The inputs of a net, which are said as the size [C, H, W] of one image, maybe."""
    if all(isinstance(one, Input) for one in size):
        return tuple(cast(Iterable[Input], size))
    return (Input("image", TensorType(tuple(cast(Iterable[int], size)))),)


def image_of(inputs: Inputs, what: str) -> tuple[int, int, int]:
    """[C, H, W] of the one image that a net takes, of 1 or 3 channels. Raises ArchError (A1103) for anything else."""
    if len(inputs) != 1 or not inputs[0].is_image:
        taken = ", ".join(str(one.type) for one in inputs)
        raise fail(
            "A1103", f"{what} holds images: a net must take one image [C, H, W], this one takes {taken}", inputs[0].span
        )
    channels, height, width = inputs[0].type.shape
    if channels not in (1, 3):
        raise fail("A1103", f"the net's input has {channels} channels; images have 1 or 3", inputs[0].span)
    return channels, height, width


def refused(one: Input, why: str, hint: str | None = None) -> ArchError:
    """The diagnostic for data that do not fit an input, which shows where the input is written."""
    return fail("A1103", f"the input `{one.name}` is {one.type}, but {why}", one.span, hint)
