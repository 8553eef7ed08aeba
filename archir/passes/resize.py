"""Adaptation of networks to other image sizes and text lengths.

The module also finds the sizes at which the weights stay valid.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from archir.diagnostics.errors import Span, fail
from archir.diagrams.diagram import same
from archir.diagrams.lifting import lift
from archir.ir.graph import Graph, Node, NodeId, copy_node, rebuild, state_name
from archir.ir.structure import Input
from archir.ir.types import INTEGER_DTYPES, TensorType
from archir.ir.typing import NodeError, Types, infer
from archir.ops.arithmetic import Add
from archir.ops.resize import Resize
from archir.ops.shape import FirstTokens, Parameter
from archir.passes.expand import expand

_TRIED_FACTORS = (2, 1.5, 0.5)
"""Factors by which the net's own height and width are multiplied to get the image sizes to try."""


_STEPS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Steps between accepted image sizes that are tried."""

Size = tuple[int, ...]
"""Size of the inputs: (height, width) of images, or (number of tokens,) of texts and series."""


def resize(graph: Graph, *size: int) -> Graph:
    """Return the graph with inputs of another size: height and width of maps, or the number of tokens.

    Operations and their attributes stay the same.
    """
    own_length = None if len(size) == 2 else token_count(graph)

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        if isinstance(node.op, Input):
            dims = list(node.op.infer().shape)
            for axis, new_size in zip(open_axes(node.op.infer(), own_length), size * len(dims), strict=False):
                dims[axis] = new_size
            return out.add(replace(node, op=replace(node.op, dims=tuple(dims))), *operands)
        return copy_node(out, node, operands)

    return rebuild(graph, step)


def open_axes(x: TensorType, tokens: int | None) -> tuple[int, ...]:
    """Return the axes of an input whose size may change.

    These are height and width of a map or, with `tokens`, the token axes: those of length `tokens` among the first axis
    of numbers f32[N, D] and integers i64[N], and all axes of a boolean mask.
    """
    if tokens is None:
        return (1, 2) if x.rank == 3 else ()
    if x.dtype == "bool":
        return tuple(axis for axis, size in enumerate(x.shape) if size == tokens)
    is_sequence = x.rank == (1 if x.dtype in INTEGER_DTYPES else 2) and x.shape[0] == tokens
    return (0,) if is_sequence else ()


def token_count(graph: Graph) -> int:
    """Return the number of tokens that the inputs of a network have.

    Raises ArchError (A0932) if the network takes no tokens, or if its inputs differ in length.
    """
    input_types = [graph[number].op.infer() for number in graph.inputs.values()]
    lengths = {
        x.shape[0] for x in input_types if x.dtype != "bool" and x.rank == (1 if x.dtype in INTEGER_DTYPES else 2)
    }
    if len(lengths) != 1:
        problem = f"takes tokens of several lengths: {sorted(lengths)}" if lengths else "takes no tokens"
        raise fail("A0932", f"`{graph.name}` {problem}: there is no single length to leave open")
    return lengths.pop()


def trim_position_tables(graph: Graph) -> Graph:
    """Truncate each learned table that is added to tokens to the number of tokens.

    `%2 = parameter([8, 4]); %3 = add(%1, %2)` -> `%3 = first_tokens(%2, %1); %4 = add(%1, %3)`.
    """

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        if isinstance(node.op, Add):
            pair = [
                (addend, other)
                for addend, other in zip(operands, reversed(operands), strict=True)
                if is_table(out, addend)
            ]
            if len(pair) == 1:
                ((table, tokens),) = pair
                trimmed = out.add(Node(FirstTokens(), node.span, node.scope), table, tokens)
                operands = tuple([trimmed if operand == table else operand for operand in operands])
        return copy_node(out, node, operands)

    def is_table(out: Graph, number: NodeId) -> bool:
        op = out[number].op
        return isinstance(op, Parameter) and len(op.shape) == 2 and op.shape[0] != 1

    return rebuild(graph, step)


def with_input_sizes(graph: Graph, sizes: Mapping[str, tuple[int, ...]]) -> Graph:
    """Return the graph with inputs of these sizes (by name), then resized to what the network expects.

    `%0 = input "image" f32[3, case(size: 128, 224), case(size: 128, 224)]` -> `%0 = input "image" f32[3, 224, 224]; %1
    = resize(%0, size=case(size: [128, 128], [224, 224]), mode="bilinear", antialias=true)`. All architectures thus take
    the same images, and each processes them at its own resolution.
    """

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        op = node.op
        if not isinstance(op, Input) or same(op.dims, dims := sizes.get(op.label, op.dims)):
            return copy_node(out, node, operands)
        full = out.add(replace(node, op=replace(op, dims=dims)))
        smaller = Resize(lift(lambda expected: expected[1:], op.dims), mode="bilinear", antialias=True)
        return out.add(Node(smaller, node.span, f"{node.scope}.resize"), full)

    return rebuild(graph, step)


def valid_sizes(graph: Graph, dynamic: Sequence[str]) -> list[Size]:
    """Return input sizes, other than the network's own, at which the network works with the same weights.

    These are image sizes if `height` or `width` is in `dynamic`, and numbers of tokens if `tokens` is in `dynamic`.
    Raises ArchError (A0932) if no other image size or no shorter length works, because some operation has weights that
    depend on the size or does not accept the size.
    """
    graph = expand(graph)
    images = "height" in dynamic or "width" in dynamic
    if images and "tokens" in dynamic:
        raise fail("A0932", "image sizes and numbers of tokens cannot both be left open: choose one of them")
    own: Size = _image_size(graph) if images else (token_count(graph),)
    tried = _tried_image_sizes(own, dynamic) if images else _tried_lengths(*own)
    sizes = [size for size in dict.fromkeys(tried) if size != own]
    problems = {size: _incompatibility(graph, resize(graph, *size)) for size in sizes}
    valid = [size for size in sizes if problems[size] is None]
    shorter = [size for size in sizes if len(size) == 1 and size < own]
    if not valid or (shorter and not {*shorter} & {*valid}):  # unrolled steps ignore later tokens
        text, span = problems[sizes[0]] or ("", None)
        subject, size = ("sizes of images", "{} x {}") if images else ("number of tokens", "{} tokens")
        raise fail("A0932", f"the {subject} cannot be left open: at {size.format(*sizes[0])}, {text}", span)
    return valid


@dataclass(frozen=True)
class ImageSizes:
    """Image sizes that a network accepts on its open axes: multiples of `step`, from `least` on. `axes` names the axes,
    and `examples` are two of the sizes, (height, width): the least one, and one that is a step above the net's own."""

    axes: tuple[str, ...]
    step: int
    least: int
    examples: tuple[Size, ...]

    def __str__(self) -> str:
        of = f", in multiples of {self.step}" if self.step > 1 else ""
        return f"{' and '.join(self.axes)} from {self.least} on{of}"


