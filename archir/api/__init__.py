"""The Python side of every command, grouped by what people do: load, analyse, search, lower, measure.

What a module here lists in its `__all__` is public: `archir` offers it. The rest is for the command line.
"""

from archir.api.analysis import *
from archir.api.analysis import linted as linted
from archir.api.importing import *
from archir.api.loading import *
from archir.api.loading import architecture as architecture
from archir.api.loading import graph as graph
from archir.api.loading import graphs as graphs
from archir.api.lowering import *
from archir.api.measurement import *
from archir.api.measurement import BENCHES as BENCHES
from archir.api.opening import *
from archir.api.optimizing import *
from archir.api.searching import *
from archir.api.shrinking import *
