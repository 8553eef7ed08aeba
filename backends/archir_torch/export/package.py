"""Export of networks as torch packages (`.pt2`): graphs of `torch.export`, or code compiled by AOTInductor.

Both formats accept any batch size. Loading either of them runs code from the file: `torch.export.load` unpickles, and
an AOTInductor package contains a shared library. A package is therefore loaded here only if it was just written or
its hash was checked.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.export import Dim, ExportedProgram

from archir.backends.comparison import Difference, random_inputs
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir.passes.deploy import deploy
from archir_torch.lowering.module import Network, lower

PackageFormat = Literal["exported", "aot"]
"""Format of a package: "exported" (a graph of `torch.export`) or "aot" (code compiled by AOTInductor)."""
Arrays = Mapping[str, NDArray[Any]]
"""Arrays by name."""
Runner = Callable[[Arrays], dict[str, NDArray[Any]]]
"""Function that runs a network: from inputs to outputs, both as arrays by name."""

TOLERANCE = 1e-4
"""Maximum difference between a package and its network, relative to the largest magnitude of an output."""

MAX_BATCH = 1 << 20
"""Maximum batch size that a package accepts."""

_METADATA = "archir.json"
"""Name of the metadata entry in a `torch.export` package."""


@dataclass(frozen=True)
class Report:
    """Result of comparing a package with its network.

    `absolute` and `relative` are the largest differences over all outputs and batch sizes, `batches` lists the batch
    sizes that were compared, and `files` holds the path of the package.
    """

    form: PackageFormat
    absolute: float
    relative: float
    batches: tuple[int, ...]
    files: tuple[Path, ...]

    def __str__(self) -> str:
        what = {"exported": "a graph of torch.export", "aot": "compiled by AOTInductor"}[self.form]
        if not self.batches:
            return f"{what}, not compared"
        return (
            f"{what}; largest difference to torch {self.absolute:.1e} ({self.relative:.1e} relative) "
            f"at batches of {', '.join(map(str, self.batches))}"
        )


def deployed_module(graph: Graph, weights: Arrays) -> Network:
    """Return the module of a network with the given weights, after applying `deploy`.

    `deploy` removes operations that have an effect only in training.
    """
    graph, arrays = deploy(graph, weights)
    module = lower(graph)
    module.load_state_dict({name: torch.from_numpy(np.array(arrays[name])) for name in module.state_dict()})
    return module


def write(
    module: Network, inputs: Mapping[str, TensorType], path: Path, form: PackageFormat, metadata: Mapping[str, str]
) -> None:
    """Export a module, in evaluation mode, as a package. Raises ArchError (A0907) if torch cannot export it."""
    examples = [torch.from_numpy(array) for array in random_inputs(inputs, 2, seed=0).values()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about its own code
        program = _export_program(module, examples)
        if form == "exported":
            _save(program, path, metadata)
        else:
            _compile_package(program, str(path), metadata)


def _export_program(module: Network, examples: Sequence[Tensor]) -> ExportedProgram:
    """Trace a module with `torch.export`, with a dynamic batch size. Raises ArchError (A0907) if tracing fails."""
    batch = Dim("batch", min=1, max=MAX_BATCH)
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            shapes = {"inputs": tuple({0: batch} for _ in examples)}
            return torch.export.export(module, tuple(examples), dynamic_shapes=shapes)
    except Exception as error:  # torch's errors have no common base class
        raise fail("A0907", f"torch cannot export the network: {_first_line(error)}") from error
    finally:
        module.train(training)


def _save(program: ExportedProgram, path: Path, metadata: Mapping[str, str]) -> None:
    """Write a `torch.export` package. Raises ArchError (A0907) if torch cannot write the file."""
    try:
        torch.export.save(program, str(path), extra_files={_METADATA: json.dumps(dict(metadata))})
    except RuntimeError as error:  # torch raises this if the disk is full
        raise fail("A0907", f"torch cannot write {path.name}: {_first_line(error)}") from error


def _compile_package(program: ExportedProgram, path: str, metadata: Mapping[str, str]) -> None:
    """Compile a program with AOTInductor into a package. Raises ArchError (A0907) if compilation fails."""
    from torch._inductor import aoti_compile_and_package

    try:
        settings = {"aot_inductor.metadata": dict(metadata)}
        aoti_compile_and_package(program, package_path=path, inductor_configs=settings)
    except Exception as error:
        hint = "AOTInductor needs a C++ compiler: install g++ (`apt install g++`), or set CXX to another compiler"
        raise fail("A0907", f"AOTInductor cannot compile the network: {_first_line(error)}", None, hint) from error


def _first_line(error: Exception) -> str:
    """Return the first line of an exception's message, truncated to 500 characters, or the name of its class."""
    lines = str(error).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__


def runner(path: Path, form: PackageFormat, inputs: Sequence[str], outputs: Sequence[str]) -> Runner:
    """Load a package, which runs code in it, and return a function that runs it on named arrays."""
    loaded: Any
    if form == "exported":
        loaded = torch.export.load(path).module()
    else:
        from torch._inductor import aoti_load_package

        loaded = aoti_load_package(str(path))

    def run(arrays: Arrays) -> dict[str, NDArray[Any]]:
        with torch.no_grad():
            result = loaded(*(torch.from_numpy(np.asarray(arrays[name])) for name in inputs))
        results = result if isinstance(result, dict) else dict.fromkeys(outputs, result)
        return {name: results[name].numpy() for name in outputs if name in results}

    return run


def compare(
    path: Path,
    form: PackageFormat,
    reference: Runner,
    inputs: Mapping[str, TensorType],
    outputs: Sequence[str],
    *,
    batches: Sequence[int] = (1, 2, 5),
    tolerance: float = TOLERANCE,
) -> Report:
    """Compare a package with a reference network on random inputs. Raises ArchError (A0913) if they differ."""
    run = runner(path, form, [*inputs], outputs)
    worst = Difference()
    for batch in batches:
        arrays = random_inputs(inputs, batch, seed=batch)
        expected, actual = reference(arrays), run(arrays)
        for name in outputs:
            worst |= Difference.of(actual[name], expected[name])
    if not worst.relative <= tolerance:
        raise fail("A0913", f"{path} differs from the network by {worst}")
    return Report(form, worst.absolute, worst.relative, tuple(batches), (path,))
