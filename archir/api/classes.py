"""Public classes of arguments, results and exceptions, for use in type annotations and `except` clauses."""

from archir.costs.latencies.model import LatencyModel
from archir.costs.latencies.table import LatencyTable
from archir.diagnostics.errors import ArchError, Diagnostic
from archir.ir.graph import Graph
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space

__all__ = ["ArchError", "Architecture", "Diagnostic", "Graph", "LatencyModel", "LatencyTable", "Space"]
