"""Programs of a few lines that show how operations and blocks are called: found by trying, so that they are right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields

import archir.ops  # noqa: F401  (declares the operations)
from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import MOST_WORK, anew, bounded
from archir.ir.graph import Graph
from archir.ir.op import Op
from archir.ir.typing import infer
from archir.language.elaboration.elaborate import elaborate
from archir.language.elaboration.values import Block
from archir.language.formatter import canonical
from archir.passes.cost import SUMMED, costs
from archir.spaces.space import Space

_TYPES = ("f32[16, 32, 32]", "f32[64, 16]", "f32[16, 8, 16, 16]", "f32[64]", "i64[64]", "f32[3, 224, 224]")
"""What a tensor may be: a map, tokens, a volume, a vector, indices, an image."""
_GIVEN = {
    "affine": "true", "amount": "1", "axis": "0", "bias": "true", "cells": "6", "channels": "32", "classes": "10",
    "depth": "50", "depths": "[2, 2, 2, 2]", "dilation": "1", "experts": "4", "exponent": "2", "extent": "2",
    "factor": "2", "groups": "4", "heads": "4", "hidden": "32", "inner": "64", "k": "2", "kernel": "3",
    "learned": "true", "reduction": "4", "shape": "[64, 256]", "size": "4", "stride": "2", "to": "0",
    "vocabulary": "1000", "width": "16",
}  # fmt: skip
"""What parameters of these names are given where they have no default. What is none of them is a tensor."""
_IMAGES = ("f32[3, 32, 32]", "f32[3, 224, 224]")
_ROUTED = """
    input x: f32[64, 16]
    scores = x |> linear(4, bias=false)
    gates = scores |> top_k(2) |> softmax
    y = expert_linear(x, scores |> top_positions(2), experts=4, channels=16)
    output result = combine_experts(y, gates)
"""
_KERNELS = """
    input x: f32[16, 32, 32]
    kernels = x |> adaptive_avg_pool(3) |> as_kernel
    output result = dynamic_conv(x, kernels)
"""
_ATTENTION = """
    input query: f32[64, 16]
    input key: f32[64, 16]
    input value: f32[64, 16]
    output result = attention(query, key, value, heads=4)
"""
_BODIES = {
    "attention": _ATTENTION,
    "as_kernel": _KERNELS,
    "axial_attention": """
    input query: f32[16, 32, 32]
    input key: f32[16, 32, 32]
    input value: f32[16, 32, 32]
    output result = axial_attention(query, key, value, axis="height")
""",
    "calibrate": "input x: f32[16, 32, 32]\n gate = x |> sigmoid |> as_gate\n output result = calibrate(x, gate)",
    "clamp": "input x: f32[16, 32, 32]\n output result = x |> clamp(0, 6)",
    "combine_experts": _ROUTED,
    "constant": "input x: f32[64, 16]\n output result = x |> gather(constant(x, [0, 5]))",
    "deit": "input x: f32[3, 224, 224]\n output result = x |> deit",
    "dynamic_conv": _KERNELS,
    "expert_linear": _ROUTED,
    "gather": "input x: f32[64, 16]\n output result = x |> gather(constant(x, [0, 5]))",
    "group_norm": "input x: f32[16, 32, 32]\n output result = x |> group_norm(groups=4)",
    "large_stem": """
    input image: f32[3, 224, 224]
    first, second = image |> large_stem(channels=16)
    output result = second
""",
    "pairs": """
    input a: f32[16, 32, 32]
    input b: f32[16, 32, 32]
    output result = pairs(a, b, sep_conv_3x3, blocks=2)
""",
    "parameter": "input x: f32[64, 16]\n output result = x + parameter([64, 16])",
    "patch_embedding": "input x: f32[3, 224, 224]\n output result = x |> patch_embedding(width=192)",
    "resize": "input x: f32[16, 32, 32]\n output result = x |> resize(size=64)",
    "resnext_32x4d": "input x: f32[64, 56, 56]\n output result = x |> resnext_32x4d(width=256)",
    "routed": """
    input x: f32[64, 16]
    chosen, gates = x |> routed(experts=4)
    y = x |> expert_linear(chosen, experts=4, channels=16)
    output result = y |> combine_experts(gates)
