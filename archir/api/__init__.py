"""Python interface of every command, one module per task: load, analyse, search, lower, measure.

Names in the `__all__` of a module are public and available from `archir`. All others are for the command line.
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
