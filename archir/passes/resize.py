"""Networks and images of other sizes: what a model whose sizes are open must stay right for, and what networks see of
images that are larger than theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from archir.base.errors import Span, fail
from archir.ir.choices.cases import same
from archir.ir.choices.lifting import lift
from archir.ir.graph import Graph, Node, NodeId, keep, rebuild, state_name
from archir.ir.structure import Input
from archir.ir.typing import NodeError, infer
from archir.ops.resize import Resize
from archir.passes.expand import expand

_FACTORS = (2, 1.5, 0.5)
"""Of the net's own height and width: the sizes that are tried."""


def resize(graph: Graph, height: int, width: int) -> Graph:
    """The graph with maps of that size as its inputs. Its operations, and their attributes, are the same."""

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        if isinstance(node.op, Input) and len(node.op.dims) == 3:
            return out.add(replace(node, op=replace(node.op, dims=(node.op.dims[0], height, width))), *operands)
        return keep(out, node, operands)

    return rebuild(graph, step)


def taking(graph: Graph, sizes: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph with inputs of these sizes, by their names; maps that it has smaller are resized to what it has.

    `%0 = input "image" f32[3, case(size: 128, 224), case(size: 128, 224)]` -> `%0 = input "image" f32[3, 224, 224];
    %1 = resize(%0, size=case(size: [128, 128], [224, 224]), mode="bilinear", antialias=true)`. So architectures of
    several resolutions are given the same images, and each sees them at its own.
    """

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        op = node.op
        if not isinstance(op, Input) or same(op.dims, dims := sizes.get(op.label, op.dims)):
            return keep(out, node, operands)
        whole = out.add(replace(node, op=replace(op, dims=dims)))
        smaller = Resize(lift(lambda own: own[1:], op.dims), mode="bilinear", antialias=True)
        return out.add(Node(smaller, node.span, f"{node.scope}.resize"), whole)

    return rebuild(graph, step)


def other_sizes(graph: Graph, dynamic: Sequence[str]) -> list[tuple[int, int]]:
    """Heights and widths that the network works for with the weights it has, if `height` or `width` may change.

    Raises ArchError (A0932) if there are none: an operation has weights that depend on the size, or does not take it.
    """
    graph = expand(graph)
    sizes = list(dict.fromkeys(_tried(graph, dynamic)))
    problems = {size: _problem(graph, resize(graph, *size)) for size in sizes}
    found = [size for size in sizes if problems[size] is None]
    if not found:
        text, span = problems[sizes[0]] or ("", None)
        height, width = sizes[0]
        raise fail("A0932", f"the sizes of images cannot be left open: at {height} x {width}, {text}", span)
    return found


def _tried(graph: Graph, dynamic: Sequence[str]) -> Iterator[tuple[int, int]]:
    maps = [graph[number].op.infer().shape for number in graph.inputs.values()]
    sizes = {shape[1:] for shape in maps if len(shape) == 3}
    if len(sizes) != 1:
        raise fail(
            "A0932", f"`{graph.name}` takes no images of one size: there are no heights and widths to leave open"
        )
    ((height, width),) = sizes
    for factor in _FACTORS:
        yield (
            max(1, int(height * factor)) if "height" in dynamic else height,
            max(1, int(width * factor)) if "width" in dynamic else width,
        )


def _problem(graph: Graph, other: Graph) -> tuple[str, Span | None] | None:
    """Why the weights of a graph do not do for another one, and where; None if they do."""
    before = infer(graph)
    try:
        after = infer(other)
    except NodeError as error:
        return error.error.message, other[error.number].span
    for number, twin in zip(graph, other, strict=True):
        op, scope = graph[number].op, graph[number].scope
        weights = op.weights(*(before[operand] for operand in graph.operands(number)))
        needed = other[twin].op.weights(*(after[operand] for operand in other.operands(twin)))
        for name, weight in weights.items():
            if needed[name].shape != weight.shape:
                text = f"`{state_name(scope, name)}` of `{op.name}` would be {list(needed[name].shape)}"
                return f"{text}, not {list(weight.shape)}", graph[number].span
    return None
