"""What the functions take, give and raise: classes that are offered by name, for annotations and for `except`."""

from archir.base.errors import ArchError, Diagnostic
from archir.costs.latencies.models.model import LatencyModel
from archir.costs.latencies.table import LatencyTable
from archir.ir.graph import Graph
from archir.search.spaces.architecture import Architecture
from archir.search.spaces.space import Space

__all__ = ["ArchError", "Architecture", "Diagnostic", "Graph", "LatencyModel", "LatencyTable", "Space"]
