"""What a command line says of a module: what to call, with which inputs, on which weights."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from archir.diagnostics.errors import ArchError, fail, listed, suggest
from archir.plugins import loading
from archir_torch.lowering.weights import read_weights

DTYPES = {"f32": torch.float32, "i64": torch.int64, "i32": torch.int32}
INPUT = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?:(?P<dtype>f32|i64|i32):)?(?P<sizes>\d+(?:x\d+)*)")
MOST_NUMBERS = 2**31
HOLDING = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
"""Ends of files of weights."""
WEIGHTS = "weights are no network: name what makes it, --torch package.module:callable, and them by --weights"
TERMINAL = re.compile(r"\x1b\[[0-9;]*m")
"""What makes letters bold in terminals."""


def called(name: str, arguments: Mapping[str, Any], state: Path | None = None) -> nn.Module:
    """The module that `package.module:callable` gives, which may lie in the current folder.

    `state` is a file of its state dict. Raises ArchError (A3101, A3102, A3205).
    """
    home, colon, attribute = name.partition(":")
    if not colon or not attribute:
        hint = WEIGHTS if name.endswith(HOLDING) else "it is written package.module:callable"
        raise fail("A3205", f"`{name}` names no callable", None, hint)
    loading.load(home, what="module")
    found: Any = sys.modules[home]
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise fail("A3205", f"`{home}` has no `{attribute}`", None, suggest(part, dir(found)))
        found = getattr(found, part)
    if not isinstance(found, nn.Module):
        try:
            found = found(**arguments)
        except ArchError:
            raise
        except Exception as error:
            takes = _takes(found) if isinstance(error, TypeError) else None
            raise fail("A3205", f"`{name}` raises {type(error).__name__}: {error}", None, takes) from error
    if not isinstance(found, nn.Module):
        meant = WEIGHTS if isinstance(found, Mapping) else None
        raise fail("A3205", f"`{name}` gives a {type(found).__name__}, and no torch module", None, meant)
    if state is not None:
        _load(found, state)
    return found


def _takes(function: Any) -> str | None:
    """What a callable takes, and how it is given."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of no function of Python's
        return None
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    known = [one.name for one in found if one.kind in kinds]
    return f"it takes {listed(known, 6)}; each is given as -p {known[0]}=..." if known else "it takes no arguments"


def _load(module: nn.Module, path: Path) -> None:
    """A state dict, of safetensors or of torch; of the latter nothing is unpickled but tensors."""
    if path.suffix == ".safetensors":
        given: Any = read_weights(path)[0]
    else:
        try:
            given = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch refuses files in many ways
            said = TERMINAL.sub("", str(error).split("\n")[0])
            if said.startswith("Weights only load failed"):
                hint = "save weights alone: torch.save(model.state_dict(), 'weights.pt')"
                text = f"{path} holds objects of Python, which are not made, and no state dict"
                raise fail("A3205", text, None, hint) from None
            raise fail("A3205", f"cannot read a state dict in {path}: {said}") from None
    if isinstance(given, Mapping) and not any(isinstance(one, Tensor) for one in given.values()):
        inner = [one for one in given.values() if isinstance(one, Mapping)]
        given = next((one for one in inner if any(isinstance(leaf, Tensor) for leaf in one.values())), given)
    if not isinstance(given, Mapping):
        raise fail("A3205", f"{path} has a {type(given).__name__}, and no state dict")
    wanted = module.state_dict()
    missing = [name for name in wanted if name not in given]
    more = [name for name in given if name not in wanted]
    shapes = [name for name in wanted if name in given and given[name].shape != wanted[name].shape]
    parts = {"lacks": missing, "has too many": more, "has of another shape": shapes}
    said = "; ".join(f"{word} {listed(names, 4)}" for word, names in parts.items() if names)
    if said:
        raise fail("A3205", f"{path} does not fit the module: it {said}")
    module.load_state_dict(given)


def example(inputs: Sequence[str]) -> Any:
    """Inputs of one sample each: `3x224x224`, `i64:128`, or by the name of an argument, `input_ids=i64:128`.

    Raises ArchError (A3205).
    """
    made: list[tuple[str | None, Tensor]] = []
    for text in inputs:
        found = INPUT.fullmatch(text)
        if found is None:
            raise fail("A3205", f"`{text}` is no input", None, "inputs are 3x224x224, i64:128 or name=i64:128")
        sizes = [int(size) for size in found["sizes"].split("x")]
        count = 1
        for size in sizes:
            count *= size
        if not 0 < count <= MOST_NUMBERS:
            raise fail("A3205", f"`{text}` has {count} numbers")
        made.append((found["name"], torch.zeros(1, *sizes, dtype=DTYPES[found["dtype"] or "f32"])))
    named = [name for name, _ in made if name]
    if named and len(named) < len(made):
        raise fail("A3205", "some inputs have names, and some have none")
    return dict(made) if named else tuple(tensor for _, tensor in made)
