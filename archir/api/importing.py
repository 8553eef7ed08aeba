"""Import of networks from other frameworks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archir import backends
from archir.backends.certificates import require_model
from archir.data.metadata import training_data_entries

if TYPE_CHECKING:
    from archir.backends.imports import Saved
    from archir.language.decompiler.imported import Imported

__all__ = ["from_onnx", "from_torch", "save_import"]


def from_torch(
    module: Any, example_inputs: Any | Sequence[Any] | Mapping[str, Any], *, name: str | None = None,
    partial: bool = False, seed: int = 0,
) -> Imported:  # fmt: skip
    """Import a torch module by `torch.export`.

    The import is compared with the module on random inputs.

    Args:
        module: The module.
        example_inputs: A tensor, a sequence of tensors, or a mapping from argument names to tensors; the first axis of
            each is the sample axis.
        name: Name of the graph, by default that of the module's class.
        partial: Tolerate operations that archir cannot express: the largest part of the network without them is
            imported, and `problems` of the result lists what was left out.
        seed: Seed of the random inputs.

    Returns:
        The `graph` and the `weights`, which are the module's own tensors rather than copies.

    Raises:
        ArchError: A3201 to A3203, with a diagnostic for everything that archir cannot express.

    Examples:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU())
        >>> imported = archir.from_torch(model, torch.randn(1, 1, 8, 8))
        >>> [imported.graph[node].op.name for node in imported.graph]
        ['input', 'conv', 'relu']
    """
    return backends.get("torch").import_module(module, example_inputs, name=name, partial=partial, seed=seed)


def from_onnx(
    path: str | Path, *, shapes: Mapping[str, Sequence[int]] | None = None, partial: bool = False, seed: int = 0
) -> Imported:
    """Import an ONNX file.

    The import is compared with the file in onnxruntime on a random sample.

    Args:
        path: The file. The first axis of every input is the sample axis, whether the file gives it size 1 or a dynamic
            size.
        shapes: By input name, the sizes of the other axes of inputs with dynamic sizes: `{"image": (3, 224, 224)}`.
        partial: Tolerate operations that archir cannot express: the largest part of the network without them is
            imported, and `problems` of the result lists what was left out.
        seed: Seed of the random sample.

    Returns:
        The `graph` and the `weights`, and the names of the classes in the `metadata`, if the file has them.

    Raises:
        ArchError: A0914 (onnxruntime cannot run the model), A0916 (the file is not an ONNX model), A3202 (a diagnostic
            for everything that archir cannot express), A3203 (the import computes something else).

    Examples:
        >>> _ = archir.export(network, "net.onnx", archir.compile(network))
        >>> archir.cost(archir.from_onnx("net.onnx").graph).macs <= archir.cost(network).macs
        True
    """
    file, onnx = Path(path), backends.get("onnx")
    require_model(file)
    calls, fixed_shapes = onnx.calls(
        file, {name: tuple(shape) for name, shape in (shapes or {}).items()}, partial=partial
    )

    def reference(inputs: Any, types: Any, outputs: Sequence[str]) -> Any:
        return onnx.run_part(file, inputs, types, outputs) if partial else onnx.run(file, inputs)

    imported = backends.get("torch").import_calls(calls, reference, fixed=fixed_shapes, seed=seed, partial=partial)
    if imported.problems:  # a part has other outputs than the classes
        return imported
    return replace(imported, metadata=training_data_entries(onnx.describe(file)["metadata"]))


def save_import(imported: Imported, path: str | Path, *, origin: str = "") -> Saved:
    """Write an import as a readable program with its weights: `net.arch`, and files with the same stem beside it.

    `net.safetensors` holds the weights. `net.import.json` maps each weight to its name in the source model and records
    how the weight was transformed. The program is proved to define the same network as the import.

    Args:
        imported: The import.
        path: The program to write.
        origin: Description of the source, which is stored in the map.

    Returns:
        The written program and its `files`.

    Raises:
        ArchError: A0809 (an existing file was not written by archir, or a file cannot be written), A0908 (the program
            could not be proved to define the same network).

    Examples:
        >>> import torch
        >>> imported = archir.from_torch(torch.nn.Sequential(torch.nn.Linear(4, 2)), torch.randn(1, 4))
        >>> [file.name for file in archir.save_import(imported, "net.arch").files]
        ['net.arch', 'net.safetensors', 'net.import.json']
    """
    from archir.backends.imports import save

    return save(imported, Path(path), origin)
