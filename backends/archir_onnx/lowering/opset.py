"""Choice of the opset of a model: the lowest with operators for all of a network's operations, as far as runtimes have
kernels for it.

A newer opset has new versions of many old operators, for which runtimes need new kernels. On CUDA, for example,
onnxruntime 1.31 has no kernel for `MaxPool` from opset 22 on (benchmarks/results/gpu.txt).
"""

from __future__ import annotations

from dataclasses import replace

from archir.ir.graph import Graph
from archir_onnx.lowering.export_options import ATTENTION_OPSET, OPSETS, PORTABLE_OPSET, RUNTIMES, ExportOptions
from archir_onnx.lowering.rules import OPERATOR_OPSETS

BFLOAT16_OPSET = 22
"""First opset whose convolutions and poolings accept bfloat16."""


def with_opset(graph: Graph, options: ExportOptions) -> ExportOptions:
    """Return export options with an opset for a graph, unless they have one.

    The opset is the lowest with an operator for every operation of the graph. Operators of opsets for which the runtime
    in the options lacks kernels do not count, and are decomposed; without a runtime, those of opsets after
    PORTABLE_OPSET. Models in bfloat16 get at least BFLOAT16_OPSET, if the runtime has kernels of that opset.
    """
    if options.opset is not None:
        return options
    if options.attention == "standard":
        return replace(options, opset=ATTENTION_OPSET)
    limit = PORTABLE_OPSET if options.runtime is None else RUNTIMES[options.runtime]
    wanted = {OPERATOR_OPSETS.get(type(graph[number].op), 0) for number in graph}
    least = BFLOAT16_OPSET if options.precision == "bfloat16" else min(OPSETS)
    if options.runtime is not None:
        least = min(least, limit)
    return replace(options, opset=max(least, *(opset for opset in wanted if opset <= limit)))
