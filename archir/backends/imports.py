"""Imports as files: a program, its weights, and a map of the weights to the source's names, which goes both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from archir.backends.tensors import write_tensors
from archir.diagnostics.errors import ArchError, Diagnostic, fail, listed
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import state_name
from archir.ir.typing import infer
from archir.language.decompiler.imported import Array, Imported, Move, Source, brought_back, digest, moved
from archir.language.decompiler.write import Written, write
from archir.utils.files import drafts, read_bytes, require_own, require_writable

VERSION = 1
MOST_BYTES = 2**28
"""A map of weights is smaller than this."""


@dataclass(frozen=True)
class Program:
    """A program, and the weights and their sources by their names in it."""

    text: str
    weights: Mapping[str, Array]
    sources: Mapping[str, Source]
    rest: Mapping[str, Array | None]
    """Tensors of the source that the weights do not hold whole."""

    @property
    def lines(self) -> int:
        """Those of the program that are not empty."""
        return sum(bool(line.strip()) for line in self.text.splitlines())


@dataclass(frozen=True)
class Saved(Program):
    """A program that was written to files."""

    files: tuple[Path, ...]


def map_of(program: Path) -> Path:
    """Where the map of an import's weights is: `net.arch` has `net.import.json`."""
    return program.with_suffix(".import.json")


def rest_of(names: Path) -> Path:
    """Where the tensors of the source are that the weights do not hold whole: `net.import.safetensors`."""
    return names.with_suffix(".safetensors")


def save(imported: Imported, program: Path, origin: str = "") -> Saved:
    """Write an import: `net.arch`, and beside it `net.safetensors`, `net.import.json` and, if the weights do not hold
    all tensors of the source whole, `net.import.safetensors`; none of them, if one fails.

    `origin` says what was imported. Raises ArchError (A0809), also where `require_replaceable` does, and what `write`
    raises.
    """
    require_replaceable(program)
    made = program_of(imported)
    files = program, program.with_suffix(".safetensors"), map_of(program)
    rest = {name: array for name, array in made.rest.items() if array is not None}
    record = {
        "version": VERSION,
        "origin": origin,
        "architecture": canonical_hash(imported.graph),
        "weights": {name: asdict(source) for name, source in made.sources.items()},
        "rest": [*made.rest],
    }
    left = rest_of(files[2])
    with drafts(program, (left,), derived=True) as draft:
        draft.write_text(made.text, "utf-8")
        write_tensors(draft.with_name(files[1].name), made.weights)
        draft.with_name(files[2].name).write_text(json.dumps(record, indent=1) + "\n", "utf-8")
        if rest:
            write_tensors(draft.with_name(left.name), rest)
    return Saved(made.text, made.weights, made.sources, made.rest, (*files, left) if rest else files)


def require_replaceable(program: Path) -> None:
    """Raise ArchError (A0809) if one of an import's files is there and archir did not write it: what somebody wrote
    stays."""
    for file in (program, program.with_suffix(".safetensors"), map_of(program), rest_of(map_of(program))):
        require_own(file)
    require_writable(program)


def program_of(imported: Imported) -> Program:
    """The program of an import, proved to be the same network. Raises ArchError (A0908)."""
    written = write(imported)
    names = _names(imported, written)
    weights = {name: imported.weights[old] for name, old in names.items()}
    sources = {name: imported.sources[old] for name, old in names.items()}
    return Program(written.text, weights, sources, imported.rest)


def _names(imported: Imported, written: Written) -> dict[str, str]:
    """The weights' names in the program, and in what was imported."""
    graph, types = imported.graph, infer(imported.graph)
    found = {}
    for number in graph:
        scope = graph[number].scope
        for weight in graph[number].op.weights(*(types[operand] for operand in graph.operands(number))):
            found[state_name(written.scopes[scope], weight)] = state_name(scope, weight)
    return found


