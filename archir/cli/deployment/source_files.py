"""What `archir export --to source` writes: the weights of an import by the names that they came with."""

from __future__ import annotations

from pathlib import Path

import click

from archir import backends
from archir.backends.imports import map_of, read_map, to_source
from archir.backends.tensors import write_tensors
from archir.cli.searches import train_folder


def export_weights(source: Path, names: Path | None, output: Path) -> int:
    """Write the weights of a file, or of a run's folder, with the source's names and shapes; how many there are."""
    if output.suffix != ".safetensors":
        raise click.UsageError(f"{output} is no name of a file of weights, which ends in .safetensors")
    if source.is_dir() and names is None:
        raise click.UsageError("--to source needs --map, the .import.json of the network")
    weights = backends.get("torch").read(source / train_folder.WEIGHTS if source.is_dir() else source)
    back = to_source(weights, read_map(names or map_of(source)))
    write_tensors(output, back)
    return len(back)
