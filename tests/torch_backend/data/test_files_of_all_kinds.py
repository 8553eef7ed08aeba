"""Tables, series, texts, sounds and masks, as files."""

from __future__ import annotations

import itertools
import wave
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import archir
from archir.data.inputs import Inputs, inputs_of
from archir.data.readers.source import Part, Source
from archir.diagnostics.errors import ArchError
from archir_torch.data import Split, load

TABLE = "size,town,price,sold\n" + "".join(
    f"{40 + i},{'Ulm' if i % 3 else 'Bonn'},{1000.5 + 3 * i},{i % 2}\n" for i in range(20)
)


def taking(text: str) -> Inputs:
    return inputs_of(archir.loads(f"net n {{ \n input x: {text}\n output y = x |> identity \n }}").graph)


def test_csv_table_encodes_words_and_several_targets(tmp_path: Path) -> None:
    path = tmp_path / "houses.csv"
    path.write_text(TABLE)
    data = load(f"{path}#price", taking("f32[4]"))  # size, Bonn, Ulm, sold
    assert data.train.labels.dtype == torch.float32
    assert (len(data.train), len(data.held_out)) == (16, 4)
    both = load(f"csv:{path}#price,sold", taking("f32[3]"))
    assert both.train.labels.shape == (16, 2)
    town = load(f"{path}#town", taking("f32[3]"))
    assert (town.classes, town.train.labels.dtype) == (("Bonn", "Ulm"), torch.int64)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "train.csv").write_text(TABLE)
    (tmp_path / "parts" / "test.csv").write_text("\n".join(TABLE.split("\n")[:6]))
    parts = load(f"csv:{tmp_path / 'parts'}#sold", taking("f32[4]"))
    assert (len(parts.train), len(parts.held_out), parts.classes) == (20, 5, ("0", "1"))
    assert torch.equal(load(f"{tmp_path / 'parts'}#sold", taking("f32[4]")).train.labels, parts.train.labels)


