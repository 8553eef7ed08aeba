"""PyTorch output of `archir compile` and `archir export`.

It is a Python file with a separate weights file, or a torch package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click

from archir import backends
from archir.api import lowering
from archir.cli.output import emit, say
from archir.ir.graph import Graph
from archir.passes.block import only_call
from archir.runs.folder import WEIGHTS
from archir.utils.files import sha256, staged_output

PACKAGES = ("exported", "aot")
"""Kinds of torch packages: saved by torch.export, or compiled ahead of time by AOTInductor."""


def export_run(run: Path, output: Path, form: str, block: str | None, as_trained: bool, as_json: bool) -> None:
    """Write a run's network and its weights as PyTorch code or as a torch package."""
    if block is not None and form != "python":
        raise click.UsageError("--block is only for --to python")
    if as_trained and form == "python":
        raise click.UsageError("--as-trained has no effect with --to python, which always writes the trained network")
    from archir.cli import train_folder  # `archir compile` reads no run

    trained = train_folder.open_run(run)
    graph, module = trained.graph, lowering.compile(trained.graph)
    backends.get("torch").load(module, run / WEIGHTS)
    if form == "python":
        files = write_python(graph, output, module, block)
        result: Mapping[str, Any] = {"form": form, "files": files}
        text = f"wrote {' and '.join(map(str, files))}"
    else:
        report = write_package(graph, output, module, form, trained.metadata, as_trained)
        digest = sha256(output)
        result = {**asdict(report), "sha256": digest}
        text = f"wrote {output}: {report}\nsha256: {digest}; `archir verify {output}` verifies it again"
    if as_json:
        emit(result)
    else:
        say(text)


def write_python(graph: Graph, output: Path, module: Any | None, block: str | None) -> list[Path]:
    """Write a network or one of its blocks as Python code, with the module's weights beside it; return the paths.

    Raises ArchError (A0809) if a file may not be replaced, for example weights that belong to a program.
    """
    if module is not None:
        from archir.backends.imports import require_weights_replaceable  # needed only for Python files

        require_weights_replaceable(output)
    torch = backends.get("torch")
    text = torch.emit(graph) if block is None else torch.emit_block(graph, block)
    scope = only_call(graph, block) if module is not None and block is not None else ""
    files = [output]
    with staged_output(output) as draft:
        draft.write_text(text, "utf-8")
        if module is not None:
            files.append(output.with_suffix(".safetensors"))
            torch.save(module, draft.with_name(files[1].name), scope=scope)
    return files


def write_package(
    graph: Graph,
    output: Path,
    module: Any,
    form: str,
    metadata: Mapping[str, str],
    as_trained: bool = False,
) -> Any:
    """Write a torch package with its certificate; return the verification report."""
    kind: Literal["exported", "aot"] = "aot" if form == "aot" else "exported"
    return backends.get("torch").package(graph, output, module, kind, metadata=metadata, deployed=not as_trained)
