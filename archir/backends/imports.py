"""Files of an import: program, weights, and a map between the weights and the tensors of the source.

With the map, weights can be converted back to the source's format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from archir.backends.tensors import write_tensors
from archir.diagnostics.errors import ArchError, Diagnostic, describe_error, fail, join_names
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import state_name
from archir.ir.typing import infer
from archir.language.decompiler.decompile import DecompiledProgram, decompile
from archir.language.decompiler.imported import Array, Imported, Move, Source, apply_moves, digest, restore_tensors
from archir.utils.files import read_bytes, require_overwritable, require_writable, staged_output

VERSION = 1
"""Format version of the map."""
MAX_BYTES = 2**28
"""Maximum size of a map file in bytes."""


@dataclass(frozen=True)
class Program:
    """Imported program, with its weights and their origins in the source, by name."""

    text: str
    weights: Mapping[str, Array]
    sources: Mapping[str, Source]
    leftover: Mapping[str, Array | None]
    """Source tensors with elements that belong to no weight; None if such a tensor cannot be stored in a file."""

    @property
    def lines(self) -> int:
        """Number of non-empty lines of the program."""
        return sum(bool(line.strip()) for line in self.text.splitlines())


@dataclass(frozen=True)
class Saved(Program):
    """Imported program that has been written to files."""

    files: tuple[Path, ...]


def map_path(program: Path) -> Path:
    """Return the path of an import's map: `net.import.json` for `net.arch`."""
    return program.with_suffix(".import.json")


def leftover_path(names: Path) -> Path:
    """Return the path of the file for leftover source tensors: `net.import.safetensors` for the map
    `net.import.json`."""
    return names.with_suffix(".safetensors")


def save(imported: Imported, program: Path, origin: str = "") -> Saved:
    """Write an import to `net.arch`, `net.safetensors`, `net.import.json` and `net.import.safetensors`.

    `net.import.safetensors` is written only if needed; it holds the source tensors with elements that belong to no
    weight. If one of the files cannot be written, none is written. `origin` describes the source. Raises ArchError:
    A0809 (a file exists that archir did not write or that belongs to another file), and errors of decompiling.
    """
    require_import_replaceable(program)
    result = program_of(imported)
    files = program, program.with_suffix(".safetensors"), map_path(program)
    leftover = {name: array for name, array in result.leftover.items() if array is not None}
    record = {
        "version": VERSION,
        "origin": origin,
        "architecture": canonical_hash(imported.graph),
        "weights": {name: asdict(source) for name, source in result.sources.items()},
        "rest": [*result.leftover],
    }
    leftover_file = leftover_path(files[2])
    with staged_output(program, (leftover_file,), derived=True) as draft:
        draft.write_text(result.text, "utf-8")
        write_tensors(draft.with_name(files[1].name), result.weights, imported.metadata)
        draft.with_name(files[2].name).write_text(json.dumps(record, indent=1) + "\n", "utf-8")
        if leftover:
            write_tensors(draft.with_name(leftover_file.name), leftover)
    return Saved(
        result.text, result.weights, result.sources, result.leftover, (*files, leftover_file) if leftover else files
    )


def require_import_replaceable(program: Path) -> None:
    """Raise ArchError (A0809) if a file of an import exists that archir did not write or that belongs to another
    file."""
    require_weights_replaceable(program)
    for file in (program, map_path(program), leftover_path(map_path(program))):
        require_overwritable(file)
    require_writable(program)


def require_weights_replaceable(network: Path) -> None:
    """Raise ArchError (A0809) if the weights beside a network's file, `net.arch` or `net.py`, may not be replaced.

    This is the case if archir did not write them, or if they belong to the other of these two files: to the program if
    there is a map, because only programs have one.
    """
    owner = network.with_suffix(".arch" if map_path(network).exists() else ".py")
    taken = owner != network and owner.exists()
    require_overwritable(network.with_suffix(".safetensors"), owner if taken else None)


def program_of(imported: Imported) -> Program:
    """Decompile an import to a program, and verify that the program defines the same network. Raises ArchError
    (A0908)."""
    decompiled = decompile(imported)
    names = _import_names(imported, decompiled)
    weights = {name: imported.weights[old] for name, old in names.items()}
    sources = {name: imported.sources[old] for name, old in names.items()}
    return Program(decompiled.text, weights, sources, imported.rest)


def _import_names(imported: Imported, decompiled: DecompiledProgram) -> dict[str, str]:
    """Map the weight names of the program to those of the import."""
    graph, types = imported.graph, infer(imported.graph)
    names = {}
    for number in graph:
        scope = graph[number].scope
        for weight in graph[number].op.weights(*(types[operand] for operand in graph.operands(number))):
            names[state_name(decompiled.scopes[scope], weight)] = state_name(scope, weight)
    return names


