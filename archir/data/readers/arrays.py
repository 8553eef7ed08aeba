"""Sources given as named arrays.

The name of an array determines whether it holds inputs or targets, and whether it belongs to the training part or
to the held-out part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from archir.data.readers.source import Part, Source, check_labels, classes_of
from archir.diagnostics.errors import fail

Arrays = Mapping[str, NDArray[Any]]
_KINDS = {"x": "x", "y": "y", "images": "x", "labels": "y"}
_PARTS = ("train", "test")
_HINT = (
    "it needs x_train, y_train, x_test and y_test, or images and labels, or arrays whose names begin with x and y, "
    "optionally with _train and _test at the end: x_left, x_right, y_depth"
)


def source_of_arrays(arrays: Arrays, source_name: str) -> Source:
    """Build a source from named arrays.

    `x`, `images` and names that start with `x_` are inputs; `y`, `labels` and names that start with `y_` are targets.
    The suffixes `_train` and `_test` select the training or the held-out part. An array `labels` must contain class
    numbers. `source_name` names the source in messages. Raises ArchError (A1102).
    """
    parts_by_name: dict[str, tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]] = {}
    for name, array in arrays.items():
        kind, column, part = _split_name(name)
        if kind is None:
            raise fail("A1102", f"{source_name} has the arrays {', '.join(arrays)}", None, _HINT)
        if array.ndim == 0 or len(array) == 0:
            raise fail("A1102", f"{source_name}: `{name}` has 0 samples")
        inputs, targets = parts_by_name.setdefault(part, ({}, {}))
        (inputs if kind == "x" else targets)[column] = (
            check_labels(f"{source_name}: `labels`", array) if name == "labels" else array
        )
    part_names = ("train", "test") if "test" in parts_by_name else ("train",) if "train" in parts_by_name else ("",)
    if set(parts_by_name) != set(part_names) or any(not inputs for inputs, _ in parts_by_name.values()):
        raise fail("A1102", f"{source_name} has the arrays {', '.join(arrays) or 'none'}", None, _HINT)
    parts = [Part(*parts_by_name[name]) for name in part_names]
    names = [(sorted(part.inputs), sorted(part.targets)) for part in parts]
    if names[0] != names[-1]:
        first, second = (", ".join(f"`{name}`" for group in column_names for name in group) for column_names in names)
        text = f"{source_name} has {first} to train on, and {second} to test on"
        raise fail("A1102", text, None, "both parts have the same inputs and targets")
    return Source(parts[0], parts[1] if len(parts) > 1 else None, classes_of(*parts, are_labels="labels" in arrays))


def _split_name(name: str) -> tuple[str | None, str, str]:
    """Split an array name into kind (`x` input, `y` target, None neither), column name, and part (`train`, `test` or
    "")."""
    first, *words = name.split("_")
    part = words.pop() if words and words[-1] in _PARTS else ""
    kind = _KINDS.get(first)
    return kind, "_".join(words) or {"x": "input", "y": "target", None: ""}[kind], part
