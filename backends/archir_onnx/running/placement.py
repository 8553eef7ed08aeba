"""Which nodes of a model run where onnxruntime was not asked to run them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx

_SPREADS = {"ConstantOfShape", "Expand", "Range", "Tile", "RandomNormal", "RandomUniform"}
"""What makes of a few sizes tensors that are as large."""


def elsewhere(running: Any, providers: Sequence[str], model: Path | bytes) -> list[str]:
    """The nodes of a session that none of the providers has, as `operator name`; those that compute sizes do not count.

    onnxruntime runs these on the processor on purpose: a GPU would have to be waited for.
    """
    proto = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model, load_external_data=False)
    small = sizing(proto.graph)
    return [
        f"{node.op_type} {node.name}".strip()
        for part in running.get_provider_graph_assignment_info()
        if part.ep_name not in providers
        for node in part.get_nodes()
        if node.op_type != "Shape" and node.name not in small
    ]


def sizing(graph: onnx.GraphProto) -> set[str]:
    """The names of the nodes that compute sizes: from shapes and constants alone."""
    constant = {tensor.name for tensor in graph.initializer} | {""}
    sizes: set[str] = set()
    found: set[str] = set()
    for node in graph.node:
        if node.op_type == "Constant":
            constant.update(node.output)
        elif node.op_type in ("Shape", "Size") or (
            node.op_type not in _SPREADS
            and not sizes.isdisjoint(node.input)
            and all(name in sizes or name in constant for name in node.input)
        ):
            sizes.update(node.output)
            found.add(node.name)
    return found - {""}
