"""Folders with a folder of images for each class, maybe below `train` and `test`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from archir.base.errors import fail
from archir.base.files import read_bytes
from archir.search.data.readers.encoded import Encoded
from archir.search.data.readers.source import MOST, Part, Source, labelled, of_images, unreadable

MOST_BYTES = 1 << 28
"""Bytes of one image's file."""
_IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"}
_TESTS = ("test", "val", "valid", "validation")


def read(path: Path, size: tuple[int, int, int]) -> Source:
    """The images of a folder, decoded when they are asked for. Raises ArchError (A1101, A1102)."""
    test = next((path / name for name in _TESTS if (path / name).is_dir()), None)
    try:
        if (path / "train").is_dir() and test is not None:
            classes = _classes(path / "train")
            return Source(_part(path / "train", classes, size), _part(test, classes, size), classes)
        classes = _classes(path)
        return Source(_part(path, classes, size), None, classes)
    except OSError as error:
        raise unreadable(path, error) from None


def _classes(path: Path) -> tuple[str, ...]:
    found = tuple(sorted(entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith(".")))
    if not 2 <= len(found) <= MOST:
        raise fail("A1102", f"{path} must have a folder for each of two or more classes, it has {len(found)}")
    return found


def _part(path: Path, classes: tuple[str, ...], size: tuple[int, int, int]) -> Part:
    files, labels = [], []
    for label, name in enumerate(classes):
        folder = path / name
        found = sorted(file for file in folder.iterdir() if file.suffix.lower() in _IMAGES) if folder.is_dir() else []
        files += found
        labels += [label] * len(found)
    if not files:
        raise fail("A1102", f"there are no images in {path}")

    def fetch(row: int) -> tuple[str, bytes]:
        try:
            return str(files[row]), read_bytes(files[row], MOST_BYTES)
        except OSError as error:
            raise unreadable(files[row], error) from None

    return of_images(Encoded(fetch, len(files), size), labelled(str(path), np.array(labels)))
