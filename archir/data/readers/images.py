"""Image folders: one subfolder per class, or images with segmentation masks; optionally below `train` and `test`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from archir.data.inputs import Inputs, image_shape
from archir.data.readers.source import (
    MAX_CLASSES,
    EncodedImages,
    Part,
    Source,
    check_labels,
    existing_path,
    image_part,
    read_error,
    source,
)
from archir.data.resizing import Resizing
from archir.diagnostics.errors import describe_error, fail
from archir.utils.files import read_bytes

MAX_FILE_BYTES = 1 << 28
"""Maximum size in bytes of one image file."""
_IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"}
_MAX_SEARCHED = 100
"""Maximum number of subfolders that are searched for images for a hint."""
_TESTS = ("test", "val", "valid", "validation")


@source("images")
def read(name: str, inputs: Inputs) -> Source:
    """Read a folder with one subfolder of images per class; images are decoded on access, resized and
    cropped to the net's input.

    Raises ArchError (A1101, A1102, A1103).
    """
    path, size = existing_path(name), image_shape(inputs, f"`{name}`")
    try:
        folders = part_folders(path)
        classes = class_names(folders[0])
        parts = [_image_part(folder, classes, size) for folder in folders]
    except OSError as error:
        raise read_error(path, error) from None
    return Source.of(parts, classes)


@source("masks")
def read_masks(name: str, inputs: Inputs) -> Source:
    """Read a folder with images in `images` and segmentation masks of the same file names in `masks`.

    The class of a pixel is the grey value or palette index of the mask. Images and masks are resized and
    cropped to the net's input. Raises ArchError (A1101, A1102, A1103, A1104).
    """
    path, size = existing_path(name), image_shape(inputs, f"`{name}`")
    try:
        parts = [_mask_part(folder, size, inputs[0].resizing) for folder in part_folders(path)]
    except OSError as error:
        raise read_error(path, error) from None
    return Source.of(parts)


def _mask_part(folder: Path, size: tuple[int, int, int], resizing: Resizing) -> Part:
    for name in ("images", "masks"):
        if not (folder / name).is_dir():
            raise fail("A1102", f"there is no folder {folder / name}", None, "images lie in `images`, masks in `masks`")
    files = _image_files(folder / "images")
    masks = {file.stem: file for file in _image_files(folder / "masks")}
    without_mask = [file.name for file in files if file.stem not in masks]
    if not files or without_mask:
        what = f"{without_mask[0]} has no mask" if without_mask else "there are no images"
        raise fail("A1102", f"{what} in {folder}")
    mask_array = np.stack([_read_mask(file, masks[file.stem], size[1:], resizing) for file in files])
    return Part({"image": _encoded(files, size)}, {"mask": mask_array})


def _read_mask(image: Path, mask: Path, size: tuple[int, int], resizing: Resizing) -> NDArray[np.int64]:
    """Return the class of each pixel of a mask as int64 [H, W], resized to the net's input. Raises ArchError (A1102,
    A1104)."""
    from PIL import Image

    try:
        with Image.open(image) as picture, Image.open(mask) as mask_picture:
            if picture.size != mask_picture.size:
                sizes = [f"{width} x {height}" for width, height in (mask_picture.size, picture.size)]
                text = f"{mask} is {sizes[0]}, and {image.name} {sizes[1]}"
                raise fail("A1102", text, None, "a mask is as large as its image")
            if mask_picture.mode not in ("L", "P", "1", "I", "I;16"):
                hint = "masks are grey, or have a palette"
                raise fail("A1102", f"{mask} has colours ({mask_picture.mode})", None, hint)
            return np.array(resizing.fit(mask_picture, size, nearest=True)).astype(np.int64)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise fail("A1104", f"{mask} cannot be decoded as an image: {describe_error(error)}") from None


def _image_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in _IMAGES) if folder.is_dir() else []


def _encoded(files: Sequence[Path], size: tuple[int, int, int]) -> EncodedImages:
    """Return images that are read and decoded on access, which raises ArchError (A1101, A1104)."""

    def fetch(row: int) -> tuple[str, bytes]:
        try:
            return str(files[row]), read_bytes(files[row], MAX_FILE_BYTES)
        except OSError as error:
            raise read_error(files[row], error) from None

    return EncodedImages(fetch, len(files), size)


def part_folders(path: Path) -> list[Path]:
    """Return the subfolders `train` and `test` (or `val`, `valid`, `validation`) if both exist, else the folder
    itself."""
    test = next((path / name for name in _TESTS if (path / name).is_dir()), None)
    return [path / "train", test] if (path / "train").is_dir() and test is not None else [path]


def class_names(path: Path) -> tuple[str, ...]:
    """Return the class names of a folder: the names of its subfolders, sorted. Raises ArchError (A1102)."""
    names = tuple(sorted(entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith(".")))
    if not 2 <= len(names) <= MAX_CLASSES:
        text = f"{path} must have a folder for each of two or more classes, it has {len(names)}"
        raise fail("A1102", text, None, _subfolder_hint(path))
    return names


def _subfolder_hint(path: Path) -> str | None:
    """Return a hint with the only subfolder that has a folder of images for each of several classes, if there is
    one."""
    folders = [entry for entry in sorted(path.iterdir()) if entry.is_dir()][:_MAX_SEARCHED]
    suitable = [
        folder
        for folder in folders
        if sum(bool(_image_files(part)) for part in [*folder.iterdir()][:_MAX_SEARCHED]) > 1
    ]
    return f"did you mean {suitable[0]}, which has folders of images?" if len(suitable) == 1 else None


def _image_part(path: Path, classes: tuple[str, ...], size: tuple[int, int, int]) -> Part:
    labelled = [(file, label) for label, name in enumerate(classes) for file in _image_files(path / name)]
    if not labelled:
        raise fail("A1102", f"there are no images in {path}", None, _subfolder_hint(path))
    files, labels = zip(*labelled, strict=True)
    return image_part(_encoded(files, size), check_labels(str(path), np.array(labels)))
