"""Result of an importer: a graph, its weights, and the tensor of the source that each weight comes from."""

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
"""A numpy array of any type."""


class Move(NamedTuple):
    """Layout operation on a tensor: it rearranges or selects elements and changes none.

    `permute` has the axes in their new order, `reshape` the new shape, `slice` an axis, a start and a stop, `strided`
    an offset, the new shape and the strides, counted in elements of the contiguous tensor.
    """

    kind: Literal["permute", "reshape", "slice", "strided"]
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Source:
    """Origin of a weight: the tensor `name` of shape `shape` in the source, transformed by `moves`.

    If modules of the source share the tensor, `also` has its other names. A weight that was computed has no name;
    `computed` says from what. It cannot be restored once it differs from its SHA-256, `digest`.
    """

    name: str
    shape: tuple[int, ...]
    moves: tuple[Move, ...] = ()
    computed: str = ""
    also: tuple[str, ...] = ()
    digest: str = ""


@dataclass(frozen=True)
class Imported:
    """Network imported from another framework. Scopes are paths in the source: `layers[0].attn.q`; equal scopes share
    weights."""

    graph: Graph
    classes: Mapping[str, str] = field(default_factory=dict)
    """Name of the class or function of each module, by scope (`layers[0].attn`; "" is the whole network)."""
    weights: Mapping[str, Array] = field(default_factory=dict)
    """Arrays by the name of the weight in state dicts (`archir.ir.graph.state_name`), as views of existing arrays."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    """Origins of the weights, by the same names."""
    rest: Mapping[str, Array | None] = field(default_factory=dict)
    """Tensors of the source by name that are not completely contained in the weights; None for a tensor that a file of
    tensors cannot hold."""
    problems: Sequence[Diagnostic] = ()
    """What could not be imported, if a partial import was asked for."""


def apply_moves(tensor: Array, moves: Sequence[Move]) -> Array:
    """Apply layout operations to a tensor of the source; a view where numpy can make one."""
    for kind, numbers in moves:
        if kind == "permute":
            tensor = tensor.transpose(numbers)
        elif kind == "reshape":
            tensor = tensor.reshape(numbers)
        elif kind == "strided":
            rank = len(numbers) // 2
            byte_steps = [step * tensor.itemsize for step in numbers[1 + rank :]]
            flat = np.ascontiguousarray(tensor).reshape(-1)[numbers[0] :]
            tensor = np.lib.stride_tricks.as_strided(flat, numbers[1 : 1 + rank], byte_steps)
        else:
            axis, start, stop = numbers
            tensor = tensor[(slice(None),) * axis + (slice(start, stop),)]
    return tensor


def digest(array: Array) -> str:
    """Return the SHA-256 of the elements of an array."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def fully_used_tensors(sources: Iterable[Source]) -> set[str]:
    """Return the names of the source's tensors of which every element is contained in a weight."""
    names: set[str] = set()
    masks: dict[str, NDArray[np.bool_]] = {}
    for source in sources:
        if source.computed:
            continue
        if all(kind in ("permute", "reshape") for kind, _ in source.moves):
            names |= {source.name, *source.also}
            continue
        mask = masks.setdefault(source.name, np.zeros(source.shape, bool))
        _write_part(mask, source.moves, np.array(True))
        if mask.all():
            names |= {source.name, *source.also}
    return names


def restore_tensors(
    weights: Mapping[str, Array], sources: Mapping[str, Source], rest: Mapping[str, Array | None] | None = None
) -> dict[str, Array]:
    """Return the tensors of the source: inverts `apply_moves` for all weights except computed ones; other elements are
    from `rest`."""
    tensors = {name: array for name, array in (rest or {}).items() if array is not None}
    started: set[str] = set()
    for name, source in sources.items():
        if source.computed:
            continue
        if source.name not in started:
            started.add(source.name)
            existing = tensors.get(source.name)
            dtype = weights[name].dtype
            tensors[source.name] = np.zeros(source.shape, dtype) if existing is None else np.array(existing, dtype)
        _write_part(tensors[source.name], source.moves, weights[name])
        tensors |= dict.fromkeys(source.also, tensors[source.name])
    shared = {other for source in sources.values() for other in source.also}
    return {name: array.copy() if name in shared else array for name, array in tensors.items()}  # files hold no views


def _write_part(tensor: Array, moves: Sequence[Move], part: Array) -> None:
    """Write `part` into `tensor` at the elements that `moves` select."""
    view = apply_moves(tensor, moves)
    if np.shares_memory(view, tensor) or not tensor.size:
        view[...] = part
    else:
        tensor.flat[apply_moves(np.arange(tensor.size).reshape(tensor.shape), moves)] = part
