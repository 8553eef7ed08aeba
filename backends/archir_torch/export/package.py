"""Networks as packages of torch's own, `.pt2`: graphs of `torch.export`, or compiled ahead of time by AOTInductor.

Both take batches of any size. Loading either runs code that is in it: `torch.export.load` unpickles, and an AOTInductor
package is a shared library. What is loaded here was just written, or is what its certificate says.
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

Form = Literal["exported", "aot"]
Arrays = Mapping[str, NDArray[Any]]
Runner = Callable[[Arrays], dict[str, NDArray[Any]]]

TOLERANCE = 1e-4
"""Largest difference, relative to the largest magnitude of an output."""

MOST = 1 << 20
"""Largest batch that a package takes."""

_METADATA = "archir.json"


@dataclass(frozen=True)
class Report:
    """What a verification found: the largest differences over all outputs and batches."""

    form: Form
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


def deployed(graph: Graph, weights: Arrays) -> Network:
    """The module of a network with these weights as it is deployed: what acts in training alone is gone."""
    graph, left = deploy(graph, weights)
    module = lower(graph)
    module.load_state_dict({name: torch.from_numpy(np.array(left[name])) for name in module.state_dict()})
    return module


def write(
    module: Network, inputs: Mapping[str, TensorType], path: Path, form: Form, metadata: Mapping[str, str]
) -> None:
    """Write a module as it is in evaluation as a package. Raises ArchError (A0907) where torch cannot."""
    examples = [torch.from_numpy(array) for array in random_inputs(inputs, 2, seed=0).values()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about its own code
        program = _exported(module, examples)
        if form == "exported":
            _save(program, path, metadata)
        else:
            _compile(program, str(path), metadata)


def _exported(module: Network, examples: Sequence[Tensor]) -> ExportedProgram:
    batch = Dim("batch", min=1, max=MOST)
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            shapes = {"inputs": tuple({0: batch} for _ in examples)}
            return torch.export.export(module, tuple(examples), dynamic_shapes=shapes)
    except Exception as error:  # torch's errors have no common class of their own
        raise fail("A0907", f"torch cannot export the network: {_first_line(error)}") from error
    finally:
        module.train(training)


def _save(program: ExportedProgram, path: Path, metadata: Mapping[str, str]) -> None:
    try:
        torch.export.save(program, str(path), extra_files={_METADATA: json.dumps(dict(metadata))})
    except RuntimeError as error:  # what torch makes of a disk that is full
        raise fail("A0907", f"torch cannot write {path.name}: {_first_line(error)}") from error


def _compile(program: ExportedProgram, path: str, metadata: Mapping[str, str]) -> None:
    from torch._inductor import aoti_compile_and_package

    try:
        settings = {"aot_inductor.metadata": dict(metadata)}
        aoti_compile_and_package(program, package_path=path, inductor_configs=settings)
    except Exception as error:
        hint = "AOTInductor needs a C++ compiler, such as g++ (`apt install g++`); CXX names another one"
        raise fail("A0907", f"AOTInductor cannot compile the network: {_first_line(error)}", None, hint) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__


def runner(path: Path, form: Form, inputs: Sequence[str], outputs: Sequence[str]) -> Runner:
    """A package as a function of named arrays. It is loaded, which runs code in it."""
    loaded: Any
    if form == "exported":
        loaded = torch.export.load(path).module()
    else:
        from torch._inductor import aoti_load_package

        loaded = aoti_load_package(str(path))

    def run(given: Arrays) -> dict[str, NDArray[Any]]:
        with torch.no_grad():
            found = loaded(*(torch.from_numpy(np.asarray(given[name])) for name in inputs))
        computed = found if isinstance(found, dict) else dict.fromkeys(outputs, found)
        return {name: computed[name].numpy() for name in outputs if name in computed}

    return run


def compare(
    path: Path,
    form: Form,
    reference: Runner,
    inputs: Mapping[str, TensorType],
    outputs: Sequence[str],
    *,
    batches: Sequence[int] = (1, 2, 5),
    tolerance: float = TOLERANCE,
) -> Report:
    """Compare a package with a network on random inputs. Raises ArchError (A0913) if they differ."""
    run = runner(path, form, [*inputs], outputs)
    worst = Difference()
    for batch in batches:
        given = random_inputs(inputs, batch, seed=batch)
        wanted, found = reference(given), run(given)
        for name in outputs:
            worst |= Difference.of(found[name], wanted[name])
    if not worst.relative <= tolerance:
        raise fail("A0913", f"{path} differs from the network by {worst}")
    return Report(form, worst.absolute, worst.relative, tuple(batches), (path,))
