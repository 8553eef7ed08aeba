"""Images from the bundled digits, .npz files and folders."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from archir.diagnostics.errors import ArchError
from archir_torch.data import Data, load


def test_digits_are_split_and_normalized() -> None:
    data = load("digits", (3, 16, 16))
    assert (len(data.train), len(data.held_out)) == (1438, 359)
    assert data.train.images.shape[1:] == (3, 16, 16)
    assert abs(float(data.train.images.mean())) < 1e-3
    counts = torch.bincount(data.held_out.labels, minlength=10) / torch.bincount(data.train.labels, minlength=10)
    assert float((counts - 0.25).abs().max()) < 0.02


def test_held_out_digits_do_not_depend_on_seed() -> None:
    one, other = (load("digits", (1, 8, 8), seed=seed) for seed in (1, 2))
    assert torch.equal(one.held_out.images, other.held_out.images)
    assert torch.equal(one.held_out.labels, other.held_out.labels)


@pytest.mark.parametrize("shape", [(20, 6, 6), (20, 1, 6, 6), (20, 6, 6, 1), (20, 3, 6, 6), (20, 6, 6, 3)])
def test_npz_layouts_are_recognized(shape: tuple[int, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, shape, dtype=np.uint8), np.arange(20) % 4
    np.savez(tmp_path / "one.npz", images=images, labels=labels)
    data = load(str(tmp_path / "one.npz"), (3, 6, 6))
    assert data.train.images.shape == (16, 3, 6, 6)
    assert data.classes == ("0", "1", "2", "3")
    np.savez(tmp_path / "two.npz", x_train=images, y_train=labels, x_test=images[:5], y_test=labels[:5])
    parts = load(str(tmp_path / "two.npz"), (1, 12, 12))
    assert (len(parts.train), len(parts.held_out)) == (20, 5)
    assert parts.train.images.shape[1:] == (1, 12, 12)


def test_byte_and_float_images_load_equally(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (10, 4, 4), dtype=np.uint8)
    labels = np.arange(10) % 2
    np.savez(tmp_path / "bytes.npz", images=images, labels=labels)
    np.savez(tmp_path / "floats.npz", images=images / 255, labels=labels)
    one, other = (load(str(tmp_path / name), (1, 4, 4)) for name in ("bytes.npz", "floats.npz"))
    assert torch.allclose(one.train.images, other.train.images, atol=1e-5)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"a": np.zeros(3)},
            r"has the arrays a\n  hint: it needs x_train, y_train, x_test and y_test, or images and labels",
        ),
        (
            {"images": np.zeros((3, 4, 4)), "labels": np.zeros(2, int)},
            "has 3 of `image` and 2 of `target`: every sample has one of each",
        ),
        ({"images": np.zeros((3, 4, 4)), "labels": np.zeros(3)}, "`labels` must hold integers from 0, got float64"),
        (
            {"images": np.zeros((3, 2, 4, 4)), "labels": np.zeros(3, int)},
            r"the input `image` is f32\[1, 4, 4\], but .* has shape \[3, 2, 4, 4\]",
        ),
    ],
)
def test_rejects_invalid_npz_arrays(arrays: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ArchError, match=rf"A110[23].*{message}"):
        load(str(tmp_path / "bad.npz"), (1, 4, 4))


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "evil.npz", images=np.array([{"a": 1}], dtype=object), labels=np.zeros(1, int))
    with pytest.raises(ArchError, match="A1101"):
        load(str(tmp_path / "evil.npz"), (1, 4, 4))
    (tmp_path / "no.npz").write_bytes(b"nothing")
    with pytest.raises(ArchError, match="A1101"):
        load(str(tmp_path / "no.npz"), (1, 4, 4))


def folder(path: Path, count: int = 5) -> Path:
    for label, name in enumerate(("cat", "dog")):
        (path / name).mkdir(parents=True)
        for i in range(count):
            Image.fromarray(np.full((9, 7, 3), 100 * label + i, np.uint8)).save(path / name / f"{i}.png")
    return path


def test_image_folders_are_read_as_classes_and_parts(tmp_path: Path) -> None:
    data = load(str(folder(tmp_path / "one")), (3, 8, 8))
    assert (data.classes, len(data.train), len(data.held_out)) == (("cat", "dog"), 8, 2)
    folder(tmp_path / "two" / "train", 4)
    folder(tmp_path / "two" / "val", 2)
    parts = load(str(tmp_path / "two"), (1, 8, 8))
    assert (len(parts.train), len(parts.held_out), parts.train.images.shape[1:]) == (8, 4, (1, 8, 8))


def test_folder_above_the_classes_gets_a_hint(tmp_path: Path) -> None:
    folder(tmp_path / "photos")
    wanted = re.escape(f"did you mean {tmp_path / 'photos'}, which has folders of images?")
    with pytest.raises(ArchError, match=rf"A1102.*it has 1\n.*{wanted}"):
        load(str(tmp_path), (3, 8, 8))
    (tmp_path / "work").mkdir()
    with pytest.raises(ArchError, match=rf"A1102.*there are no images in .*\n.*{wanted}"):
        load(str(tmp_path), (3, 8, 8))
    folder(tmp_path / "more")
    with pytest.raises(ArchError, match="there are no images") as caught:
        load(str(tmp_path), (3, 8, 8))
    assert caught.value.diagnostics[0].hint is None


def test_rejects_missing_empty_and_damaged_image_folders(tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=r"A1101.*there is no file or folder(.|\n)*begins with csv, hf, idx, images,"):
        load(str(tmp_path / "none"), (3, 8, 8))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArchError, match=r"A1102.*a folder for each of two or more classes, it has 0"):
        load(str(tmp_path / "empty"), (3, 8, 8))
    bad = folder(tmp_path / "bad") / "cat" / "9.png"
    bad.write_bytes(b"no image")
    with pytest.raises(ArchError, match=r"A1104.*9\.png cannot be decoded as an image"):
        load(str(tmp_path / "bad"), (3, 8, 8))
    with pytest.raises(ArchError, match=r"A1103.*5 channels"):
        load("digits", (5, 8, 8))


def test_empty_data_has_length_zero() -> None:
    assert len(Data.empty().train) == 0
