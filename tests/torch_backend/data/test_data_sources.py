"""IDX and Parquet files, data sets of the hub, and what is damaged or hostile about files."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import archir
from archir.data.inputs import as_inputs
from archir.data.readers import parquet, source
from archir.data.readers.source import require_package
from archir.diagnostics.errors import ArchError
from archir_torch.data import load

RNG = np.random.default_rng(0)
X, Y = RNG.integers(0, 256, (30, 6, 5), np.uint8), (np.arange(30) % 3).astype(np.uint8)


def idx(array: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def idx_folder(folder: Path, packed: bool) -> Path:
    folder.mkdir()
    for part, count in (("train", 30), ("t10k", 9)):
        for name, array in ((f"{part}-images-idx3-ubyte", X), (f"{part}-labels-idx1-ubyte", Y)):
            content = idx(array[:count])
            (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)
    return folder


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("prefix", ["", "idx:"])
def test_idx_files_are_read(packed: bool, prefix: str, tmp_path: Path) -> None:
    data = load(f"{prefix}{idx_folder(tmp_path / 'idx', packed)}", (1, 6, 5))
    assert (len(data.train), len(data.held_out), data.classes) == (30, 9, ("0", "1", "2"))
    pixels = data.train.images * data.std[0] + data.mean[0]
    torch.testing.assert_close(pixels[:, 0], torch.from_numpy(X) / 255)
    assert data.held_out.labels.tolist() == Y[:9].tolist()


def header(*dims: int, kind: int = 8, rank: int | None = None) -> bytes:
    return struct.pack(f">BBBB{len(dims)}I", 0, 0, kind, len(dims) if rank is None else rank, *dims)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"A1101.*ends 4 bytes early"),
        (b"nothing at all", r"A1101.*begins with 6e 6f 74 68, not with 00 00 08 03"),
        (header(2, 2, kind=8), r"A1101.*begins with 00 00 08 02"),
        (header(2, 6, 5, kind=13), r"A1101.*begins with 00 00 0d 03"),
        (header(2, 6), r"A1101"),
        (idx(X)[:-1], r"A1101.*(ends 1 bytes early|too small)"),
        (idx(X) + b"!", r"A1101.*more than the \[30, 6, 5\] bytes"),
        (header(2**32 - 1, 2**32 - 1, 2**32 - 1), r"A1101.*too small"),
        (header(30, 0, 5), r"A1102.*shape \[30, 0, 5\]"),
        (idx(X[:29]), r"A1102.*shape \[29, 6, 5\], and .* 30 labels"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_rejects_wrong_idx_files(content: bytes, message: str, packed: bool, tmp_path: Path) -> None:
    folder = idx_folder(tmp_path / "idx", packed)
    name = folder / ("train-images-idx3-ubyte" + ".gz" * packed)
    name.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(ArchError, match=message):
        load(str(folder), (1, 6, 5))


def test_rejects_damaged_gzip_and_missing_files(tmp_path: Path) -> None:
    folder = idx_folder(tmp_path / "idx", True)
    file = folder / "train-images-idx3-ubyte.gz"
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 8
    for content in (whole[:-20], whole[: len(whole) // 2], b"not gzip", bytes(flipped)):
        file.write_bytes(content)
        with pytest.raises(ArchError, match="A1101"):
            load(str(folder), (1, 6, 5))
    file.unlink()
    with pytest.raises(ArchError, match=r"A1101.*there is no train-images-idx\*-ubyte"):
        load(str(folder), (1, 6, 5))
    with pytest.raises(ArchError, match=r"A1101.*no file or folder"):
        load("idx:/nowhere/at/all", (1, 6, 5))


def hostile_npz(path: Path, descr: str, shape: tuple[int, ...], content: bytes) -> str:
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content)
        labels = io.BytesIO()
        np.save(labels, np.zeros(2, int))
        archive.writestr("labels.npy", labels.getvalue())
    return str(path)


def test_npz_headers_are_not_believed(tmp_path: Path) -> None:
    for shape in ((2**40, 8, 8), (2, 8, 2**55), (2, -8, -8)):
        with pytest.raises(ArchError, match=r"A1101.*`images\.npy` (claims to hold|is not an array)"):
            load(hostile_npz(tmp_path / "a.npz", "|u1", shape, bytes(128)), (1, 8, 8))
    assert len(load(hostile_npz(tmp_path / "b.npz", "|u1", (2, 8, 8), bytes(128)), (1, 8, 8)).train) == 1


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.full((4, 2, 2), np.nan), np.arange(4), "not finite"),
        (np.zeros((4, 2, 2), complex), np.arange(4), "holds complex128"),
        (np.zeros((4, 2, 2)), np.array([0, 1, 2, 10**12]), "from 0 to 99999, got 1000000000000"),
        (np.zeros((4, 2, 2)), np.array([0, -1, 2, 1]), "got -1"),
        (np.zeros((0, 2, 2)), np.zeros(0, int), "has 0 samples"),
        (np.float64(1), np.zeros(1, int), "has 0 samples"),
    ],
)
def test_rejects_invalid_image_and_label_arrays(images: Any, labels: Any, message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=images, labels=labels)
    with pytest.raises(ArchError, match=f"A110[23].*{message}"):
        load(f"npz:{tmp_path / 'a.npz'}", (1, 2, 2))


def png(array: NDArray[np.uint8]) -> bytes:
    content = io.BytesIO()
    Image.fromarray(array).save(content, "PNG")
    return content.getvalue()


@pytest.fixture
def arrow() -> tuple[ModuleType, ModuleType]:
    return pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")


def table(arrow: tuple[ModuleType, ModuleType], rows: slice, labels: Any = None, **columns: Any) -> Any:
    images = [{"bytes": png(x), "path": None} for x in X[rows]]
    named = {"img": images, "label": (Y[rows] if labels is None else labels), **columns}
    return arrow[0].table(named)


def test_parquet_files_are_read_with_class_names(arrow: tuple[ModuleType, ModuleType], tmp_path: Path) -> None:
    info = {"info": {"features": {"label": {"names": ["a", "b", "c"], "_type": "ClassLabel"}}}}
    (tmp_path / "data").mkdir()
    files = {"train-00000-of-2": slice(0, 12), "train-00001-of-2": slice(12, 21), "test-0": slice(21, 30)}
    for name, rows in files.items():
        made = table(arrow, rows).replace_schema_metadata({"huggingface": json.dumps(info)})
        arrow[1].write_table(made, tmp_path / "data" / f"{name}.parquet", row_group_size=5)
    for name in (f"parquet:{tmp_path}", str(tmp_path)):
        data = load(name, (1, 6, 5))
        assert (len(data.train), len(data.held_out), data.classes) == (21, 9, ("a", "b", "c"))
        pixels = data.train.images * data.std[0] + data.mean[0]
        torch.testing.assert_close(pixels[:, 0], torch.from_numpy(X[:21]) / 255, atol=1e-6, rtol=0)
        assert data.held_out.labels.tolist() == Y[21:].tolist()
    alone = load(str(tmp_path / "data" / "train-00000-of-2.parquet"), (1, 6, 5))
    assert (len(alone.train), len(alone.held_out)) == (9, 3)


def test_shuffled_batches_of_a_parquet_file_read_each_row_group_once(
    arrow: tuple[ModuleType, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrow[1].write_table(table(arrow, slice(0, 30)), tmp_path / "train.parquet", row_group_size=2)
    (images,) = parquet.read(str(tmp_path / "train.parquet"), as_inputs((1, 6, 5))).train.inputs.values()
    read: list[int] = []
    plain = parquet._ImageTable._read
    monkeypatch.setattr(parquet._ImageTable, "_read", lambda self, *asked: read.append(asked[0]) or plain(self, *asked))
    order = np.random.default_rng(0).permutation(30)
    first = [images[rows] for rows in np.split(order, 10)]
    assert sorted(read) == list(range(15))
    monkeypatch.setattr(parquet, "MAX_CACHED_BYTES", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for _ in range(2):
        (images,) = parquet.read(str(tmp_path / "train.parquet"), as_inputs((1, 6, 5))).train.inputs.values()
        read.clear()
        again = [images[rows] for rows in np.split(order, 10)]
        assert read == []  # from a copy, image by image
        assert len([*(tmp_path / "cache").rglob("*.arrow")]) == 1
        assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))


def test_large_parquet_file_that_fits_on_no_disk_is_refused(
    arrow: tuple[ModuleType, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrow[1].write_table(table(arrow, slice(0, 30)), tmp_path / "train.parquet")
    monkeypatch.setattr(parquet, "MAX_CACHED_BYTES", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(ArchError, match=r"A1101.*copied once.*XDG_CACHE_HOME"):
        load(str(tmp_path / "train.parquet"), (1, 6, 5))
    assert not [*(tmp_path / "cache").rglob("*.arrow")]


def test_parquet_label_column_is_selected_by_name(arrow: tuple[ModuleType, ModuleType], tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    arrow[1].write_table(table(arrow, slice(0, 30), fine=np.arange(30) % 10), path)
    assert len(load(f"parquet:{path}", (1, 6, 5)).classes) == 3
    assert len(load(f"parquet:{path}#fine", (1, 6, 5)).classes) == 10
    with pytest.raises(ArchError, match=r"A1102.*no column of integers `fin`\n.*did you mean `fine`"):
        load(f"parquet:{path}#fin", (1, 6, 5))
    arrow[1].write_table(arrow[0].table({"x": [b"a"], "one": [1], "two": [2]}), path)
    with pytest.raises(ArchError, match=r"A1102.*which column of .* holds labels\? `one` and `two`\n.*#one"):
        load(str(path), (1, 6, 5))
    arrow[1].write_table(arrow[0].table({"label": [1]}), path)
    with pytest.raises(ArchError, match=r"A1102.*has 0 columns of images"):
        load(str(path), (1, 6, 5))


def test_rejects_wrong_parquet_labels_and_images(arrow: tuple[ModuleType, ModuleType], tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    for labels, message in (([0, None], "lacks labels"), ([0, -1], "got -1"), ([0, 200_000], "got 200000")):
        arrow[1].write_table(table(arrow, slice(0, 2), labels), path)
        with pytest.raises(ArchError, match=f"A110[23].*{message}"):
            load(str(path), (1, 6, 5))
    no_bytes = arrow[0].struct([("bytes", arrow[0].binary()), ("path", arrow[0].string())])
    images = arrow[0].array([{"bytes": None, "path": "a.png"}] * 4, no_bytes)
    arrow[1].write_table(arrow[0].table({"image": images, "label": [0, 0, 1, 1]}), path)
    with pytest.raises(ArchError, match=r"A1104.*image \d of .* has no bytes"):
        load(str(path), (1, 6, 5))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArchError, match=r"A1101.*there is no Parquet file"):
        load(f"parquet:{tmp_path / 'empty'}", (1, 6, 5))


def test_damaged_parquet_is_a_diagnostic_or_harmless(arrow: tuple[ModuleType, ModuleType], tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    arrow[1].write_table(table(arrow, slice(0, 30)), path)
    whole = path.read_bytes()
    rng = random.Random(0)
    codes = []
    for _ in range(60):
        content = bytearray(whole)
        if rng.random() < 0.3:
            content = content[: rng.randrange(len(content))]
        else:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        try:
            load(f"parquet:{path}", (1, 6, 5))
        except ArchError as error:
            codes.append(error.diagnostics[0].code)
    assert len(codes) > 20
    assert set(codes) <= {"A1101", "A1102", "A1104"}


def test_a_missing_package_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def none(name: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named '{name}'")

    monkeypatch.setattr(source.importlib, "import_module", none)
    with pytest.raises(ArchError, match=r"A1112.*Parquet needs the package `pyarrow`.*\n.*'archir\[data\]'"):
        load(f"parquet:{tmp_path}", (3, 8, 8))
    hint = r"'archir\[datasets\]'; `parquet:FOLDER` reads a local copy"
    with pytest.raises(ArchError, match=rf"A1112.*hub of Hugging Face needs the package `datasets`.*\n.*{hint}"):
        load("hf:uoft-cs/cifar10", (3, 8, 8))
    monkeypatch.undo()
    assert require_package("json", "data", "a test") is json


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return pytest.importorskip("datasets")


def test_saved_hub_dataset_is_read(hub: Any, tmp_path: Path) -> None:
    features = hub.Features(
        {"image": hub.Image(), "label": hub.ClassLabel(names=["a", "b", "c"]), "fine": hub.Value("int64")}
    )
    parts = {}
    for name, rows in (("train", slice(0, 21)), ("validation", slice(21, 30))):
        images = [{"bytes": png(x), "path": None} for x in X[rows]]
        columns = {"image": images, "label": Y[rows].tolist(), "fine": (Y[rows] % 2).tolist()}
        parts[name] = hub.Dataset.from_dict(columns, features=features)
    hub.DatasetDict(parts).save_to_disk(tmp_path / "saved")
    data = load(f"hf:{tmp_path / 'saved'}", (1, 6, 5))
    assert (len(data.train), len(data.held_out), data.classes) == (21, 9, ("a", "b", "c"))
    pixels = data.train.images * data.std[0] + data.mean[0]
    torch.testing.assert_close(pixels[:, 0], torch.from_numpy(X[:21]) / 255, atol=1e-6, rtol=0)
    assert load(f"hf:{tmp_path / 'saved'}#fine", (1, 6, 5)).classes == ("0", "1")
    parts["train"].save_to_disk(tmp_path / "alone")
    assert len(load(f"hf:{tmp_path / 'alone'}", (1, 6, 5)).train) == 18
    with pytest.raises(ArchError, match=r"A1102.*no column of integers `lable`"):
        load(f"hf:{tmp_path / 'saved'}#lable", (1, 6, 5))
    hub.DatasetDict({"other": parts["train"]}).save_to_disk(tmp_path / "other")
    with pytest.raises(ArchError, match=r"A1102.*no part `train`, but `other`"):
        load(f"hf:{tmp_path / 'other'}", (1, 6, 5))


def test_rejects_missing_hub_dataset(hub: Any, tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=r"A1101.*hf:\./none/of/these"):
        load("hf:./none/of/these", (1, 6, 5))


def test_tables_of_one_part_have_the_same_columns(tmp_path: Path) -> None:
    (tmp_path / "train1.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "train2.csv").write_text("a,c\n5,6\n")
    net = archir.loads("net n {\n    input row: f32[1]\n    output price = row |> linear(1)\n}").graph
    with pytest.raises(ArchError, match=r"A1102.*columns of .*train2.csv are not those of .*train1.csv"):
        archir.train(net, data=f"csv:{tmp_path}#b")
