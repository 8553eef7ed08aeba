"""archir: search spaces of neural architectures as small programs, compiled to a graph IR.

    space = archir.load("space.arch", channels=32)
    space.size                          # exact
    network = space.specialize(space.sample(seed=0))
    module = archir.compile(network)    # a torch module
    archir.export(network, "net.onnx", module)

Importing archir imports none of torch, onnx and onnxruntime; what needs them loads them when it is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from archir.base.moved import moved

if TYPE_CHECKING:
    from archir.api import (
        bench,
        block,
        canonical_hash,
        check,
        compile,  # noqa: A004
        cost,
        diff,
        export,
        extract,
        format,  # noqa: A004
        latency_table,
        lint,
        load,
        loads,
        measure,
        print_graph,
        quantize,
        resume,
        run,
        score,
        scorer,
        strategy,
        supernet,
        train,
        validate,
    )
    from archir.base.errors import ArchError, Diagnostic
    from archir.costs.latencies.table import LatencyTable
    from archir.ir.graph import Graph
    from archir.search.spaces.architecture import Architecture
    from archir.search.spaces.space import Space

__version__ = "0.1.0"

moved(
    {
        "archir.errors": "archir.base.errors",
        "archir.types": "archir.ir.types",
        "archir.runs": "archir.search.runs",
        "archir.passes.relax": "archir.passes.spaces.relax",
        "archir.search.architecture": "archir.search.spaces.architecture",
        "archir.search.multi.front": "archir.search.fronts.listing",
        "archir.search.multi.scatter": "archir.search.fronts.scatter",
    }
)

_HOMES = {
    "bench": "archir.api",
    "block": "archir.api",
    "canonical_hash": "archir.api",
    "check": "archir.api",
    "compile": "archir.api",
    "cost": "archir.api",
    "diff": "archir.api",
    "export": "archir.api",
    "extract": "archir.api",
    "format": "archir.api",
    "latency_table": "archir.api",
    "lint": "archir.api",
    "load": "archir.api",
    "loads": "archir.api",
    "measure": "archir.api",
    "print_graph": "archir.api",
    "quantize": "archir.api",
    "resume": "archir.api",
    "run": "archir.api",
    "score": "archir.api",
    "scorer": "archir.api",
    "strategy": "archir.api",
    "supernet": "archir.api",
    "train": "archir.api",
    "validate": "archir.api",
    "ArchError": "archir.base.errors",
    "Diagnostic": "archir.base.errors",
    "Graph": "archir.ir.graph",
    "LatencyTable": "archir.costs.latencies.table",
    "Architecture": "archir.search.spaces.architecture",
    "Space": "archir.search.spaces.space",
}

__all__ = [
    "ArchError",
    "Architecture",
    "Diagnostic",
    "Graph",
    "LatencyTable",
    "Space",
    "__version__",
    "bench",
    "block",
    "canonical_hash",
    "check",
    "compile",
    "cost",
    "diff",
    "export",
    "extract",
    "format",
    "latency_table",
    "lint",
    "load",
    "loads",
    "measure",
    "print_graph",
    "quantize",
    "resume",
    "run",
    "score",
    "scorer",
    "strategy",
    "supernet",
    "train",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'archir' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
