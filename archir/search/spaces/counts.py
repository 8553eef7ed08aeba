"""How often a space's architectures run each operation."""

from __future__ import annotations

from archir.base.errors import ArchError
from archir.costs.latencies.models.counts import Counts, of_codes, of_graphs
from archir.search.spaces.rows import Codes
from archir.search.spaces.space import Space


def counts(space: Space, codes: Codes) -> Counts:
    """Of rows of outcomes; network by network where choices are too entangled to be followed at once."""
    try:
        return of_codes(space.account, codes)
    except ArchError as error:
        if error.diagnostics[0].code not in ("A1601", "A1602"):
            raise
    return of_graphs([space.specialize(space.decode(row)) for row in codes], space.graph)
