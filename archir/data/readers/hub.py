"""Data sets of the package `datasets`, by their name on the Hugging Face hub or from a local folder.

A source is written `NAME` or a path, then optionally `@CONFIGURATION`, then optionally `#COLUMN` for the
target. A net with a single image input requires one image column and one label column; for other nets,
columns are texts, sounds, arrays or numbers. Only data are read: code that comes with a data set is not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from archir.data.columns import source_of_columns
from archir.data.inputs import Inputs, image_shape
from archir.data.readers.encoded import EncodedImages
from archir.data.readers.optional_packages import require_package
from archir.data.readers.parquet import label_column
from archir.data.readers.source import MAX_CLASSES, Part, Source, check_labels, classes_of, image_part, read_error
from archir.diagnostics.errors import fail, join_names

_TESTS = ("test", "validation", "valid", "val")
"""Names of held-out splits, in order of preference."""
_ERRORS = (OSError, ValueError, RuntimeError, KeyError, TypeError)
"""Exceptions that the package `datasets` raises for missing or corrupt data sets."""


def read(name: str, inputs: Inputs, targets: Sequence[str] = ()) -> Source:
    """Read a data set; images are decoded on access.

    `targets` are the target columns. Raises ArchError: A1101 (the data set cannot be loaded), A1102 (its columns
    do not fit the net), A1112 (the package `datasets` is not installed).
    """
    datasets = require_package("datasets", "datasets", "Hugging Face data sets")
    name, _, configuration = name.partition("@")
    try:
        if (Path(name) / "dataset_dict.json").is_file() or (Path(name) / "state.json").is_file():
            loaded = datasets.load_from_disk(name)
        else:
            loaded = datasets.load_dataset(name, configuration or None)
    except _ERRORS as error:
        raise read_error(f"hf:{name}", error) from None
    parts = dict(loaded) if isinstance(loaded, dict) else {"train": loaded}
    if "train" not in parts:
        raise fail("A1102", f"hf:{name} has no part `train`, but {join_names(list(parts))}")
    test = next((parts[part] for part in _TESTS if part in parts), None)
    features = parts["train"].features
    if len(inputs) != 1 or not inputs[0].is_image or not _image_columns(datasets, features):
        tables = [_other_columns(datasets, f"hf:{name}", part) for part in (parts["train"], test) if part is not None]
        class_names = {
            key: feature.names
            for key, feature in features.items()
            if isinstance(feature, datasets.ClassLabel) and feature.names
        }
        return source_of_columns(tables, inputs, targets, class_names, f"hf:{name}")
    size = image_shape(inputs, f"`hf:{name}`")
    label, names = _label_column(datasets, f"hf:{name}", features, targets[0] if targets else None)
    train = _image_part(datasets, f"hf:{name}", parts["train"], label, names, size)
    held_out = _image_part(datasets, f"hf:{name}", test, label, names, size) if test is not None else None
    parts_read = [train] if held_out is None else [train, held_out]
    return Source(train, held_out, names or classes_of(*parts_read, are_labels=True))


def _image_columns(datasets: Any, features: Any) -> list[str]:
    """Return the names of the image columns."""
    return [name for name, feature in features.items() if isinstance(feature, datasets.Image)]


def _other_columns(datasets: Any, source_name: str, part: Any) -> dict[str, Sequence[Any]]:
    """Return the cells of all columns except image columns; sounds stay encoded. Raises ArchError (A1101)."""
    image_names = _image_columns(datasets, part.features)
    cells: dict[str, Sequence[Any]] = {}
    for name, feature in part.features.items():
        if name not in image_names:
            column = part.select_columns([name])
            if isinstance(feature, datasets.Audio):
                column = column.cast_column(name, datasets.Audio(decode=False))
            try:
                cells[name] = list(column[name])
            except _ERRORS as error:
                raise read_error(f"column `{name}` of {source_name}", error) from None
    return cells


def _label_column(datasets: Any, source_name: str, features: Any, column: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the label column and its class names, () if the data set has none."""
    integer_columns = [
        name for name, feature in features.items() if str(getattr(feature, "dtype", "")).startswith(("int", "uint"))
    ]
    label = label_column(source_name, integer_columns, column)
    feature = features[label]
    names = tuple(feature.names or ()) if isinstance(feature, datasets.ClassLabel) else ()
    return label, names if len(names) <= MAX_CLASSES else ()


def _image_part(
    datasets: Any, source_name: str, part: Any, label: str, names: tuple[str, ...], size: tuple[int, int, int]
) -> Part:
    """Return one split of a data set, with its image and label columns, as a part. Raises ArchError (A1102)."""
    images = _image_columns(datasets, part.features)
    if len(images) != 1 or label not in part.features:
        raise fail(
            "A1102", f"{source_name} must have one column of images, and `{label}`, in each part: {join_names(images)}"
        )
    labels = check_labels(
        f"column `{label}` of {source_name}", np.asarray(part.with_format("numpy")[label][:]), len(names) or None
    )
    encoded = part.select_columns(images).cast_column(images[0], datasets.Image(decode=False))

    def fetch(row: int) -> tuple[str, bytes]:
        image_name = f"image {row} of {source_name}"
        try:
            value = encoded[row][images[0]]
            return image_name, value["bytes"] if value["bytes"] is not None else Path(value["path"]).read_bytes()
        except _ERRORS as error:
            raise fail("A1104", f"{image_name} cannot be read: {error}") from None

    return image_part(EncodedImages(fetch, len(labels), size), labels)
