"""Weights in safetensors files: data only, written in one step, checked when they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from archir.backends.naming import Named, Names
from archir.diagnostics.errors import ArchError, Diagnostic, fail, listed
from archir.ir.graph import state_name
from archir.utils.files import reading, write_atomic


def save_weights(module: nn.Module, path: Path, metadata: Mapping[str, str] | None = None, *, scope: str = "") -> None:
    """Write a module's state dict, with text metadata; of a scope's part, with the names that it has below it."""
    prefix = state_name(scope, "")
    state = {
        name.removeprefix(prefix): tensor.detach().cpu().contiguous()
        for name, tensor in module.state_dict().items()
        if name.startswith(prefix)
    }
    # safetensors writes no valid header where there is neither a weight nor metadata, but an empty dict of it
    data = save(state, dict(metadata) if metadata else None)
    write_atomic(path, _in_order(data) if metadata else data)


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors by name, and the metadata. Raises ArchError (A0905) for what is no safetensors file."""
    try:
        with reading(path), safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as error:
        raise fail("A0905", f"cannot read the weights in {path}: {error}") from None


def load_weights(module: nn.Module, path: Path, names: Names | None = None) -> dict[str, str]:
    """Load a file into a module, by names that a map may say; the metadata.

    Raises ArchError: A0902 naming every weight that does not fit, A2220 for a map that is about other weights.
    """
    given, metadata = read_weights(path)
    wanted = module.state_dict()
    if names is None:
        problems = _unfit(path, shapes(wanted), shapes(given))
    else:
        named = Named(str(path), names, names.of(given))
        given = {ours: given[theirs] for ours, theirs in named.theirs.items()}
        problems = named.unfit(shapes(wanted), shapes(given))
    if problems:
        raise ArchError(*problems)
    with torch.no_grad():
        for name, tensor in wanted.items():
            if name in given:
                tensor.copy_(given[name])
    return metadata


def shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """The shapes of tensors by name."""
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _in_order(data: bytes) -> bytes:
    """A safetensors file with its metadata sorted: safetensors writes it in an order that changes by process."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[start:]


def _unfit(path: Path, wanted: Mapping[str, tuple[int, ...]], given: Mapping[str, tuple[int, ...]]) -> list[Diagnostic]:
    problems = []
    missing, unexpected = [n for n in wanted if n not in given], [n for n in given if n not in wanted]
    if missing:
        problems.append(Diagnostic("A0902", f"{path} lacks {len(missing)} weights: {listed(missing, 4)}"))
    if unexpected:
        problems.append(Diagnostic("A0902", f"{path} has {len(unexpected)} weights too many: {listed(unexpected, 4)}"))
    for name, shape in wanted.items():
        if name in given and given[name] != shape:
            problems.append(Diagnostic("A0902", f"`{name}` in {path} has shape {[*given[name]]}, not {[*shape]}"))
    return problems
