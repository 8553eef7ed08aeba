"""What importers hand over: a graph, its weights, and where each of them comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archir.base.errors import Diagnostic
from archir.ir.graph import Graph

Array = NDArray[Any]


class Move(NamedTuple):
    """One thing done with a tensor that moves its numbers and changes none.

    `permute` has the axes in their new order, `reshape` the new shape, `slice` an axis, a start and a stop.
    """

    kind: Literal["permute", "reshape", "slice"]
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Source:
    """Where a weight comes from: the tensor `name` of that shape in the source, moved in these steps.

    The source has the same tensor by the names in `also`, too, if modules of it share one. A weight that was computed
    has no name, and cannot be brought back: `computed` says from what.
    """

    name: str
    shape: tuple[int, ...]
    moves: tuple[Move, ...] = ()
    computed: str = ""
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Imported:
    """A network of another framework. Scopes are paths in the source: `layers[0].attn.q`; equal ones share weights."""

    graph: Graph
    classes: Mapping[str, str] = field(default_factory=dict)
    """Scope of a module (`layers[0].attn`; the whole is "") to the name of its class or function."""
    weights: Mapping[str, Array] = field(default_factory=dict)
    """Arrays by the weight's name in state dicts (`archir.ir.graph.state_name`); views of what is there already."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    """Of the same names."""
    problems: Sequence[Diagnostic] = ()
    """What could not be imported, if a part was asked for."""


def moved(tensor: Array, moves: Sequence[Move]) -> Array:
    """A tensor of the source as archir has it; a view where numpy can make one."""
    for kind, numbers in moves:
        if kind == "permute":
            tensor = tensor.transpose(numbers)
        elif kind == "reshape":
            tensor = tensor.reshape(numbers)
        else:
            axis, start, stop = numbers
            tensor = tensor[(slice(None),) * axis + (slice(start, stop),)]
    return tensor


def brought_back(weights: Mapping[str, Array], sources: Mapping[str, Source]) -> dict[str, Array]:
    """The source's tensors of archir's weights: the inverse of `moved`, for all weights but computed ones."""
    found: dict[str, Array] = {}
    for name, source in sources.items():
        if source.computed:
            continue
        if source.name not in found:
            found[source.name] = np.zeros(source.shape, weights[name].dtype)
        whole = found[source.name]
        place = moved(whole, source.moves)
        if np.shares_memory(place, whole) or not whole.size:
            place[...] = weights[name]
        else:
            places = moved(np.arange(whole.size).reshape(whole.shape), source.moves)
            whole.flat[places] = weights[name]
    shared = {other: found[source.name] for source in sources.values() for other in source.also}
    return {**found, **{name: array.copy() for name, array in shared.items()}}  # files of weights hold no views
