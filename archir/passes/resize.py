"""Networks of images and texts of other sizes: what a model whose sizes are open must stay right for, and what networks
see of images that are larger than theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from archir.diagnostics.errors import Span, fail
from archir.diagrams.cases import same
from archir.diagrams.lifting import lift
from archir.ir.graph import Graph, Node, NodeId, keep, rebuild, state_name
from archir.ir.structure import Input
from archir.ir.types import INTEGERS, TensorType
from archir.ir.typing import NodeError, Types, infer
from archir.ops.arithmetic import Add
from archir.ops.resize import Resize
from archir.ops.shape import FirstTokens, Parameter
from archir.passes.expand import expand

_FACTORS = (2, 1.5, 0.5)
"""Of the net's own height and width: the sizes that are tried."""


Size = tuple[int, ...]
"""Of images, a height and a width; of texts and series, how many tokens."""


def resize(graph: Graph, *size: int) -> Graph:
    """The graph with maps, or with tokens, of that size as its inputs. Its operations, and their attributes, are the
    same."""
    own = None if len(size) == 2 else length(graph)

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        if isinstance(node.op, Input):
            dims = list(node.op.infer().shape)
            for axis, one in zip(along(node.op.infer(), own), size * len(dims), strict=False):
                dims[axis] = one
            return out.add(replace(node, op=replace(node.op, dims=tuple(dims))), *operands)
        return keep(out, node, operands)

    return rebuild(graph, step)


def along(x: TensorType, tokens: int | None) -> tuple[int, ...]:
    """The axes of an input whose sizes may be open: those of a map, or of so many tokens. Numbers f32[N, D] and
    integers i64[N] have theirs first; masks of truth values, anywhere."""
    if tokens is None:
        return (1, 2) if x.rank == 3 else ()
    if x.dtype == "bool":
        return tuple(axis for axis, size in enumerate(x.shape) if size == tokens)
    has = x.rank == (1 if x.dtype in INTEGERS else 2) and x.shape[0] == tokens
    return (0,) if has else ()


def length(graph: Graph) -> int:
    """How many tokens a network takes. Raises ArchError (A0932) where it takes none, or inputs differ in it."""
    kinds = [graph[number].op.infer() for number in graph.inputs.values()]
    found = {x.shape[0] for x in kinds if x.dtype != "bool" and x.rank == (1 if x.dtype in INTEGERS else 2)}
    if len(found) != 1:
        told = f"takes tokens of several lengths: {sorted(found)}" if found else "takes no tokens"
        raise fail("A0932", f"`{graph.name}` {told}: there is no one length to leave open")
    return found.pop()


def following(graph: Graph) -> Graph:
    """The graph in which learned vectors that are added to tokens are as many as there are: the first of them.

    `%2 = parameter([8, 4]); %3 = add(%1, %2)` -> `%3 = first_tokens(%2, %1); %4 = add(%1, %3)`.
    """

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        if isinstance(node.op, Add):
            pair = [(one, other) for one, other in zip(operands, reversed(operands), strict=True) if learned(out, one)]
            if len(pair) == 1:
                ((table, tokens),) = pair
                first = out.add(Node(FirstTokens(), node.span, node.scope), table, tokens)
                operands = tuple([first if operand == table else operand for operand in operands])
        return keep(out, node, operands)

    def learned(out: Graph, number: NodeId) -> bool:
        op = out[number].op
        return isinstance(op, Parameter) and len(op.shape) == 2 and op.shape[0] != 1

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


def other_sizes(graph: Graph, dynamic: Sequence[str]) -> list[Size]:
    """Heights and widths that the network works for with the weights it has, if `height` or `width` may change; numbers
    of tokens if these may.

    Raises ArchError (A0932) if there are none, or none that is less: an operation has weights that depend on the size,
    or does not take it.
    """
    graph = expand(graph)
    images = "height" in dynamic or "width" in dynamic
    if images and "tokens" in dynamic:
        raise fail("A0932", "sizes of images and numbers of tokens cannot be left open together")
    sizes = list(dict.fromkeys(_tried(graph, dynamic) if images else _lengths(length(graph))))
    problems = {size: _problem(graph, resize(graph, *size)) for size in sizes}
    found = [size for size in sizes if problems[size] is None]
    shorter = [size for size in sizes if len(size) == 1 and size < (length(graph),)]
    if not found or (shorter and not {*shorter} & {*found}):  # steps that are written out leave later tokens unseen
        text, span = problems[sizes[0]] or ("", None)
        what, size = ("sizes of images", "{} x {}") if images else ("number of tokens", "{} tokens")
        raise fail("A0932", f"the {what} cannot be left open: at {size.format(*sizes[0])}, {text}", span)
    return found


def _lengths(own: int) -> Iterator[Size]:
    for tried in (own // 2, own - 1, own * 2, 2, 1):
        if tried >= 1:
            yield (tried,)


def _tried(graph: Graph, dynamic: Sequence[str]) -> Iterator[Size]:
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
    return _beyond(other, after)


def _beyond(graph: Graph, types: Types) -> tuple[str, Span | None] | None:
    """What is looked up that is not there, of integers that an operation makes, and where."""
    for number in graph:
        op, operands = graph[number].op, graph.operands(number)
        for operand, limit in zip(operands, op.limits(*(types[one] for one in operands)), strict=True):
            maker = graph[operand].op
            if limit is None:
                continue
            made = maker.between(types[operand], *(types[one] for one in graph.operands(operand)))
            if made is not None and made[1] >= limit:
                text = f"{op.name}: {made[1]} is looked up, and there are {limit}: from 0 to {limit - 1}"
                return text, graph[number].span
    return None
