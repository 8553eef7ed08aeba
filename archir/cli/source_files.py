"""What `archir export` writes for archir and for sources of imports: programs, and weights by the names that they
came with."""

from __future__ import annotations

from pathlib import Path

import click

from archir import backends
from archir.backends.imports import map_of, read_map, rest_of, save, to_source
from archir.backends.tensors import write_tensors
from archir.cli import train_folder
from archir.cli.output import counted, emit, say
from archir.language.decompiler.imported import Imported, Source


def export_weights(source: Path, names: Path | None, output: Path) -> int:
    """Write the weights of a file, or of a run's folder, with the source's names and shapes; how many there are."""
    if output.suffix != ".safetensors":
        raise click.UsageError(f"{output} is no name of a file of weights, which ends in .safetensors")
    if source.is_dir() and names is None:
        raise click.UsageError("--to source needs --map, the .import.json of the network")
    weights = backends.get("torch").read(source / train_folder.WEIGHTS if source.is_dir() else source)
    names = names or map_of(source)
    sources, left = read_map(names)
    kept = backends.get("torch").read(rest_of(names)) if rest_of(names).exists() else {}
    back = to_source(weights, sources, {name: kept.get(name) for name in left})
    write_tensors(output, back)
    return len(back)


def export_program(run: Path, output: Path, as_json: bool) -> None:
    """Write the network of a run's folder as a program, its weights by their names in it, and a map of these."""
    if output.suffix != ".arch":
        raise click.UsageError(f"{output} is no name of a program, which ends in .arch")
    trained = train_folder.open_run(run)
    weights = backends.get("torch").read(run / train_folder.WEIGHTS)
    sources = {name: Source(name, tensor.shape) for name, tensor in weights.items()}
    made = save(Imported(trained.graph, weights=weights, sources=sources), output, str(run))
    if as_json:
        emit({"form": "program", "files": made.files, "lines": made.lines})
    else:
        say(f"wrote {' and '.join(map(str, made.files[:2]))}: {counted(made.lines, 'line')}")