def read_map(path: Path) -> tuple[dict[str, Source], list[str]]:
    """The sources of weights by their names in a program, and the names of tensors that the weights do not hold whole.

    Raises ArchError (A3204) for what is no map.
    """
    try:
        record = json.loads(read_bytes(path, MOST_BYTES))
        if record["version"] != VERSION:
            raise fail("A3204", f"{path} is a map of version {record['version']}, not {VERSION}")
        sources = {str(name): _source(one) for name, one in record["weights"].items()}
        return sources, [str(name) for name in record["rest"]]
    except OSError as error:
        raise fail("A3204", f"cannot read the map of an import in {path}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise fail("A3204", f"{path} is no map of an import: {error}") from None


def _source(written: Mapping[str, Any]) -> Source:
    shape = tuple(int(size) for size in written["shape"])
    moves = []
    for kind, numbers in written["moves"]:
        if kind not in ("permute", "reshape", "slice", "strided"):
            raise ValueError(f"`{kind}` is no move")
        moves.append(Move(kind, tuple(int(one) for one in numbers)))
    also = tuple(str(name) for name in written.get("also", ()))
    return Source(str(written["name"]), shape, tuple(moves), str(written["computed"]), also, str(written["digest"]))


def to_source(
    weights: Mapping[str, Array], sources: Mapping[str, Source], rest: Mapping[str, Array | None]
) -> dict[str, Array]:
    """All tensors of the source that the weights were imported from, by its names and in its shapes; `rest` as it was.

    Raises ArchError (A3204) with everything that does not fit or cannot go back: the architecture must be the one that
    was imported, and weights that were computed at import the ones that were computed.
    """
    problems = []
    missing, more = sources.keys() - weights.keys(), weights.keys() - sources.keys()
    for names, where in ((missing, "the map, and not in the weights"), (more, "the weights, and not in the map")):
        if names:
            text = f"in {where}: {listed(sorted(names), 4)}"
            problems.append(Diagnostic("A3204", text, None, "the map is that of another import"))
    for name in sources.keys() & weights.keys():
        source = sources[name]
        try:
            wanted = source.shape if source.computed else _shape(source)
        except ValueError as error:
            raise fail("A3204", f"the map of `{name}` is broken: {error}") from None
        if weights[name].shape != wanted:
            shapes = f"{[*weights[name].shape]}, not {[*wanted]}"
            problems.append(Diagnostic("A3204", f"`{name}` has shape {shapes}: the architecture is another one"))
    if problems:
        raise ArchError(*problems)
    back = brought_back(weights, sources, rest)
    why = "cannot go back: it shares memory with another tensor, or has a type that no file of tensors holds"
    problems = [Diagnostic("A3204", f"`{name}` {why}") for name, array in rest.items() if array is None]
    for name, source in sources.items():
        if source.computed and digest(weights[name]) != source.digest:
            text = f"`{name}` was changed, and no tensor of the source is like it: it was computed ({source.computed})"
            problems.append(Diagnostic("A3204", text))
        elif not source.computed and not _equal(moved(back[source.name], source.moves), weights[name]):
            others = [one for one, other in sources.items() if other.name == source.name and one != name]
            text = f"`{name}` was changed, and differs from what shares `{source.name}` with it in the source"
            problems.append(Diagnostic("A3204", f"{text}: {listed(others, 4)}" if others else text))
    if problems:
        raise ArchError(*problems)
    return back


def _equal(a: Array, b: Array) -> bool:
    return np.array_equal(a, b, equal_nan=np.issubdtype(a.dtype, np.inexact))


def _shape(source: Source) -> tuple[int, ...]:
    """The shape that a source's tensor comes in."""
    shape = source.shape
    for kind, numbers in source.moves:
        if kind == "permute":
            if sorted(numbers) != list(range(len(shape))):
                raise ValueError(f"{[*numbers]} is no order of {len(shape)} axes")
            shape = tuple(shape[axis] for axis in numbers)
        elif kind == "reshape":
            if prod(numbers) != prod(shape) or min(numbers, default=1) < 0:
                raise ValueError(f"{[*shape]} does not reshape to {[*numbers]}")
            shape = numbers
        elif kind == "strided":
            rank = len(numbers) // 2
            offset, sizes, strides = numbers[0], numbers[1 : 1 + rank], numbers[1 + rank :]
            last = offset + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
            if min(numbers) < 0 or (0 not in sizes and last >= prod(shape)):
                raise ValueError(f"{[*numbers]} reaches outside of {[*shape]}")
            shape = sizes
        else:
            axis, start, stop = numbers
            if not (0 <= axis < len(shape) and 0 <= start <= stop <= shape[axis]):
                raise ValueError(f"{start}:{stop} is no part of axis {axis} of {[*shape]}")
            shape = (*shape[:axis], stop - start, *shape[axis + 1 :])
    return shape