""",
    "scan": """
    input x: f32[8, 16]
    output result = scan(x, no_state(x, 32), added_up)
""",
    "slice": "input x: f32[64, 16]\n output result = x |> slice(0, 8)",
    "small_stem": """
    input image: f32[3, 32, 32]
    first, second = image |> small_stem(channels=16)
    output result = second
""",
    "stacked_cells": """
    input image: f32[3, 32, 32]
    stem = image |> small_stem(channels=48)
    last, side, taps = stem |> stacked_cells(plain, halving, channels=16, cells=6)
    output result = last
""",
    "stage_depths": """
    input image: f32[3, 224, 224]
    output result = image |> resnet(stage_depths(50))
""",
    "transpose": "input x: f32[16, 32, 8]\n output result = x |> transpose(axes=[1, 0, 2])",
    "where": """
    input a: f32[64]
    input b: f32[64]
    output result = where(greater(a, b), a, b)
""",
}
"""Nets of what is not called with tensors and numbers alone."""
_BESIDE = {
    "scan": "block added_up(token, state) {\n return linear(token, 32) + linear(state, 32) |> tanh\n}",
    "stacked_cells": "block plain(a, b, affine, settings) {\n return a + sep_conv_3x3(b)\n}\n\n"
    "block halving(a, b, affine, settings) {\n return sep_conv_3x3(a, stride=2) + max_pool_3x3(b, stride=2)\n}",
}
"""Blocks that these nets need."""


_WORDS = {"params": "parameter", "macs": "multiply-accumulate", "kernels": "kernel"}


@dataclass(frozen=True)
class Example:
    """A program, and the graph of its only net."""

    text: str
    graph: Graph

    @property
    def told(self) -> str:
        """What the net gives and costs, in a sentence."""
        graph = self.graph
        type_ = infer(graph)[graph.outputs["result"]]
        if graph.decisions:
            return f"gives `{type_}`, in {Space(graph).size:,} architectures"
        parts = list(costs(graph).values())
        sums = {name: sum(getattr(part, name) for part in parts) for name in SUMMED}
        said = [f"{sums[name]:,} {word}{'s' * (sums[name] != 1)}" for name, word in _WORDS.items()]
        return f"gives `{type_}`, and costs {said[0]}, {said[1]} and {said[2]}"


def of_operation(op: type[Op]) -> Example | None:
    """How an operation may be called; None if nothing that was tried fits, such as for one of a plugin."""
    required = [field.name for field in fields(op) if field.default is MISSING]
    operands = [one for name in op.operands if name != "mask" for one in (("a", "b") if name[0] == "*" else (name,))]
    return _first(op.name, [operands, required], "")


def of_block(block: Block, library: str) -> Example | None:
    """How a block of a library may be called; None if nothing that was tried fits."""
    required = [param.name.text for param in block.definition.params if param.default is None]
    tensors = [name for name in required if name not in _GIVEN]
    return _first(block.name, [tensors, [name for name in required if name in _GIVEN]], f"import {library}\n\n")


def _first(name: str, parameters: Sequence[Sequence[str]], before: str) -> Example | None:
    with bounded(MOST_WORK):
        for body in [_BODIES[name]] if name in _BODIES else _bodies(name, *parameters):
            beside = f"{_BESIDE[name]}\n\n" if name in _BESIDE else ""
            text = canonical(f"{before}{beside}net example {{\n{body}\n}}\n")
            try:
                with anew():
                    return Example(text, elaborate(text))
            except ArchError:
                continue
    return None


def _bodies(name: str, tensors: Sequence[str], given: Sequence[str]) -> Iterator[str]:
    """Nets that call something with tensors of each type."""
    if not all(one in _GIVEN for one in given) or not tensors:
        return
    named = [f"{one}={_GIVEN[one]}" for one in given]
    for type_ in _IMAGES if "image" in tensors else _TYPES:
        inputs = "".join(f"input {one}: {type_}\n" for one in tensors)
        if len(tensors) == 1:
            call = f"{tensors[0]} |> {name}" + (f"({', '.join(named)})" if named else "")
        else:
            call = f"{name}({', '.join([*tensors, *named])})"
        yield f"{inputs}output result = {call}"
