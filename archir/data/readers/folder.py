"""Folders with a folder of images for each class, or of images and their masks, maybe below `train` and `test`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from archir.data.readers.encoded import Encoded
from archir.data.readers.source import MOST, Part, Source, labelled, of_images, unreadable
from archir.diagnostics.errors import fail
from archir.utils.files import read_bytes

MOST_BYTES = 1 << 28
"""Bytes of one image's file."""
_IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"}
_TESTS = ("test", "val", "valid", "validation")


def read(path: Path, size: tuple[int, int, int]) -> Source:
    """The images of a folder, decoded when they are asked for. Raises ArchError (A1101, A1102)."""
    try:
        folders = parts_of(path)
        classes = classes_in(folders[0])
        parts = [_part(folder, classes, size) for folder in folders]
    except OSError as error:
        raise unreadable(path, error) from None
    return Source(parts[0], parts[1] if len(parts) > 1 else None, classes)


def masked(path: Path, size: tuple[int, int, int]) -> Source:
    """Images below `images` and masks of the same names below `masks`, each a class for every pixel: the numbers of
    grey values, or of colours of a palette. Masks are made as large as images are. Raises ArchError (A1101, A1102,
    A1104)."""
    try:
        parts = [_masked(folder, size) for folder in parts_of(path)]
    except OSError as error:
        raise unreadable(path, error) from None
    return Source(parts[0], parts[1] if len(parts) > 1 else None, ())


def _masked(folder: Path, size: tuple[int, int, int]) -> Part:
    for name in ("images", "masks"):
        if not (folder / name).is_dir():
            raise fail("A1102", f"there is no folder {folder / name}", None, "images lie in `images`, masks in `masks`")
    files = sorted(file for file in (folder / "images").iterdir() if file.suffix.lower() in _IMAGES)
    masks = {file.stem: file for file in (folder / "masks").iterdir() if file.suffix.lower() in _IMAGES}
    lacking = [file.name for file in files if file.stem not in masks]
    if not files or lacking:
        what = f"{lacking[0]} has no mask" if lacking else "there are no images"
        raise fail("A1102", f"{what} in {folder}")
    found = np.stack([_mask(file, masks[file.stem], size) for file in files])
    return Part({"image": Encoded(partial(_fetched, files), len(files), size)}, {"mask": found})


def _mask(image: Path, mask: Path, size: tuple[int, int, int]) -> NDArray[np.int64]:
    """The classes of pixels [H, W], as large as a net's input."""
    from PIL import Image

    try:
        with Image.open(image) as one, Image.open(mask) as other:
            if one.size != other.size:
                text = f"{mask} is {other.width} x {other.height}, and {image.name} {one.width} x {one.height}"
                raise fail("A1102", text, None, "a mask is as large as its image")
            if other.mode not in ("L", "P", "1", "I", "I;16"):
                raise fail("A1102", f"{mask} has colours ({other.mode})", None, "masks are grey, or have a palette")
            resized = other.resize((size[2], size[1]), Image.Resampling.NEAREST)
            return np.array(resized).astype(np.int64)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise fail("A1104", f"{mask} is no image that can be read: {error}") from None


def _fetched(files: Sequence[Path], row: int) -> tuple[str, bytes]:
    try:
        return str(files[row]), read_bytes(files[row], MOST_BYTES)
    except OSError as error:
        raise unreadable(files[row], error) from None


def parts_of(path: Path) -> list[Path]:
    """`train` and `test` below a folder (or `val`, `valid`, `validation`) if there are both; else the folder."""
    test = next((path / name for name in _TESTS if (path / name).is_dir()), None)
    return [path / "train", test] if (path / "train").is_dir() and test is not None else [path]


def classes_in(path: Path) -> tuple[str, ...]:
    """The names of the folders below one, which are those of classes. Raises ArchError (A1102)."""
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

    return of_images(Encoded(partial(_fetched, files), len(files), size), labelled(str(path), np.array(labels)))
