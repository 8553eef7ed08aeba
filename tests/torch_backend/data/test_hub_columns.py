"""Hub data sets of texts, tokens, sounds, arrays and tables, mostly through a stand-in for the `datasets` package."""

from __future__ import annotations

import io
import wave
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import archir
from archir.data.inputs import Inputs, inputs_of
from archir.data.readers import hf
from archir.diagnostics.errors import ArchError
from archir_torch.data import Data, load


class Feature:
    """Of a column; `names` are those of classes."""

    def __init__(self, names: Sequence[str] = (), decode: bool = True) -> None:
        self.names, self.decode = list(names), decode


class ClassLabel(Feature):
    dtype = "int64"


class Audio(Feature):
    pass


class Image(Feature):
    pass


class Table:
    """A part of a data set, as the package has it."""

    def __init__(self, columns: Mapping[str, Sequence[Any]], features: Mapping[str, Feature]) -> None:
        self.columns = columns
        self.features = {name: features.get(name, Feature()) for name in columns}

    def select_columns(self, names: Sequence[str]) -> Table:
        return Table({name: self.columns[name] for name in names}, self.features)

    def cast_column(self, name: str, feature: Feature) -> Table:
        assert not feature.decode
        return Table(self.columns, {**self.features, name: feature})

    def __getitem__(self, name: str) -> Sequence[Any]:
        assert not isinstance(self.features[name], Audio) or not self.features[name].decode
        return self.columns[name]


def given(
    monkeypatch: pytest.MonkeyPatch, parts: Mapping[str, Mapping[str, Sequence[Any]]], **features: Feature
) -> None:
    """Let `hf:NAME` be these parts."""
    loaded = {name: Table(columns, features) for name, columns in parts.items()}
    package = SimpleNamespace(
        load_dataset=lambda name, configuration: loaded, ClassLabel=ClassLabel, Audio=Audio, Image=Image
    )
    monkeypatch.setattr(hf, "require_package", lambda *_: package)


def taking(inputs: str) -> Inputs:
    return inputs_of(archir.loads(f"net n {{\n {inputs}\n output y = x\n}}").graph)


def arrays(data: Data, name: str = "x") -> Any:
    one = data.train.inputs[name]
    return one[torch.arange(len(data.train))]


TEXTS = {"text": ["good", "bad", "a very long text"] * 4, "label": [1, 0, 1] * 4}


def test_labeled_texts_become_padded_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes, cut off or filled up with zeros; classes have the names of the data set."""
    given(monkeypatch, {"train": TEXTS, "test": TEXTS}, label=ClassLabel(["no", "yes"]))
    data = load("hf:reviews#label", taking("input x: i64[6]"))
    assert data.classes == ("no", "yes")
    assert arrays(data)[:3].tolist() == [[*b"good", 0, 0], [*b"bad", 0, 0, 0], [*b"a very"]]
    assert data.train.labels.tolist() == TEXTS["label"]
    assert len(data.held_out) == 12


@pytest.mark.parametrize("target", ["", "#text"])
def test_texts_without_target_are_joined_for_next_byte_prediction(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, {"train": {"text": ["one two", "three"]}, "validation": {"text": ["four five six"]}})
    data = load(f"hf:books{target}", taking("input x: i64[4]"))
    assert bytes(arrays(data).flatten().tolist()) == b"one two\nthre"
    assert bytes(data.train.labels.flatten().tolist()) == b"ne two\nthree"
    assert len(data.held_out) == 3


def test_tokens_and_tags_are_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tags of tokens that there are not count nowhere."""
    tagged = {"ids": [[5, 6, 7], [8]] * 5, "tags": [[1, 0, 2], [1]] * 5}
    given(monkeypatch, {"train": tagged, "test": tagged})
    data = load("hf:tagged#tags", taking("input x: i64[2]"))
    assert arrays(data)[:2].tolist() == [[5, 6], [8, 0]]
    assert data.train.labels[:2].tolist() == [[1, 0], [1, -1]]
    given(monkeypatch, {"train": {"ids": [[1, 2, 3], [4, 5]] * 4}})
    assert arrays(load("hf:ids", taking("input x: i64[2]")))[:2].tolist() == [[1, 2], [3, 4]]


def sound(rate: int, values: Sequence[float]) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.array(values) * 32768).astype("<i2").tobytes())
    return stream.getvalue()


