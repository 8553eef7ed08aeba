"""Short example programs that call operations and library blocks.

Candidate programs are elaborated, and the first one without errors becomes the example.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields

from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import MAX_WORK, fresh_budget, work_budget
from archir.ir.graph import Graph
from archir.ir.op import Op
from archir.ir.typing import infer
from archir.language.elaboration.elaborate import elaborate
from archir.language.elaboration.module import Block
from archir.language.formatter import canonical
from archir.passes.cost import ADDITIVE_COSTS, costs
from archir.spaces.space import Space

_TENSOR_TYPES = ("f32[16, 32, 32]", "f32[64, 16]", "f32[16, 8, 16, 16]", "f32[64]", "i64[64]", "f32[3, 224, 224]")
"""Types tried for a tensor operand: a feature map, tokens, a volume, a vector, indices, an image."""
_ARGUMENTS = {
    "affine": "true", "amount": "1", "axis": "0", "bias": "true", "cells": "6", "channels": "32", "classes": "10",
    "depth": "50", "depths": "[2, 2, 2, 2]", "dilation": "1", "experts": "4", "exponent": "2", "extent": "2",
    "factor": "2", "groups": "4", "heads": "4", "hidden": "32", "inner": "64", "k": "2", "kernel": "3",
    "learned": "true", "reduction": "4", "shape": "[64, 256]", "size": "4", "stride": "2", "to": "0",
    "vocabulary": "1000", "width": "16",
}  # fmt: skip
"""Values for parameters without a default, by parameter name. All other parameters are taken to be tensors."""
_IMAGE_TYPES = ("f32[3, 32, 32]", "f32[3, 224, 224]")
"""Types tried for operands named `image`."""
_ROUTED = """
    input x: f32[64, 16]
    scores = x |> linear(4, bias=false)
    gates = scores |> top_k(2) |> softmax
    y = expert_linear(x, scores |> top_positions(2), experts=4, channels=16)
    output result = combine_experts(y, gates)
"""
"""Net body that is the example for mixture-of-experts operations."""
_KERNELS = """
    input x: f32[16, 32, 32]
    kernels = x |> adaptive_avg_pool(3) |> as_kernel
    output result = dynamic_conv(x, kernels)
"""
"""Net body that is the example for operations on kernels computed from the input."""
_ATTENTION = """
    input query: f32[64, 16]
    input key: f32[64, 16]
    input value: f32[64, 16]
    output result = attention(query, key, value, heads=4)
"""
"""Net body that is the example for attention, which has three operands."""
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
"""Handwritten net bodies, by operation or block, for which automatic examples do not work.

Automatic examples use only tensors and the values in `_ARGUMENTS` as arguments.
"""
_HELPER_BLOCKS = {
    "scan": "block added_up(token, state) {\n return linear(token, 32) + linear(state, 32) |> tanh\n}",
    "stacked_cells": "block plain(a, b, affine, settings) {\n return a + sep_conv_3x3(b)\n}\n\n"
    "block halving(a, b, affine, settings) {\n return sep_conv_3x3(a, stride=2) + max_pool_3x3(b, stride=2)\n}",
}
"""Source of the blocks that some of the handwritten bodies call."""


_COST_NAMES = {"params": "parameter", "macs": "multiply-accumulate", "kernels": "kernel"}
"""Name of each cost in the summary of an example."""


@dataclass(frozen=True)
class Example:
    """Example program with a single net, and the graph of that net."""

    text: str
    graph: Graph

    @property
    def summary(self) -> str:
        """Clause with the output type and the costs of the net, such as "gives `f32[10]`, and costs ..."."""
        graph = self.graph
        type_ = infer(graph)[graph.outputs["result"]]
        if graph.decisions:
            return f"gives `{type_}`, in {Space(graph).size:,} architectures"
        parts = list(costs(graph).values())
        sums = {name: sum(getattr(part, name) for part in parts) for name in ADDITIVE_COSTS}
        texts = [f"{sums[name]:,} {word}{'s' * (sums[name] != 1)}" for name, word in _COST_NAMES.items()]
        return f"gives `{type_}`, and costs {texts[0]}, {texts[1]} and {texts[2]}"


def operation_example(op: type[Op]) -> Example | None:
    """Return an example that calls an operation.

    Returns None if no candidate elaborates, which may happen for operations of plugins.
    """
    required = [field.name for field in fields(op) if field.default is MISSING]
    operands = [
        operand for name in op.operands if name != "mask" for operand in (("a", "b") if name[0] == "*" else (name,))
    ]
    return _first_valid(op.name, [operands, required], "")


def block_example(block: Block, library: str) -> Example | None:
    """Return an example that calls a block of a library, or None if no candidate elaborates."""
    required = [param.name.text for param in block.definition.params if param.default is None]
    tensors = [name for name in required if name not in _ARGUMENTS]
    return _first_valid(
        block.name, [tensors, [name for name in required if name in _ARGUMENTS]], f"import {library}\n\n"
    )


def _first_valid(name: str, parameters: Sequence[Sequence[str]], header: str) -> Example | None:
    """Return the first candidate program that elaborates without errors, or None.

    `parameters` are the names of tensors and of other required parameters; `header` is the program's text before the
    net.
    """
    with work_budget(MAX_WORK):
        for body in [_BODIES[name]] if name in _BODIES else _net_bodies(name, *parameters):
            helpers = f"{_HELPER_BLOCKS[name]}\n\n" if name in _HELPER_BLOCKS else ""
            text = canonical(f"{header}{helpers}net example {{\n{body}\n}}\n")
            try:
                with fresh_budget():
                    return Example(text, elaborate(text))
            except ArchError:
                continue
    return None


def _net_bodies(name: str, tensors: Sequence[str], arguments: Sequence[str]) -> Iterator[str]:
    """Yield candidate net bodies that call `name`, one for each combination of tensor types."""
    if not all(parameter in _ARGUMENTS for parameter in arguments) or not tensors:
        return
    keywords = [f"{parameter}={_ARGUMENTS[parameter]}" for parameter in arguments]
    for type_ in _IMAGE_TYPES if "image" in tensors else _TENSOR_TYPES:
        inputs = "".join(f"input {parameter}: {type_}\n" for parameter in tensors)
        if len(tensors) == 1:
            call = f"{tensors[0]} |> {name}" + (f"({', '.join(keywords)})" if keywords else "")
        else:
            call = f"{name}({', '.join([*tensors, *keywords])})"
        yield f"{inputs}output result = {call}"