def read_map(path: Path) -> tuple[dict[str, Source], list[str]]:
    """Read a map file: the origin of each weight by name, and the source tensors with elements in no weight.

    Raises ArchError (A3204) if the file is invalid.
    """
    try:
        record = json.loads(read_bytes(path, MAX_BYTES))
        if record["version"] != VERSION:
            raise fail("A3204", f"{path} is a map of version {record['version']}, not {VERSION}")
        sources = {str(name): _parse_source(entry) for name, entry in record["weights"].items()}
        return sources, [str(name) for name in record["rest"]]
    except OSError as error:
        raise fail("A3204", f"cannot read the map of an import in {path}: {describe_error(error)}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise fail("A3204", f"{path} is not a map of an import: {describe_error(error)}") from None


def _parse_source(entry: Mapping[str, Any]) -> Source:
    """Parse the JSON object for the origin of a weight. Raises ValueError, KeyError or TypeError if it is invalid."""
    shape = tuple(int(size) for size in entry["shape"])
    moves = []
    for kind, numbers in entry["moves"]:
        if kind not in ("permute", "reshape", "slice", "strided"):
            raise ValueError(f"`{kind}` is not a move")
        moves.append(Move(kind, tuple(int(number) for number in numbers)))
    also = tuple(str(name) for name in entry.get("also", ()))
    return Source(str(entry["name"]), shape, tuple(moves), str(entry["computed"]), also, str(entry["digest"]))


def to_source_tensors(
    weights: Mapping[str, Array], sources: Mapping[str, Source], leftover: Mapping[str, Array | None]
) -> dict[str, Array]:
    """Convert weights back to the tensors of the source, with the source's names and shapes.

    Elements of source tensors that belong to no weight are taken from `leftover`. Raises ArchError (A3204) with a
    diagnostic for every weight that cannot be converted: the architecture must be the imported one, and weights that
    were computed during import must be unchanged.
    """
    problems = []
    missing, more = sources.keys() - weights.keys(), weights.keys() - sources.keys()
    for names, where in ((missing, "the map, but not in the weights"), (more, "the weights, but not in the map")):
        if names:
            text = f"in {where}: {join_names(sorted(names), 4)}"
            problems.append(Diagnostic("A3204", text, None, "the map belongs to another import"))
    for name in sources.keys() & weights.keys():
        source = sources[name]
        try:
            wanted = source.shape if source.computed else _moved_shape(source)
        except ValueError as error:
            raise fail("A3204", f"the map of `{name}` is broken: {error}") from None
        if weights[name].shape != wanted:
            shapes = f"{[*weights[name].shape]}, not {[*wanted]}"
            problems.append(Diagnostic("A3204", f"`{name}` has shape {shapes}: the architecture is another one"))
    if problems:
        raise ArchError(*problems)
    tensors = restore_tensors(weights, sources, leftover)
    why = "cannot go back: it shares memory with another tensor, or has a type that no file of tensors holds"
    problems = [Diagnostic("A3204", f"`{name}` {why}") for name, array in leftover.items() if array is None]
    for name, source in sources.items():
        if source.computed and digest(weights[name]) != source.digest:
            text = f"`{name}` was changed, and no tensor of the source is like it: it was computed ({source.computed})"
            problems.append(Diagnostic("A3204", text))
        elif not source.computed and not _is_equal(apply_moves(tensors[source.name], source.moves), weights[name]):
            others = [
                other_name for other_name, other in sources.items() if other.name == source.name and other_name != name
            ]
            text = f"`{name}` was changed, and differs from what shares `{source.name}` with it in the source"
            problems.append(Diagnostic("A3204", f"{text}: {join_names(others, 4)}" if others else text))
    if problems:
        raise ArchError(*problems)
    return tensors


def _is_equal(a: Array, b: Array) -> bool:
    """Return True if arrays are equal; NaN counts as equal to NaN."""
    return np.array_equal(a, b, equal_nan=np.issubdtype(a.dtype, np.inexact))


def _moved_shape(source: Source) -> tuple[int, ...]:
    """Return the shape of a weight after its moves (layout operations) are applied to the source tensor.

    Raises ValueError if a move is invalid.
    """
    shape = source.shape
    for kind, numbers in source.moves:
        if kind == "permute":
            if sorted(numbers) != list(range(len(shape))):
                raise ValueError(f"{[*numbers]} is not an order of {len(shape)} axes")
            shape = tuple(shape[axis] for axis in numbers)
        elif kind == "reshape":
            if prod(numbers) != prod(shape) or min(numbers, default=1) < 0:
                raise ValueError(f"{[*shape]} does not reshape to {[*numbers]}")
            shape = numbers
        elif kind == "strided":
            rank = len(numbers) // 2
            offset, sizes, steps = numbers[0], numbers[1 : 1 + rank], numbers[1 + rank :]
            last = offset + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
            if min(numbers) < 0 or (0 not in sizes and last >= prod(shape)):
                raise ValueError(f"{[*numbers]} reaches outside of {[*shape]}")
            shape = sizes
        else:
            axis, start, stop = numbers
            if not (0 <= axis < len(shape) and 0 <= start <= stop <= shape[axis]):
                raise ValueError(f"{start}:{stop} is not a part of axis {axis} of {[*shape]}")
            shape = (*shape[:axis], stop - start, *shape[axis + 1 :])
    return shape
