"""From networks of other frameworks to archir's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archir import backends

if TYPE_CHECKING:
    from archir.backends.imports import Saved
    from archir.language.decompiler.imported import Imported

__all__ = ["from_onnx", "from_torch", "save_import"]


def from_torch(
    module: Any, example_inputs: Any | Sequence[Any] | Mapping[str, Any], *, name: str | None = None,
    partial: bool = False, seed: int = 0,
) -> Imported:  # fmt: skip
    """The graph and the weights of a torch module, by `torch.export`: `from_torch(model, torch.randn(1, 3, 224, 224))`.

    `example_inputs` is a tensor, several, or tensors by the name of an argument; the first axis of each is that of the
    samples. Weights are the module's own tensors, not copies of them. The import is compared with the module on random
    inputs that the `seed` draws; `name` is the graph's, by default that of the class. Raises ArchError (A3201 to A3203)
    with everything that archir has no words for; if it is `partial`, the largest part without that is imported, and
    the import's `problems` say what is left out.
    """
    return backends.get("torch").imported(module, example_inputs, name=name, partial=partial, seed=seed)


def from_onnx(
    path: str | Path, *, shapes: Mapping[str, Sequence[int]] | None = None, partial: bool = False, seed: int = 0
) -> Imported:
    """The graph and the weights of an ONNX file: `from_onnx("model.onnx")`.

    The first axis of every input is that of the samples, whether the file says 1 or leaves it open; `shapes` are the
    other axes of inputs that it leaves open, by name: `{"image": (3, 224, 224)}`. Weights are compared with the file in
    onnxruntime on a random sample that the `seed` draws. Raises ArchError: A0916 for what is no model, A3202 for
    everything that archir has no words for, at once, A3203 for a difference. If it is `partial`, the largest part
    without what archir has no words for is imported, and the import's `problems` say what is left out.
    """
    file, onnx = Path(path), backends.get("onnx")
    calls, fixed = onnx.calls(file, {name: tuple(shape) for name, shape in (shapes or {}).items()}, partial=partial)

    def reference(inputs: Any, types: Any, outputs: Sequence[str]) -> Any:
        return onnx.run_part(file, inputs, types, outputs) if partial else onnx.run(file, inputs)

    return backends.get("torch").followed(calls, reference, fixed=fixed, seed=seed, partial=partial)


def save_import(imported: Imported, path: str | Path, *, origin: str = "") -> Saved:
    """Write an import as a program that a person can read and edit: `net.arch`, its weights and their names.

    `net.safetensors` has the weights, `net.import.json` the name that each has in the source, and how it was moved;
    `origin` is kept there, too. The program is proved to be the same network. Raises ArchError (A0809, A0908).
    """
    from archir.backends.imports import save

    return save(imported, Path(path), origin)