def accepted_image_sizes(graph: Graph, dynamic: Sequence[str]) -> ImageSizes | None:
    """Return the image sizes that a network accepts with the same weights, if `height` or `width` is in `dynamic`.

    The sizes are found by trying the net's own size plus one and three steps, and the least size by bisection. None if
    no step was found. Raises ArchError (A0932) unless the network takes images of a single size.
    """
    axes = tuple(axis for axis in ("height", "width") if axis in dynamic)
    if not axes:
        return None
    graph = expand(graph)
    own: dict[str, int] = dict(zip(("height", "width"), _image_size(graph), strict=True))

    def accepts(sizes: dict[str, int]) -> bool:
        return _incompatibility(graph, resize(graph, *(own | sizes).values())) is None

    def larger(step: int, count: int) -> dict[str, int]:
        return {axis: own[axis] + count * step for axis in axes}

    possible = (step for step in _STEPS if all(own[axis] % step == 0 for axis in axes))
    step = next((step for step in possible if accepts(larger(step, 1)) and accepts(larger(step, 3))), None)
    if step is None:
        return None
    counts = range(1, min(own[axis] for axis in axes) // step)
    least = step * (1 + bisect_left(counts, True, key=lambda count: accepts(dict.fromkeys(axes, count * step))))
    examples = tuple(tuple((own | sizes).values()) for sizes in (dict.fromkeys(axes, least), larger(step, 1)))
    return ImageSizes(axes, step, least, examples)


def _tried_lengths(tokens: int) -> Iterator[Size]:
    """Yield the numbers of tokens to try for a network that takes `tokens` tokens."""
    for length in (tokens // 2, tokens - 1, tokens * 2, 2, 1):
        if length >= 1:
            yield (length,)


def _image_size(graph: Graph) -> tuple[int, int]:
    """Return the height and width of a network's images. Raises ArchError (A0932) unless they have a single size."""
    maps = [graph[number].op.infer().shape for number in graph.inputs.values()]
    sizes = {shape[1:] for shape in maps if len(shape) == 3}
    if len(sizes) != 1:
        raise fail(
            "A0932", f"`{graph.name}` does not take images of a single size: there is no height and width to leave open"
        )
    ((height, width),) = sizes
    return height, width


def _tried_image_sizes(own: Size, dynamic: Sequence[str]) -> Iterator[Size]:
    """Yield the image sizes to try for a network that takes images of the size `own`."""
    height, width = own
    for factor in _TRIED_FACTORS:
        yield (
            max(1, int(height * factor)) if "height" in dynamic else height,
            max(1, int(width * factor)) if "width" in dynamic else width,
        )


def _incompatibility(graph: Graph, other: Graph) -> tuple[str, Span | None] | None:
    """Return why the weights of `graph` do not fit `other`, with the span of the operation; None if they fit."""
    before = infer(graph)
    try:
        after = infer(other)
    except NodeError as error:
        return error.error.message, other[error.number].span
    for number, other_number in zip(graph, other, strict=True):
        op, scope = graph[number].op, graph[number].scope
        weights = op.weights(*(before[operand] for operand in graph.operands(number)))
        other_weights = other[other_number].op.weights(*(after[operand] for operand in other.operands(other_number)))
        for name, weight in weights.items():
            if other_weights[name].shape != weight.shape:
                text = f"`{state_name(scope, name)}` of `{op.name}` would be {list(other_weights[name].shape)}"
                return f"{text}, not {list(weight.shape)}", graph[number].span
    return _out_of_range(other, after)


def _out_of_range(graph: Graph, types: Types) -> tuple[str, Span | None] | None:
    """Return a message and span for a lookup whose computed indices exceed its table.

    None if there is no such lookup.
    """
    for number in graph:
        op, operands = graph[number].op, graph.operands(number)
        for operand, limit in zip(operands, op.limits(*(types[operand_id] for operand_id in operands)), strict=True):
            producer = graph[operand].op
            if limit is None:
                continue
            bounds = producer.between(types[operand], *(types[operand_id] for operand_id in graph.operands(operand)))
            if bounds is not None and bounds[1] >= limit:
                text = f"{op.name}: {bounds[1]} is looked up, and there are {limit}: from 0 to {limit - 1}"
                return text, graph[number].span
    return None
