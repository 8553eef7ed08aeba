"""What networks take: what data must fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from archir.backends.ranges import ranged_inputs
from archir.diagnostics.errors import ArchError, Span, fail
from archir.diagrams.cases import leaves, varies
from archir.ir.graph import Graph
from archir.ir.types import TensorType


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
    """The inputs of a net, in order. Where the size of a map depends on choices, it is the largest that there is:
    architectures are given it resized. Raises ArchError (A1103) if there are none, or another size depends on one."""
    found = tuple(Input(name, kind, graph[graph.inputs[name]].span) for name, kind in ranged_inputs(graph).items())
    if not found:
        raise fail("A1103", f"`{graph.name}` has no input")
    return tuple(_at_its_largest(one) for one in found)


def sizes_of(graph: Graph) -> dict[str, tuple[int, ...]]:
    """How large the samples are that a net is given, by the names of its inputs."""
    return {one.name: one.type.shape for one in inputs_of(graph)}


def _at_its_largest(one: Input) -> Input:
    if not one.type.varied:
        return one
    if not one.is_image or varies(one.type.dims[0]):
        raise refused(
            one, "data have one size", "of inputs, only height and width of an f32[C, H, W] may depend on a choice"
        )
    dims = tuple(max(leaves(dim)) if varies(dim) else dim for dim in one.type.dims)
    return replace(one, type=replace(one.type, dims=dims))


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
