"""Data sets of the package `datasets`: by their name on the Hugging Face hub, or from a local folder.

`NAME` or a path, then `@CONFIGURATION`, and `#COLUMN` of the targets. For nets that take one image there is a column of
images and one of labels; for others, columns are texts, sounds, arrays or numbers. What a data set needs to be read is
data: code that comes with it is not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from archir.data.columns import samples
from archir.data.inputs import Inputs, image_of
from archir.data.readers.encoded import Encoded
from archir.data.readers.extras import needed
from archir.data.readers.parquet import label_column
from archir.data.readers.source import MOST, Part, Source, classes_of, labelled, of_images, unreadable
from archir.diagnostics.errors import fail, listed

_TESTS = ("test", "validation", "valid", "val")
_ERRORS = (OSError, ValueError, RuntimeError, KeyError, TypeError)


def read(name: str, inputs: Inputs, targets: Sequence[str] = ()) -> Source:
    """The parts of a data set; images are decoded when they are asked for.

    Raises ArchError: A1101 (it cannot be had), A1102 (its form), A1112 (`datasets` is not installed).
    """
    datasets = needed("datasets", "datasets", "Hugging Face data sets")
    name, _, configuration = name.partition("@")
    try:
        if (Path(name) / "dataset_dict.json").is_file() or (Path(name) / "state.json").is_file():
            loaded = datasets.load_from_disk(name)
        else:
            loaded = datasets.load_dataset(name, configuration or None)
    except _ERRORS as error:
        raise unreadable(f"hf:{name}", error) from None
    parts = dict(loaded) if isinstance(loaded, dict) else {"train": loaded}
    if "train" not in parts:
        raise fail("A1102", f"hf:{name} has no part `train`, but {listed(list(parts))}")
    test = next((parts[part] for part in _TESTS if part in parts), None)
    features = parts["train"].features
    if len(inputs) != 1 or not inputs[0].is_image or not _images(datasets, features):
        tables = [_columns(datasets, f"hf:{name}", part) for part in (parts["train"], test) if part is not None]
        known = {key: one.names for key, one in features.items() if isinstance(one, datasets.ClassLabel) and one.names}
        return samples(tables, inputs, targets, known, f"hf:{name}")
    size = image_of(inputs, f"`hf:{name}`")
    label, names = _labels(datasets, f"hf:{name}", features, targets[0] if targets else None)
    train = _part(datasets, f"hf:{name}", parts["train"], label, names, size)
    held_out = _part(datasets, f"hf:{name}", test, label, names, size) if test is not None else None
    found = [train] if held_out is None else [train, held_out]
    return Source(train, held_out, names or classes_of(*found, certain=True))


def _images(datasets: Any, features: Any) -> list[str]:
    return [name for name, feature in features.items() if isinstance(feature, datasets.Image)]


def _columns(datasets: Any, where: str, part: Any) -> dict[str, Sequence[Any]]:
    """The cells of all columns but images; sounds are not decoded. Raises ArchError (A1101)."""
    pictures = _images(datasets, part.features)
    found: dict[str, Sequence[Any]] = {}
    for name, feature in part.features.items():
        if name not in pictures:
            some = part.select_columns([name])
            if isinstance(feature, datasets.Audio):
                some = some.cast_column(name, datasets.Audio(decode=False))
            try:
                found[name] = list(some[name])
            except _ERRORS as error:
                raise unreadable(f"column `{name}` of {where}", error) from None
    return found


def _labels(datasets: Any, where: str, features: Any, column: str | None) -> tuple[str, tuple[str, ...]]:
    """The column of labels, and the names of the classes if it has them."""
    found = [
        name for name, feature in features.items() if str(getattr(feature, "dtype", "")).startswith(("int", "uint"))
    ]
    label = label_column(where, found, column)
    feature = features[label]
    names = tuple(feature.names or ()) if isinstance(feature, datasets.ClassLabel) else ()
    return label, names if len(names) <= MOST else ()


def _part(datasets: Any, where: str, part: Any, label: str, names: tuple[str, ...], size: tuple[int, int, int]) -> Part:
    images = _images(datasets, part.features)
    if len(images) != 1 or label not in part.features:
        raise fail("A1102", f"{where} must have one column of images, and `{label}`, in each part: {listed(images)}")
    labels = labelled(
        f"column `{label}` of {where}", np.asarray(part.with_format("numpy")[label][:]), len(names) or None
    )
    encoded = part.select_columns(images).cast_column(images[0], datasets.Image(decode=False))

    def fetch(row: int) -> tuple[str, bytes]:
        called = f"image {row} of {where}"
        try:
            value = encoded[row][images[0]]
            return called, value["bytes"] if value["bytes"] is not None else Path(value["path"]).read_bytes()
        except _ERRORS as error:
            raise fail("A1104", f"{called} cannot be read: {error}") from None

    return of_images(Encoded(fetch, len(labels), size), labels)
