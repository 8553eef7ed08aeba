"""Weights in safetensors files, which contain no code, are written atomically and are validated when they are
read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from archir.backends.weight_names import NameMap, RenamedWeights
from archir.diagnostics.errors import ArchError, Diagnostic, describe_error, fail, join_names
from archir.diagnostics.hints import suggest_file
from archir.ir.graph import state_name
from archir.utils.files import open_regular, write_atomic


def save_weights(module: nn.Module, path: Path, metadata: Mapping[str, str] | None = None, *, scope: str = "") -> None:
    """Write a module's state dict, with text metadata, to a safetensors file.

    With `scope`, only the weights under that scope are written, without the scope as a prefix of their names.
    """
    prefix = state_name(scope, "")
    state = {
        name.removeprefix(prefix): tensor.detach().cpu().contiguous()
        for name, tensor in module.state_dict().items()
        if name.startswith(prefix)
    }
    # with an empty metadata dict and no weights, safetensors would write an invalid header
    data = save(state, dict(metadata) if metadata else None)
    write_atomic(path, _with_sorted_metadata(data) if metadata else data)


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors in a safetensors file by name, and the file's metadata.

    Raises ArchError (A0905) if the file is not a valid safetensors file.
    """
    try:
        with open_regular(path), safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except SafetensorError as error:
        text = f"{path} is not a file of weights (.safetensors), or it is damaged: {error}"
        raise fail("A0905", text) from None
    except (OSError, ValueError) as error:
        text = f"cannot read the weights in {path}: {describe_error(error)}"
        raise fail("A0905", text, None, suggest_file(path)) from None


def load_weights(module: nn.Module, path: Path, names: NameMap | None = None) -> dict[str, str]:
    """Load the weights in a file into a module, and return the file's metadata.

    `names`, if given, maps weight names in the file to names in the module. Raises ArchError: A0902 for each weight
    that is missing, unexpected or of the wrong shape, A2220 if `names` does not match the weights in the file.
    """
    tensors, metadata = read_weights(path)
    state = module.state_dict()
    if names is None:
        problems = _mismatches(path, shapes(state), shapes(tensors))
    else:
        renamed = RenamedWeights(str(path), names, names.of(tensors))
        tensors = {network_name: tensors[file_name] for network_name, file_name in renamed.file_names.items()}
        problems = renamed.mismatches(shapes(state), shapes(tensors))
    if problems:
        raise ArchError(*problems)
    with torch.no_grad():
        for name, tensor in state.items():
            if name in tensors:
                tensor.copy_(tensors[name])
    return metadata


def shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of tensors by name."""
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _with_sorted_metadata(data: bytes) -> bytes:
    """Return the content of a safetensors file with sorted metadata, so that it is the same in every process.

    Without sorting, the content would vary, because the safetensors library writes metadata in a different order in
    each process.
    """
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[start:]


def _mismatches(
    path: Path, expected: Mapping[str, tuple[int, ...]], actual: Mapping[str, tuple[int, ...]]
) -> list[Diagnostic]:
    """Return a diagnostic (A0902) each for all missing weights, all unexpected weights, and every weight of a
    wrong shape."""
    problems = []
    missing, unexpected = [n for n in expected if n not in actual], [n for n in actual if n not in expected]
    if missing:
        problems.append(Diagnostic("A0902", f"{path} lacks {len(missing)} weights: {join_names(missing, 4)}"))
    if unexpected:
        problems.append(
            Diagnostic("A0902", f"{path} has {len(unexpected)} weights too many: {join_names(unexpected, 4)}")
        )
    for name, shape in expected.items():
        if name in actual and actual[name] != shape:
            problems.append(Diagnostic("A0902", f"`{name}` in {path} has shape {[*actual[name]]}, not {[*shape]}"))
    return problems
