"""Result of an importer: a graph, its weights, and the source tensor from which each weight was taken."""

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
"""A numpy array of any element type."""


class Move(NamedTuple):
    """Layout operation on a tensor: rearranges or selects elements without changing their values.

    Contents of `numbers` by kind: `permute` the axes in their new order; `reshape` the new shape; `slice` axis,
    start and stop; `strided` an offset, the new shape and the strides, all in elements of the contiguous tensor.
    """

    kind: Literal["permute", "reshape", "slice", "strided"]
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Source:
    """Origin of a weight: the source tensor `name` with shape `shape`, transformed by `moves`.

    If several modules of the source share the tensor, `also` lists its other names. For a weight computed from other
    values, `name` is empty, `computed` describes these values, and `digest` is the weight's SHA-256; if the weight has
    changed since, the source can no longer be restored.
    """

    name: str
    shape: tuple[int, ...]
    moves: tuple[Move, ...] = ()
    computed: str = ""
    also: tuple[str, ...] = ()
    digest: str = ""


@dataclass(frozen=True)
class Imported:
    """Network imported from another framework. Scopes are module paths of the source, such as `layers[0].attn.q`;
    nodes with equal scopes share weights."""

    graph: Graph
    classes: Mapping[str, str] = field(default_factory=dict)
    """Maps scopes to the class or function name of the source module: `layers[0].attn`, or "" for the whole network."""
    weights: Mapping[str, Array] = field(default_factory=dict)
    """Weight arrays by their state-dict names (`archir.ir.graph.state_name`); views of existing arrays, not copies."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    """Origins of the weights, by their state-dict names."""
    rest: Mapping[str, Array | None] = field(default_factory=dict)
    """Source tensors, by name, with elements outside of all weights; None for one that no file can store."""
    problems: Sequence[Diagnostic] = ()
    """Diagnostics for the parts that could not be imported; empty unless a partial import was requested."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Entries of the source file's metadata on the training data (`archir.data.metadata`)."""


def apply_moves(tensor: Array, moves: Sequence[Move]) -> Array:
    """Apply layout operations to a source tensor; the result is a view of it where numpy allows that."""
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
    """Return the SHA-256 of the bytes of an array in C order."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def fully_used_tensors(sources: Iterable[Source]) -> set[str]:
    """Return the names of the source tensors whose every element is part of some weight."""
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
    """Reassemble the source tensors from the weights by inverting `apply_moves`; computed weights are skipped.

    Elements that no weight contains are taken from `rest`, or are 0 if `rest` lacks them.
    """
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
