"""Splits of data: stratification, limits, storage in runs, and lazily decoded images."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from archir.data.readers import digits, source
from archir.data.splits import stratified_rows
from archir.diagnostics.errors import ArchError
from archir.utils.seeds import permutation_stream
from archir_torch.data import load, pixels, record, verify


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.data(), st.integers(0, 9))
def test_stratified_rows_keep_class_proportions(labels: list[int], data: st.DataObject, seed: int) -> None:
    count = data.draw(st.integers(0, len(labels)))
    given = np.array(labels)
    rows = stratified_rows(given, count, seed, "test")
    assert len(rows) == count == len(set(rows.tolist()))
    assert rows.tolist() == sorted(rows.tolist())
    whole, drawn = np.bincount(given, minlength=5), np.bincount(given[rows], minlength=5)
    assert float(np.abs(drawn - whole * count / len(labels)).max()) <= 1 + 1e-6
    assert np.array_equal(rows, stratified_rows(given, count, seed, "test"))


@given(st.integers(0, 2**63 - 1), st.lists(st.integers(0, 300), max_size=4))
def test_permutations_equal_torch_randperm(seed: int, counts: list[int]) -> None:
    """Also one after the other: runs that were begun when torch drew them have the same splits."""
    drawn, known = permutation_stream(seed), torch.Generator().manual_seed(seed)
    for count in counts:
        assert drawn(count).tolist() == torch.randperm(count, generator=known).tolist()


def test_halves_are_disjoint_and_cover_training_rows() -> None:
    data = load("digits", (1, 8, 8), seed=3)
    one, other = data.halves()
    assert (len(one), len(other)) == (719, 719)
    assert one.rows is not None
    assert other.rows is not None
    assert data.train.rows is not None
    assert sorted([*one.rows.tolist(), *other.rows.tolist()]) == data.train.rows.tolist()
    whole, _ = everything()
    torch.testing.assert_close(one.images * data.std[0] + data.mean[0], whole[one.rows])
    assert torch.equal(one.labels, data.halves()[0].labels)
    assert not torch.equal(one.rows, load("digits", (1, 8, 8), seed=4).halves()[0].rows)
    assert len(load("digits", (1, 8, 8), weights=0.25).halves()[0]) == 360


def everything() -> tuple[Tensor, Tensor]:
    with np.load(Path(digits.__file__).parent / "digits.npz") as arrays:
        return torch.from_numpy(arrays["images"]).float()[:, None] / 16, torch.from_numpy(arrays["labels"])


def test_limit_and_class_count_select_balanced_subset() -> None:
    data = load("digits", (1, 8, 8), limit=50, classes=3)
    assert (len(data.train), len(data.held_out), len(data.classes)) == (50, 50, 3)
    assert sorted(torch.bincount(data.train.labels).tolist()) == [16, 17, 17]
    whole, labels = everything()
    assert data.train.rows is not None
    assert [data.classes[label] for label in data.train.labels] == [str(int(labels[r])) for r in data.train.rows]
    torch.testing.assert_close(data.train.images * data.std[0] + data.mean[0], whole[data.train.rows])
    drawn = {load("digits", (1, 8, 8), limit=50, classes=3, seed=seed).classes for seed in range(8)}
    assert len(drawn) > 4


@pytest.mark.parametrize("options", [{"limit": 0}, {"classes": 1}, {"classes": 11}])
def test_rejects_impossible_limits_and_class_counts(options: dict[str, int]) -> None:
    with pytest.raises(ArchError, match="A1113"):
        load("digits", (1, 8, 8), limit=options.get("limit"), classes=options.get("classes"))
    with pytest.raises(ArchError, match=r"A1113.*a half without samples"):
        load("digits", (1, 8, 8), limit=4, weights=0.01).halves()


def test_stored_splits_detect_changed_data() -> None:
    data = load("digits", (1, 8, 8))
    first = {"weights": data.halves()[0], "held out": data.held_out}
    stored = record("digits", 1, first)
    assert stored["splits"]["weights"]["images"] == 719
    verify(stored, "digits", 1, first)
    with pytest.raises(ArchError, match=r"A1114.*splits weights that"):
        verify(stored, "digits", 1, {**first, "weights": data.halves()[1]})
    with pytest.raises(ArchError, match=r"A1114.*seed 1 that"):
        verify(stored, "digits", 2, first)
    with pytest.raises(ArchError, match=r"A1114.*splits weights, held out that"):
        verify({}, "digits", 1, first)


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for i in range(10):
            Image.fromarray(rng.integers(0, 256, (9, 7, 3), np.uint8)).save(tmp_path / name / f"{i}.png")
    return tmp_path


def test_lazy_images_equal_eager_images(photographs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = str(photographs)
    kept = load(source, (3, 8, 8))
    assert isinstance(kept.train.pixels, Tensor)
    monkeypatch.setattr(pixels, "MAX_FLOAT_BYTES", 0)
    bytewise = load(source, (3, 8, 8))
    monkeypatch.setattr(pixels, "MAX_STORED_BYTES", 0)
    lazy = load(source, (3, 8, 8))
    rows = torch.tensor([5, 0, 0, 15])
    for data, raw in ((bytewise, Tensor), (lazy, pixels.RowSubset)):
        assert isinstance(data.train.pixels, pixels.Normalised)
        assert isinstance(data.train.pixels.raw, raw)
        assert data.mean == kept.mean
        assert data.std == kept.std
        torch.testing.assert_close(data.train.pixels[rows], kept.train.images[rows])
        torch.testing.assert_close(data.held_out.to("cpu").images, kept.held_out.images)
        one, same = data.halves()[1], kept.halves()[1]
        torch.testing.assert_close(one.to("cpu").images, same.images)


def test_lazy_images_are_decoded_on_access_only(photographs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "MAX_STORED_BYTES", 0)
    monkeypatch.setattr(pixels, "_STATISTICS_ROWS", 4)
    read: list[str] = []
    decode = source.decode_image

    def counting(name: str, *arguments: Any) -> NDArray[np.uint8]:
        read.append(name)
        return decode(name, *arguments)

    monkeypatch.setattr(source, "decode_image", counting)
    data = load(str(photographs), (1, 4, 4))
    assert len(read) == 4
    assert data.train.pixels[torch.tensor([3, 1])].shape == (2, 1, 4, 4)
    assert len(read) == 6


def test_normalization_uses_training_part_only() -> None:
    data = load("digits", (1, 8, 8))
    assert len(everything()[0]) == 1797 == len(data.train) + len(data.held_out)
    assert data.train.rows is not None
    pixels_of_training = everything()[0][data.train.rows]
    assert data.mean[0] == pytest.approx(float(pixels_of_training.mean()))
    assert data.std[0] == pytest.approx(float(pixels_of_training.std()))


def test_rejects_image_with_enormous_claimed_size(photographs: Path) -> None:
    content = bytearray((photographs / "cat" / "0.png").read_bytes())
    content[16:24] = (200_000).to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    (photographs / "cat" / "0.png").write_bytes(content)
    with pytest.raises(ArchError, match=r"A1104.*0\.png"):
        load(str(photographs), (3, 8, 8))
