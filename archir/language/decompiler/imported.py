"""What importers hand over: a graph, its weights, and where each of them comes from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archir.diagnostics.errors import Diagnostic
from archir.ir.graph import Graph

Array = NDArray[Any]


class Move(NamedTuple):
    """One thing done with a tensor that moves its numbers and changes none.

    `permute` has the axes in their new order, `reshape` the new shape, `slice` an axis, a start and a stop, `strided`
    an offset, the new shape and the strides, counted in elements of the contiguous tensor.
    """

    kind: Literal["permute", "reshape", "slice", "strided"]
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Source:
    """Where a weight comes from: the tensor `name` of that shape in the source, moved in these steps.

    The source has the same tensor by the names in `also`, too, if modules of it share one. A weight that was computed
    has no name, and cannot be brought back once it differs from its SHA-256, `digest`: `computed` says from what.
    """

    name: str
    shape: tuple[int, ...]
    moves: tuple[Move, ...] = ()
    computed: str = ""
    also: tuple[str, ...] = ()
    digest: str = ""


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
    rest: Mapping[str, Array | None] = field(default_factory=dict)
    """Tensors of the source by name that the weights do not hold whole; None for one that no file of tensors holds."""
    problems: Sequence[Diagnostic] = ()
    """What could not be imported, if a part was asked for."""


def moved(tensor: Array, moves: Sequence[Move]) -> Array:
    """A tensor of the source as archir has it; a view where numpy can make one."""
    for kind, numbers in moves:
        if kind == "permute":
            tensor = tensor.transpose(numbers)
        elif kind == "reshape":
            tensor = tensor.reshape(numbers)
        elif kind == "strided":
            rank = len(numbers) // 2
            strides = [step * tensor.itemsize for step in numbers[1 + rank :]]
            flat = np.ascontiguousarray(tensor).reshape(-1)[numbers[0] :]
            tensor = np.lib.stride_tricks.as_strided(flat, numbers[1 : 1 + rank], strides)
        else:
            axis, start, stop = numbers
            tensor = tensor[(slice(None),) * axis + (slice(start, stop),)]
    return tensor


def digest(array: Array) -> str:
    """The SHA-256 of an array's elements."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def held(sources: Iterable[Source]) -> set[str]:
    """The names of the source's tensors of which every element is in a weight."""
    found: set[str] = set()
    masks: dict[str, NDArray[np.bool_]] = {}
    for source in sources:
        if source.computed:
            continue
        if all(kind in ("permute", "reshape") for kind, _ in source.moves):
            found |= {source.name, *source.also}
            continue
        mask = masks.setdefault(source.name, np.zeros(source.shape, bool))
        _place(mask, source.moves, np.array(True))
        if mask.all():
            found |= {source.name, *source.also}
    return found


def brought_back(
    weights: Mapping[str, Array], sources: Mapping[str, Source], rest: Mapping[str, Array | None] | None = None
) -> dict[str, Array]:
    """The source's tensors: the inverse of `moved` for all weights but computed ones, and `rest` where no weight is."""
    found = {name: array for name, array in (rest or {}).items() if array is not None}
    begun: set[str] = set()
    for name, source in sources.items():
        if source.computed:
            continue
        if source.name not in begun:
            begun.add(source.name)
            given = found.get(source.name)
            dtype = weights[name].dtype
            found[source.name] = np.zeros(source.shape, dtype) if given is None else np.array(given, dtype)
        _place(found[source.name], source.moves, weights[name])
        found |= dict.fromkeys(source.also, found[source.name])
    shared = {other for source in sources.values() for other in source.also}
    return {name: array.copy() if name in shared else array for name, array in found.items()}  # files hold no views


def _place(whole: Array, moves: Sequence[Move], part: Array) -> None:
    """Write a part where `moves` say that it is."""
    place = moved(whole, moves)
    if np.shares_memory(place, whole) or not whole.size:
        place[...] = part
    else:
        whole.flat[moved(np.arange(whole.size).reshape(whole.shape), moves)] = part
