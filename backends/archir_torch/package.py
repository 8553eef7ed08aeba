"""Networks as packages of torch's own, `.pt2`: graphs of `torch.export`, or compiled ahead of time by AOTInductor.

Both take batches of any size. Loading either runs code that is in it: `torch.export.load` unpickles, and an AOTInductor
package is a shared library. What is loaded here was just written, or is what its certificate says.
"""

from __future__ import annotations

import json
import os
import tempfile
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

from archir.errors import fail
from archir.files import require_writable
from archir.ir.graph import Graph
from archir.passes.deploy import deploy
from archir.types import TensorType
from archir_torch.module import Network, lower

Form = Literal["exported", "aot"]
Arrays = Mapping[str, NDArray[Any]]
Runner = Callable[[Arrays], dict[str, NDArray[Any]]]

TOLERANCE = 1e-4
"""Largest difference, relative to the largest magnitude of an output."""

MOST = 1 << 20
"""Largest batch that a package takes."""

_DTYPES = {"f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32, "bool": np.bool_}
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
    """Write a module in evaluation mode as a package. Raises ArchError (A0907) where torch cannot."""
    examples = [torch.from_numpy(array) for array in random_inputs(inputs, 2, seed=0).values()]
    require_writable(path)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.stem}.") as folder:
        temporary = str(Path(folder) / path.name)  # packages know their names
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, about its own code
            program = _exported(module.eval(), examples)
            if form == "exported":
                torch.export.save(program, temporary, extra_files={_METADATA: json.dumps(dict(metadata))})
            else:
                _compile(program, temporary, metadata)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)


def _exported(module: Network, examples: Sequence[Tensor]) -> ExportedProgram:
    batch = Dim("batch", min=1, max=MOST)
    try:
        with torch.no_grad():
            shapes = {"inputs": tuple({0: batch} for _ in examples)}
            return torch.export.export(module, tuple(examples), dynamic_shapes=shapes)
    except Exception as error:  # torch's errors have no common class of their own
        raise fail("A0907", f"torch cannot export the network: {_first_line(error)}") from error


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
        computed = found if isinstance(found, dict) else {outputs[0]: found}
        return {name: computed[name].numpy() for name in outputs}

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
    absolute, relative = 0.0, 0.0
    for batch in batches:
        given = random_inputs(inputs, batch, seed=batch)
        wanted, found = reference(given), run(given)
        for name in outputs:
            difference = float(np.abs(found[name] - wanted[name]).max(initial=0))
            absolute = max(absolute, difference)
            relative = max(relative, difference / max(float(np.abs(wanted[name]).max(initial=0)), 1e-12))
    if not relative <= tolerance:
        raise fail("A0913", f"{path} differs from the network by {relative:.2e} relative ({absolute:.2e} absolute)")
    return Report(form, absolute, relative, tuple(batches), (path,))


def random_inputs(inputs: Mapping[str, TensorType], batch: int, *, seed: int) -> dict[str, NDArray[Any]]:
    """Normal numbers, or zeros and ones where an input holds integers, by name."""
    rng = np.random.default_rng(seed)
    found: dict[str, NDArray[Any]] = {}
    for name, kind in inputs.items():
        if kind.dtype not in _DTYPES:
            raise fail("A0907", f"the input `{name}` is {kind}, of which numpy has no numbers to try")
        shape = (batch, *kind.shape)
        numbers = rng.standard_normal(shape) if kind.dtype.startswith("f") else rng.integers(0, 2, shape)
        found[name] = numbers.astype(_DTYPES[kind.dtype])
    return found