def test_sounds_are_decoded_and_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoded ones, and arrays; as long as the net's input, and all of one rate."""
    files = {"audio": [{"bytes": sound(8000, [0.5, -0.25]), "path": None}] * 6, "word": ["yes", "no"] * 3}
    given(monkeypatch, {"train": files, "test": files}, audio=Audio())
    data = load("hf:commands#word", taking("input x: f32[3, 1]"))
    assert data.classes == ("no", "yes")
    assert data.train.labels.tolist() == [1, 0] * 3
    heard = arrays(data) * torch.tensor(data.std) + torch.tensor(data.mean)
    assert heard[0, :, 0].tolist() == pytest.approx([0.5, -0.25, 0.0], abs=1e-6)
    numbers = {**files, "audio": [{"array": [0.5, -0.25, 1.0, 2.0], "sampling_rate": 16}] * 6}
    given(monkeypatch, {"train": numbers})
    heard = arrays(data := load("hf:commands#word", taking("input x: f32[3]")))
    heard = heard * torch.tensor(data.std) + torch.tensor(data.mean)
    assert heard[0].tolist() == pytest.approx([0.5, -0.25, 1.0], abs=1e-6)
    mixed = {**files, "audio": [{"bytes": sound(rate, [0.5])} for rate in (8000, 16000)] * 3}
    given(monkeypatch, {"train": mixed}, audio=Audio())
    with pytest.raises(ArchError, match=r"A1102.*different rates: 8000 Hz in sound 0 of `audio` of hf:commands, 16000"):
        load("hf:commands#word", taking("input x: f32[3]"))


def test_columns_are_matched_to_inputs_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"left": [[1.0, 2.0], [3.0, 4.0]] * 5, "right": [[7.0], [9.0]] * 5, "price": [0.5, 1.5] * 5}
    given(monkeypatch, {"train": rows})
    two = inputs_of(archir.loads("net n {\n input left: f32[2]\n input right: f32[1]\n output y = left\n}").graph)
    data = load("hf:pairs#price", two)
    assert {name: list(one[torch.arange(2)].shape) for name, one in data.train.inputs.items()} == {
        "left": [2, 2], "right": [2, 1],
    }  # fmt: skip
    assert set(data.train.labels.tolist()) == {0.5, 1.5}
    scalars = {"rooms": [1, 2, 3, 4] * 3, "town": ["a", "b", "a", "c"] * 3, "price": [1.0, 2.5, 3.0, 4.0] * 3}
    given(monkeypatch, {"train": scalars})
    assert arrays(load("hf:houses#price", taking("input x: f32[4]"))).shape[1:] == (4,)


@pytest.mark.parametrize(
    ("source", "inputs", "said"),
    [
        ("hf:set#lable", "input x: i64[4]", r"has no column `lable`.*did you mean `label`"),
        ("hf:set#label", "input x: i64[4]\n input other: i64[4]", r"no column for the input `x`"),
        ("hf:set#label", "input text: f32[4]", r"holds no numbers"),
        ("hf:set", "input x: f32[3]", r"needs targets and inputs"),
        ("hf:ragged#label", "input x: f32[2]", r"rows of `ids` of hf:ragged have different shapes"),
    ],
)
def test_rejects_columns_that_do_not_fit_inputs(
    source: str, inputs: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ragged = {"ids": [[1.0, 2.0], [3.0]] * 6, "label": [0, 1] * 6}
    given(monkeypatch, {"train": ragged if "ragged" in source else TEXTS})
    with pytest.raises(ArchError, match=f"(?s)A1102.*{said}"):
        load(source, inputs_of(archir.loads(f"net n {{\n {inputs}\n output y = {inputs.split()[1][:-1]}\n}}").graph))


def test_real_datasets_package_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="the package `datasets` is not installed")
    audio = [{"bytes": sound(8000, [0.5, -0.25]), "path": None}] * 12
    made = datasets.Dataset.from_dict({**TEXTS, "audio": audio})
    made = made.cast_column("label", datasets.ClassLabel(names=["no", "yes"])).cast_column("audio", datasets.Audio())
    made.save_to_disk(tmp_path / "saved")
    data = load(f"hf:{tmp_path / 'saved'}#label", taking("input x: i64[6]"))
    assert data.classes == ("no", "yes")
    assert len(data.train) + len(data.held_out) == 12
    heard = load(f"hf:{tmp_path / 'saved'}#label", taking("input x: f32[3, 1]"))
    assert arrays(heard).shape[1:] == (3, 1)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([{"y": [[1.0]], "label": [1]}, {"y": [[1.0]]}], "the held-out part of d has no column `label`"),
        ([{"y": [[1.0]], "label": [1]}, {"label": [1]}], "needs targets and inputs"),
        ([{"y": [], "label": []}], "a part of d has no rows"),
        ([{"y": [[1.0]]}, {"z": [[1.0]]}], "share no column|has no column"),
    ],
)
def test_rejects_parts_with_missing_columns(parts: list[dict[str, list[Any]]], said: str) -> None:
    space = archir.loads("net n() { input y: f32[1]\n output z = y |> linear(2) }")
    targets = ["label"] if "label" in parts[0] else []
    with pytest.raises(ArchError, match=said):
        hf.source_of_columns(parts, inputs_of(space.graph), targets, {}, "d")


def test_tokens_beyond_64_bits_are_refused() -> None:
    with pytest.raises(ArchError, match=r"A1102.*beyond 64 bits"):
        hf._token_ids([1, 2**70], "`y` of d")