def test_integer_columns_become_labels_only_when_plausible(tmp_path: Path) -> None:
    def table(cells: Iterable[object], name: str = "a.csv") -> str:
        (tmp_path / name).write_text("x,y\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells)))
        return f"csv:{tmp_path / name}#y"

    for cells, dtype, classes in (
        ([i % 3 for i in range(40)], torch.int64, ("0", "1", "2")),
        ([99_500 - i // 3 for i in range(200)], torch.int64, ()),
        ([f"{i % 3}.0" for i in range(40)], torch.float32, ()),
        ([2**60 * (i % 3) for i in range(40)], torch.float32, ()),
    ):
        data = load(table(cells), taking("f32[1]"))
        assert (data.train.labels.dtype, data.classes) == (dtype, classes)
    counts = table([*[i % 3 for i in range(40)], 9])
    assert load(counts, taking("f32[1]")).classes[-1] == "9"
    as_numbers = load(counts, taking("f32[1]"), labelled=False)
    assert as_numbers.classes == ()
    assert not torch.equal(as_numbers.held_out.labels, load(counts, taking("f32[1]")).held_out.labels)


def test_parts_of_a_table_have_targets_of_one_type(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("x,y\n" + "1,2\n3,4\n" * 9)
    (tmp_path / "test.csv").write_text("x,y\n1,2.5\n")
    data = load(f"csv:{tmp_path}#y", taking("f32[1]"))
    assert (data.train.labels.dtype, data.held_out.labels.dtype) == (torch.float32, torch.float32)


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (TABLE, "prise", "has no column `prise`\n.*did you mean `price`"),
        (TABLE, "", "needs targets and inputs"),
        (TABLE.replace("Ulm", ""), "price", "`town` is empty in row 3"),
        ("a,b\n1,2\n1\n", "a", "row 3 has 1 cells, not 2"),
        ("a,a\n1,2\n", "a", "two columns of .* have one name"),
        ("a,b\n", "a", "has no rows"),
        ("a,b\n1,nan\n2,3\n", "b", "`b` is not a finite number in row 2"),
    ],
)
def test_rejects_invalid_csv_tables(text: str, target: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ArchError, match=f"A1102.*{message}"):
        load(f"csv:{tmp_path / 'a.csv'}#{target}", taking("f32[1]"))


def test_parquet_table_is_read(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"a": np.arange(12.0), "b": ["x", "y"] * 6, "c": np.arange(12) % 2}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    data = load(f"{tmp_path / 'a.parquet'}#c", taking("f32[3]"))
    assert (data.classes, len(data.train)) == (("0", "1"), 10)


def test_texts_become_byte_windows_with_next_byte_targets(tmp_path: Path) -> None:
    text = "".join(map(chr, range(32, 127))) * 3
    (tmp_path / "a.txt").write_text(text)
    data = load(str(tmp_path / "a.txt"), taking("i64[8]"))
    assert data.train.images.dtype == torch.int64
    assert torch.equal(data.train.images[:, 1:], data.train.labels[:, :-1])
    assert bytes(data.train.images[0].tolist()).decode() == text[:8]
    whole = [*data.train.images.flatten().tolist(), *data.held_out.images.flatten().tolist()]
    assert sorted(set(whole)) == list(range(32, 127))
    assert bytes(data.held_out.images[0].tolist()).decode() == text[len(text) - len(text) // 5 :][:8]
    np.save(tmp_path / "ids.npy", np.arange(100) % 7)
    assert load(f"text:{tmp_path / 'ids.npy'}", taking("i32[8]")).train.images.dtype == torch.int32
    (tmp_path / "b.txt").write_text("abc")
    with pytest.raises(ArchError, match=r"A1102.*has 3 tokens in a part"):
        load(str(tmp_path / "b.txt"), taking("i64[8]"))
    with pytest.raises(ArchError, match=r"A1103.*`x` is f32\[8\], but .* holds tokens"):
        load(str(tmp_path / "a.txt"), taking("f32[8]"))


def test_series_become_windows_with_horizon_targets(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i * i},day{i}\n" for i in range(100))
    (tmp_path / "s.csv").write_text(f"a,b,name\n{rows}")
    data = load(f"series:{tmp_path / 's.csv'}#a@4", taking("f32[10, 2]"))
    assert data.train.labels.shape == (17, 4)
    assert data.train.labels[0].tolist() == [10, 11, 12, 13]
    assert data.held_out.labels[0].tolist() == [90, 91, 92, 93]
    both = load(f"series:{tmp_path / 's.csv'}@2", taking("f32[10, 2]"))
    assert both.train.labels.shape[1:] == (2, 2)
    for name, form, message in (
        ("#c", "f32[10, 2]", "A1102.*no column of numbers `c`"),
        ("#a@x", "f32[10, 2]", "A1102.*`x` is not a number of steps"),
        ("#a", "f32[10, 3]", "A1103.*has 2 columns of numbers"),
        ("#a", "f32[90, 2]", "A1102.*has 80 rows in a part"),
    ):
        with pytest.raises(ArchError, match=message):
            load(f"series:{tmp_path / 's.csv'}{name}", taking(form))


def test_halves_of_a_series_share_no_row_of_it(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("a\n" + "".join(f"{i}\n" for i in range(200)))
    for horizon, limit in ((1, None), (3, None), (1, 120)):
        data = load(f"series:{tmp_path / 's.csv'}@{horizon}", taking("f32[8, 1]"), limit=limit)
        parts = [*data.halves(), data.held_out]
        seen = [{row for first in firsts(part) for row in range(first - 8, first + horizon)} for part in parts]
        assert all(a.isdisjoint(b) for a, b in itertools.combinations(seen, 2))
        assert max(seen[0]) < min(seen[1])
        assert len(parts[1]) > len(data.train) // 3


def firsts(part: Split) -> list[int]:
    """The first row that is ahead of each window: rows are their own numbers."""
    return [int(row) for row in part.labels.reshape(len(part), -1)[:, 0]]


def test_series_parts_keep_minimum_gap() -> None:
    part = Part({"x": np.arange(40, dtype=np.float32)[:, None]}, {"y": np.arange(40, dtype=np.float32)})
    data = load(Source(part, None, (), min_gap=3), taking("f32[1]"))
    weights, validation = (half.labels.tolist() for half in data.halves())
    assert (weights, validation) == ([*range(16)], [*range(18, 32)])
    assert data.held_out.labels.tolist() == [*range(34, 40)]
    with pytest.raises(ArchError, match=r"A1113.*a half without"):
        load(Source(part, None, (), min_gap=8), taking("f32[1]"), weights=0.9).halves()


def sound(path: Path, samples: np.ndarray, rate: int = 8000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2").tobytes())


def test_sounds_are_as_long_as_the_input(tmp_path: Path) -> None:
    for label, name in enumerate(("high", "low")):
        for number in range(5):
            sound(tmp_path / name / f"{number}.wav", np.sin(np.arange(90 + 5 * number) / (2 + label)))
    data = load(f"wav:{tmp_path}", taking("f32[100, 1]"))
    assert data.classes == ("high", "low")
    raw = data.train.images * data.std[0] + data.mean[0]
    torch.testing.assert_close(raw[0, :90, 0], torch.sin(torch.arange(90) / 2), atol=1e-4, rtol=0)
    assert float(raw[0, 90:].abs().max()) < 1e-5
    sound(tmp_path / "low" / "9.wav", np.zeros(100), 16000)
    with pytest.raises(ArchError, match=r"A1102.*different rates: 8000 Hz in .*, 16000 Hz in"):
        load(f"wav:{tmp_path}", taking("f32[100]"))
    (tmp_path / "low" / "9.wav").write_bytes(b"RIFF")
    with pytest.raises(ArchError, match=r"A1101.*9\.wav"):
        load(f"wav:{tmp_path}", taking("f32[100]"))


def test_masks_are_paired_with_images(tmp_path: Path) -> None:
    for name in ("images", "masks"):
        (tmp_path / name).mkdir()
    for number in range(10):
        mask = np.zeros((8, 8), np.uint8)
        mask[:4, :number] = 2
        Image.fromarray(np.full((8, 8, 3), 10 * number, np.uint8)).save(tmp_path / "images" / f"{number}.png")
        Image.fromarray(mask).save(tmp_path / "masks" / f"{number}.png")
    data = load(str(tmp_path), taking("f32[3, 16, 16]"))
    assert data.train.labels.shape == (8, 16, 16)
    assert data.train.rows is not None
    assert data.train.labels[:, 0].sum(1).tolist() == [4 * min(8, row) for row in data.train.rows.tolist()]
    Image.fromarray(np.zeros((4, 8), np.uint8)).save(tmp_path / "masks" / "3.png")
    with pytest.raises(ArchError, match=r"A1102.*3\.png is 8 x 4, and 3\.png 8 x 8"):
        load(f"masks:{tmp_path}", taking("f32[3, 16, 16]"))
    (tmp_path / "masks" / "3.png").unlink()
    with pytest.raises(ArchError, match=r"A1102.*3\.png has no mask"):
        load(f"masks:{tmp_path}", taking("f32[3, 16, 16]"))
