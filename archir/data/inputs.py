"""Inputs of a net, which a data set must match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from archir.backends.input_ranges import ranged_inputs
from archir.data.resizing import Resizing
from archir.diagnostics.errors import ArchError, Span, fail
from archir.diagrams.diagram import leaves, varies
from archir.ir.graph import Graph
from archir.ir.types import TensorType


@dataclass(frozen=True)
class Input:
    """Input of a net: its name, its type without the batch axis, and its span in the program."""

    name: str
    type: TensorType
    span: Span | None = None
    resizing: Resizing = field(default_factory=Resizing)
    """How images are resized to the type."""

    @property
    def is_image(self) -> bool:
        """True for an image input: f32 with shape [C, H, W]."""
        return self.type.rank == 3 and self.type.dtype == "f32"


Inputs = tuple[Input, ...]
InputSpec = Sequence[int] | Inputs
"""Inputs of a net; a bare shape [C, H, W] means a single image input."""


def inputs_of(graph: Graph) -> Inputs:
    """Return the inputs of a net in order.

    If the height or width of an image input depends on a choice, it is set to its largest value: images are
    loaded in that size and resized for each architecture. Raises ArchError (A1103) if the net has no input, or if
    any other size depends on a choice.
    """
    inputs = tuple(Input(name, kind, graph[graph.inputs[name]].span) for name, kind in ranged_inputs(graph).items())
    if not inputs:
        raise fail("A1103", f"`{graph.name}` has no input")
    return tuple(_with_max_size(net_input) for net_input in inputs)


def sample_shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Return the shape of one sample for each input of a net, by input name."""
    return {net_input.name: net_input.type.shape for net_input in inputs_of(graph)}


def _with_max_size(net_input: Input) -> Input:
    if not net_input.type.is_varying:
        return net_input
    if not net_input.is_image or varies(net_input.type.dims[0]):
        hint = "only the height and width of an image input f32[C, H, W] may depend on a choice"
        raise input_error(net_input, "all samples of a data set have one size", hint)
    dims = tuple(max(leaves(dim)) if varies(dim) else dim for dim in net_input.type.dims)
    return replace(net_input, type=replace(net_input.type, dims=dims))


def as_inputs(spec: InputSpec) -> Inputs:
    """Return inputs unchanged; convert a shape [C, H, W] to a single image input."""
    if all(isinstance(item, Input) for item in spec):
        return tuple(cast(Iterable[Input], spec))
    return (Input("image", TensorType(tuple(cast(Iterable[int], spec)))),)


def image_shape(inputs: Inputs, source_name: str) -> tuple[int, int, int]:
    """Return the shape [C, H, W] of a net's only input, which must be an image with 1 or 3 channels.

    `source_name` names the data source in messages. Raises ArchError (A1103) if the net has other inputs.
    """
    if len(inputs) != 1 or not inputs[0].is_image:
        types = ", ".join(str(net_input.type) for net_input in inputs)
        text = f"{source_name} holds images: a net must take one image [C, H, W], this one takes {types}"
        raise fail("A1103", text, inputs[0].span)
    channels, height, width = inputs[0].type.shape
    if channels not in (1, 3):
        raise fail("A1103", f"the net's input has {channels} channels; images have 1 or 3", inputs[0].span)
    return channels, height, width


def input_error(net_input: Input, why: str, hint: str | None = None) -> ArchError:
    """Return the error (A1103) for data that do not fit an input; its span is the input in the program."""
    return fail("A1103", f"the input `{net_input.name}` is {net_input.type}, but {why}", net_input.span, hint)
