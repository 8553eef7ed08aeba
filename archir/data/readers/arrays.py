"""Arrays by their names: which are inputs and which are targets, and of which part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from archir.data.readers.source import Part, Source, classes_of, labelled
from archir.diagnostics.errors import fail

Arrays = Mapping[str, NDArray[Any]]
_KINDS = {"x": "x", "y": "y", "images": "x", "labels": "y"}
_PARTS = ("train", "test")
_HINT = (
    "it needs x_train, y_train, x_test and y_test, or images and labels, or arrays whose names begin with x and y: "
    "x_left, x_right, y_depth, maybe with _train and _test at the end"
)


def arranged(arrays: Arrays, what: str) -> Source:
    """A source of named arrays: `x` and names that begin with `x_` are inputs, those with `y_` targets.

    `_train` and `_test` at the end say which part they are of. `labels` are checked to be labels. Raises ArchError
    (A1102).
    """
    found: dict[str, tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]] = {}
    for name, array in arrays.items():
        kind, own, part = _read(name)
        if kind is None:
            raise fail("A1102", f"{what} has the arrays {', '.join(arrays)}", None, _HINT)
        if array.ndim == 0 or len(array) == 0:
            raise fail("A1102", f"{what}: `{name}` has 0 samples")
        inputs, targets = found.setdefault(part, ({}, {}))
        (inputs if kind == "x" else targets)[own] = labelled(f"{what}: `labels`", array) if name == "labels" else array
    wanted = ("train", "test") if "test" in found else ("train",) if "train" in found else ("",)
    if set(found) != set(wanted) or any(not inputs for inputs, _ in found.values()):
        raise fail("A1102", f"{what} has the arrays {', '.join(arrays) or 'none'}", None, _HINT)
    parts = [Part(*found[name]) for name in wanted]
    names = [(sorted(part.inputs), sorted(part.targets)) for part in parts]
    if names[0] != names[-1]:
        first, second = (", ".join(f"`{name}`" for some in one for name in some) for one in names)
        text = f"{what} has {first} to train on, and {second} to test on"
        raise fail("A1102", text, None, "both parts have the same inputs and targets")
    return Source(parts[0], parts[1] if len(parts) > 1 else None, classes_of(*parts, certain="labels" in arrays))


def _read(name: str) -> tuple[str | None, str, str]:
    """Whether a name is of an input or a target, its own name, and its part."""
    first, *rest = name.split("_")
    part = rest.pop() if rest and rest[-1] in _PARTS else ""
    kind = _KINDS.get(first)
    return kind, "_".join(rest) or {"x": "input", "y": "target", None: ""}[kind], part
