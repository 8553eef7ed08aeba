"""Image folders: one subfolder per class, or images with segmentation masks; optionally below `train` and `test`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from archir.data.readers.encoded import EncodedImages
from archir.data.readers.source import MAX_CLASSES, Part, Source, check_labels, image_part, read_error
from archir.diagnostics.errors import fail
from archir.utils.files import read_bytes

MAX_FILE_BYTES = 1 << 28
"""Maximum size in bytes of one image file."""
_IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"}
_TESTS = ("test", "val", "valid", "validation")


def read(path: Path, size: tuple[int, int, int]) -> Source:
    """Read a folder with one subfolder of images per class; images are decoded on access and resized to `size` [C,
    H, W].

    Raises ArchError (A1101, A1102).
    """
    try:
        folders = part_folders(path)
        classes = class_names(folders[0])
        parts = [_image_part(folder, classes, size) for folder in folders]
    except OSError as error:
        raise read_error(path, error) from None
    return Source(parts[0], parts[1] if len(parts) > 1 else None, classes)


def read_masks(path: Path, size: tuple[int, int, int]) -> Source:
    """Read a folder with images in `images` and segmentation masks of the same file names in `masks`.

    The class of a pixel is the grey value or palette index of the mask. Images and masks are resized to `size`
    [C, H, W]. Raises ArchError (A1101, A1102, A1104).
    """
    try:
        parts = [_mask_part(folder, size) for folder in part_folders(path)]
    except OSError as error:
        raise read_error(path, error) from None
    return Source(parts[0], parts[1] if len(parts) > 1 else None, ())


def _mask_part(folder: Path, size: tuple[int, int, int]) -> Part:
    """Return the images and masks of one folder as a part. Raises ArchError (A1102, A1104)."""
    for name in ("images", "masks"):
        if not (folder / name).is_dir():
            raise fail("A1102", f"there is no folder {folder / name}", None, "images lie in `images`, masks in `masks`")
    files = sorted(file for file in (folder / "images").iterdir() if file.suffix.lower() in _IMAGES)
    masks = {file.stem: file for file in (folder / "masks").iterdir() if file.suffix.lower() in _IMAGES}
    without_mask = [file.name for file in files if file.stem not in masks]
    if not files or without_mask:
        what = f"{without_mask[0]} has no mask" if without_mask else "there are no images"
        raise fail("A1102", f"{what} in {folder}")
    mask_array = np.stack([_read_mask(file, masks[file.stem], size) for file in files])
    return Part({"image": EncodedImages(partial(_fetch, files), len(files), size)}, {"mask": mask_array})


def _read_mask(image: Path, mask: Path, size: tuple[int, int, int]) -> NDArray[np.int64]:
    """Return the class of each pixel of a mask as int64 [H, W], resized to the net's input. Raises ArchError (A1102,
    A1104)."""
    from PIL import Image

    try:
        with Image.open(image) as picture, Image.open(mask) as mask_picture:
            if picture.size != mask_picture.size:
                text = (
                    f"{mask} is {mask_picture.width} x {mask_picture.height}, and {image.name} {picture.width} x "
                    f"{picture.height}"
                )
                raise fail("A1102", text, None, "a mask is as large as its image")
            if mask_picture.mode not in ("L", "P", "1", "I", "I;16"):
                raise fail(
                    "A1102", f"{mask} has colours ({mask_picture.mode})", None, "masks are grey, or have a palette"
                )
            resized = mask_picture.resize((size[2], size[1]), Image.Resampling.NEAREST)
            return np.array(resized).astype(np.int64)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise fail("A1104", f"{mask} cannot be decoded as an image: {error}") from None


def _fetch(files: Sequence[Path], row: int) -> tuple[str, bytes]:
    """Return the path and content of the image file for a row. Raises ArchError (A1101)."""
    try:
        return str(files[row]), read_bytes(files[row], MAX_FILE_BYTES)
    except OSError as error:
        raise read_error(files[row], error) from None


def part_folders(path: Path) -> list[Path]:
    """Return the subfolders `train` and `test` (or `val`, `valid`, `validation`) if both exist, else the folder
    itself."""
    test = next((path / name for name in _TESTS if (path / name).is_dir()), None)
    return [path / "train", test] if (path / "train").is_dir() and test is not None else [path]


def class_names(path: Path) -> tuple[str, ...]:
    """Return the class names of a folder: the names of its subfolders, sorted. Raises ArchError (A1102)."""
    names = tuple(sorted(entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith(".")))
    if not 2 <= len(names) <= MAX_CLASSES:
        raise fail("A1102", f"{path} must have a folder for each of two or more classes, it has {len(names)}")
    return names


def _image_part(path: Path, classes: tuple[str, ...], size: tuple[int, int, int]) -> Part:
    """Return the images of one folder as a part; labels are indices into `classes`."""
    files, labels = [], []
    for label, name in enumerate(classes):
        folder = path / name
        class_files = (
            sorted(file for file in folder.iterdir() if file.suffix.lower() in _IMAGES) if folder.is_dir() else []
        )
        files += class_files
        labels += [label] * len(class_files)
    if not files:
        raise fail("A1102", f"there are no images in {path}")

    return image_part(
        EncodedImages(partial(_fetch, files), len(files), size), check_labels(str(path), np.array(labels))
    )
