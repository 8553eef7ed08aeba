"""Command-line arguments of an import: the callable that creates the module, example inputs, and weights."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from archir.diagnostics.errors import ArchError, fail, join_names
from archir.diagnostics.hints import suggest
from archir.plugins import loading
from archir_torch.lowering.weights import read_weights

DTYPES = {"f32": torch.float32, "i64": torch.int64, "i32": torch.int32}
"""Torch dtype by its name in input specifications."""
INPUT = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?:(?P<dtype>f32|i64|i32):)?(?P<sizes>\d+(?:x\d+)*)")
"""Pattern of an input specification, such as `3x224x224`, `i64:128` or `input_ids=i64:128`."""
MAX_ELEMENTS = 2**31
"""Maximum number of elements of an example input."""
WEIGHT_SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
"""Suffixes of weights files."""
WEIGHTS_HINT = "weights are no network: create it by --torch package.module:callable, and load them by --weights"
"""Hint for errors in which a weights file was given instead of a module."""
TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*m")
"""Pattern of terminal escape sequences, which are removed from torch's messages."""


def create_module(name: str, arguments: Mapping[str, Any], state: Path | None = None) -> nn.Module:
    """Import `package.module:callable`, call it with `arguments`, and return the torch module that it creates.

    The package may be in the current folder. `state` is a file with a state dict to load into the module. Raises
    ArchError (A3101, A3102, A3205).
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not attribute:
        hint = WEIGHTS_HINT if name.endswith(WEIGHT_SUFFIXES) else "write package.module:callable"
        raise fail("A3205", f"`{name}` names no callable", None, hint)
    loading.load(module_name, noun="module")
    result: Any = sys.modules[module_name]
    for part in attribute.split("."):
        if not hasattr(result, part):
            raise fail("A3205", f"`{module_name}` has no `{attribute}`", None, suggest(part, dir(result)))
        result = getattr(result, part)
    if not isinstance(result, nn.Module):
        try:
            result = result(**arguments)
        except ArchError:
            raise
        except Exception as error:
            parameters = _parameters_hint(result) if isinstance(error, TypeError) else None
            raise fail("A3205", f"`{name}` raises {type(error).__name__}: {error}", None, parameters) from error
    if not isinstance(result, nn.Module):
        weights_hint = WEIGHTS_HINT if isinstance(result, Mapping) else None
        raise fail("A3205", f"`{name}` returns a {type(result).__name__}, not a torch module", None, weights_hint)
    if state is not None:
        _load_state(result, state)
    return result


def _parameters_hint(function: Any) -> str | None:
    """Return a hint that lists a callable's parameters and how to pass them; None if it has no signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # builtins may have no signature
        return None
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = [parameter.name for parameter in parameters if parameter.kind in kinds]
    return f"it takes {join_names(names, 6)}; each is given as -p {names[0]}=..." if names else "it takes no arguments"


def _load_state(module: nn.Module, path: Path) -> None:
    """Load a state dict from a safetensors file or a torch file. From a torch file, only tensors are unpickled."""
    if path.suffix == ".safetensors":
        state: Any = read_weights(path)[0]
    else:
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many kinds of errors
            message = TERMINAL_CODES.sub("", str(error).split("\n")[0])
            if message.startswith("Weights only load failed"):
                hint = "save weights alone: torch.save(model.state_dict(), 'weights.pt')"
                text = f"{path} holds pickled Python objects, which are not loaded, instead of a state dict"
                raise fail("A3205", text, None, hint) from None
            raise fail("A3205", f"cannot read a state dict in {path}: {message}") from None
    if isinstance(state, Mapping) and not any(isinstance(value, Tensor) for value in state.values()):
        inner = [value for value in state.values() if isinstance(value, Mapping)]
        state = next((value for value in inner if any(isinstance(leaf, Tensor) for leaf in value.values())), state)
    if not isinstance(state, Mapping):
        raise fail("A3205", f"{path} has a {type(state).__name__} instead of a state dict")
    expected = module.state_dict()
    missing = [name for name in expected if name not in state]
    extra = [name for name in state if name not in expected]
    shapes = [name for name in expected if name in state and state[name].shape != expected[name].shape]
    parts = {"lacks": missing, "has in addition": extra, "has with another shape": shapes}
    message = "; ".join(f"{word} {join_names(names, 4)}" for word, names in parts.items() if names)
    if message:
        raise fail("A3205", f"{path} does not fit the module: it {message}")
    module.load_state_dict(state)


def example_inputs(inputs: Sequence[str]) -> Any:
    """Create example inputs of one sample from specifications.

    A specification has the form `3x224x224`, `i64:128` or, with a name, `input_ids=i64:128`. Returns a tuple of
    tensors, or a dict if the specifications have names. Raises ArchError (A3205).
    """
    tensors: list[tuple[str | None, Tensor]] = []
    for text in inputs:
        match = INPUT.fullmatch(text)
        if match is None:
            raise fail("A3205", f"`{text}` is not an input", None, "write 3x224x224, i64:128 or name=i64:128")
        sizes = [int(size) for size in match["sizes"].split("x")]
        count = 1
        for size in sizes:
            count *= size
        if not 0 < count <= MAX_ELEMENTS:
            raise fail("A3205", f"`{text}` has {count} elements: 1 to {MAX_ELEMENTS} are possible")
        tensors.append((match["name"], torch.zeros(1, *sizes, dtype=DTYPES[match["dtype"] or "f32"])))
    named = [name for name, _ in tensors if name]
    if named and len(named) < len(tensors):
        raise fail("A3205", "some inputs have names, and others have none: name all of them, or none")
    return dict(tensors) if named else tuple(tensor for _, tensor in tensors)
