"""The Python side of every command, grouped by what people do: load, analyse, search, lower, measure."""

from archir.api.analysis import Cost, canonical_hash, cost, diff, lint, linted, print_graph
from archir.api.loading import architecture, check, format, graph, graphs, load, loads  # noqa: A004
from archir.api.lowering import block, compile, export, quantize  # noqa: A004
from archir.api.measurement import BENCHES, bench, latency_table, measure, validate
from archir.api.searching import extract, resume, run, score, scorer, strategy, supernet, train

__all__ = [
    "BENCHES",
    "Cost",
    "architecture",
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
    "graph",
    "graphs",
    "latency_table",
    "lint",
    "linted",
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
