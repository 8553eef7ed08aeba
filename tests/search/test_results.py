"""Tables of results: whose row is whose, what is averaged, what is missing, and what is refused."""

from __future__ import annotations

import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archir
from archir.diagnostics.errors import ArchError
from archir.search.registry import strategies
from archir.tabular import pickled
from archir.tabular.results import Results
from tests.search.test_multi import OPTIONS, score

SPACE = archir.loads("""
net space() {
    input x: f32[4, 8, 8]
    depth = choose depth(1, 2)
    repeat depth {
        x = x |> choose op { conv: conv(4, kernel=choose kernel(1, 3)), skip: identity }
    }
    paths = choose two 2 of [x, x |> relu, x |> gelu]
    output y = sum(paths)
}
""")
MAPPING = """
[choices]
depth = "shape[0]"
"op[*]" = "ops[*]"
"op[*].conv.kernel" = "kernels[*]"
two = "two"

[labels]
"op[*]" = ["conv", "skip"]

[measures]
accuracy = { epochs = { 12 = "short", 200 = "seeds" }, scale = 0.01 }
latency = { column = "ms", best = "min" }
"""


def arrays() -> dict[str, np.ndarray[Any, Any]]:
    """All architectures twice, in an order of their own; what is inactive is noise."""
    rng = np.random.default_rng(0)
    rows = [one for _ in range(2) for one in SPACE.enumerate()]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    labels = {"conv": 0, "skip": 1}
    ops = [[labels[str(one.get(f"op[{i}]", "conv"))] for i in range(2)] for one in rows]
    kernels = [[one.get(f"op[{i}].conv.kernel", 3) for i in range(2)] for one in rows]
    truth = np.array([sum(one.codes) for one in rows], float)
    seeds = np.stack([truth + 1, truth - 1, np.full(len(rows), np.nan)], 1)
    return {
        "shape": np.array([[one["depth"], 0] for one in rows]), "ops": np.array(ops), "kernels": np.array(kernels),
        "two": np.array([",".join(map(str, one["two"])) for one in rows]), "seeds": seeds, "short": truth / 2,
        "ms": np.arange(len(rows)), "unrelated": np.zeros(3),
    }  # fmt: skip


def table(folder: Path, mapping: str = MAPPING, **changed: Any) -> Results:
    np.savez(folder / "table.npz", **{name: one for name, one in (arrays() | changed).items() if one is not None})
    (folder / "table.toml").write_text(mapping)
    return archir.results(folder / "table.npz", SPACE)


def test_every_architecture_has_its_own_row(tmp_path: Path) -> None:
    found = table(tmp_path)
    assert len(found) == SPACE.size
    assert dict(found.directions) == {"accuracy": True, "latency": False}
    given = arrays()
    for one in SPACE.enumerate():
        assert found(one)["accuracy"] == pytest.approx(sum(one.codes) / 100)
        assert found(one, 0.5)["accuracy"] == found(one, 0.01)["accuracy"] == pytest.approx(sum(one.codes) / 200)
    rows = [i for i, accuracy in enumerate(given["short"]) if accuracy == max(given["short"])]
    sent = pickle.loads(pickle.dumps(found))  # to workers
    assert all(sent(one) == found(one) for one in SPACE.enumerate())
    best = max(SPACE.enumerate(), key=lambda one: sum(one.codes))
    assert found(best)["latency"] == np.mean(rows)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_forms_are_read_alike(form: str, tmp_path: Path) -> None:
    whole, flat = table(tmp_path), {}
    for name, array in arrays().items():
        if name != "unrelated":
            flat |= {f"{name}_{i}": array[:, i] for i in range(array.shape[1])} if array.ndim > 1 else {name: array}
    path = tmp_path / f"flat.{form}"
    if form == "csv":
        lines = [
            "\t".join("" if str(one) == "nan" else str(one) for one in row) for row in zip(*flat.values(), strict=True)
        ]
        path.write_text("\n".join(["\t".join(flat), *lines]))
    else:
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({name: one.tolist() for name, one in flat.items()}), path)
    (tmp_path / "flat.toml").write_text(
        MAPPING.replace('"shape[0]"', '"shape_0"').replace("s[*]", "s_*").replace('"seeds"', '"seeds_*"')
    )
    found = archir.results(path, SPACE)
    assert all(found(one) == whole(one) for one in SPACE.enumerate())


def test_rows_that_are_meant(tmp_path: Path) -> None:
    rows = arrays()["ms"]
    found = table(tmp_path, f'{MAPPING}\n[rows]\n"ms" = {rows[5]}\n')
    assert len(found) == 1
    assert next(iter(found.values["latency"]))[1].tolist() == [rows[5]]
    with pytest.raises(ArchError, match=r"A2251.*no row of table.npz has `ms = -1`"):
        table(tmp_path, f'{MAPPING}\n[rows]\n"ms" = -1\n')


@pytest.mark.parametrize("name", sorted(strategies()))
def test_every_strategy_is_told_by_a_table(name: str, tmp_path: Path) -> None:
    found = table(tmp_path)
    search = archir.strategy(name, SPACE, OPTIONS[name], seed=1)
    tried = 0
    while batch := search.ask():
        search.tell(found.scored(batch))
        tried += len(batch)
    best = search.best()
    assert best is not None
    assert tried > 10
    assert best.architecture in found
    assert score(best)  # a candidate as any other


def test_what_is_missing_fails_alone(tmp_path: Path) -> None:
    given = arrays()
    keep = given["two"] != "0,1"
    found = table(tmp_path, **{name: one[keep] for name, one in given.items() if name != "unrelated"})
    assert len(found) == SPACE.size * 2 // 3
    missing = next(one for one in SPACE.enumerate() if one["two"] == [0, 1])
    assert missing not in found
    with pytest.raises(ArchError, match=r"A2250.*no row for this architecture"):
        found(missing)
    search = archir.strategy("random", SPACE, {"trials": 40})
    told = found.scored(search.ask())
    assert {scores is None for _, scores in told} == {True, False}
    search.tell(told)
    gaps = np.where(given["two"] == "0,1", np.nan, given["ms"])
    with pytest.raises(ArchError, match=r"A2250.*no `latency`"):
        table(tmp_path, ms=gaps)(missing)
    assert archir.results(tmp_path / "table.npz", SPACE, measures=["accuracy"])(missing)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("depth =", "deep =", r"A2251.*no choice `deep`"),
        ('depth = "shape[0]"\n', "", r"A2251.*have no column: `depth"),
        ('"shape[0]"', '"shapes[0]"', r"A2251.*no column `shapes\[0\]`"),
        ('"shape[0]"', '"shape"', r"A2251.*several columns"),
        ('"shape[0]"', '"shape[2]"', r"A2251.*no column"),
        ('"ops[*]"', '"ops_*_*"', r"A2251.*equally many stars"),
        ('"op[*]" = ["conv", "skip"]', '"op[*]" = ["none", "other"]', r"A2252.*none of the 72 rows"),
        ('"ms"', '"two"', r"A2251.*no column of numbers"),
        ('"ms"', '"milliseconds"', r"A2251.*no column"),
        ("12 =", "twelve =", r"A1109.*maps numbers of epochs"),
        ('column = "ms", ', "", r"A1109.*either a `column` or `epochs`"),
        ("[choices]", "[choices", r"A2251.*not TOML"),
    ],
)
def test_mappings_that_do_not_fit_are_refused(before: str, after: str, said: str, tmp_path: Path) -> None:
    assert before in MAPPING
    with pytest.raises(ArchError, match=said) as refused:
        table(tmp_path, MAPPING.replace(before, after))
    if "A2252" not in said and "have no column" not in said:
        assert refused.value.diagnostics[0].span is not None


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    table(tmp_path)
    (tmp_path / "table.txt").write_text("")
    with pytest.raises(ArchError, match=r"A2251.*not `table.txt`"):
        archir.results(tmp_path / "table.txt", SPACE)
    with pytest.raises(ArchError, match=r"A2251.*cannot read the mapping"):
        archir.results(tmp_path / "table.npz", SPACE, map=tmp_path / "none.toml")
    with pytest.raises(ArchError, match=r"A2251.*no measure `accurac`"):
        archir.results(tmp_path / "table.npz", SPACE, measures=["accurac"])
    np.savez(tmp_path / "table.npz", two=np.array([{}], object))
    with pytest.raises(ArchError, match=r"A1101"):
        archir.results(tmp_path / "table.npz", SPACE)


# tables that are pickles


def pickle_of(data: Any, protocol: int = 4) -> bytes:
    return pickle.dumps(data, protocol)


NETWORKS = {"01": {"val_acc": [80.0, 82.0], "size": 7}, "10": {"val_acc": [90.0], "size": 9}}


@pytest.mark.parametrize("protocol", [4, 5])
def test_a_pickle_of_plain_values_is_a_table(protocol: int, tmp_path: Path) -> None:
    (tmp_path / "t.pkl").write_bytes(pickle_of(NETWORKS, protocol))
    found = pickled.arrays(tmp_path / "t.pkl")
    assert found["key"].tolist() == [[0, 1], [1, 0]]
    assert found["size"].tolist() == [7.0, 9.0]
    assert found["val_acc"][0].tolist() == [80.0, 82.0]
    assert np.isnan(found["val_acc"][1, 1])
    space = archir.loads(
        "net n {\n input x: f32[1, 2, 2]\n a = choose a(2, 3)\n b = choose b(2, 3)\n"
        " output y = x |> conv(a) |> conv(b)\n}"
    )
    (tmp_path / "t.toml").write_text(
        '[choices]\na = "key[0]"\nb = "key[1]"\n[labels]\n"*" = [2, 3]\n[measures]\naccuracy = "val_acc"\n'
    )
    table = archir.results(tmp_path / "t.pkl", space)
    assert table(space.architecture({"a": 2, "b": 3})) == {"accuracy": 81.0}
    assert len(table) == 2


class Runs:
    def __reduce__(self) -> Any:
        return print, ("this was run",)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (pickle_of({"01": {"val_acc": [Runs()]}}), "the pickle instruction"),
        (pickle_of({"01": {"val_acc": (1.0, 2.0)}}), "the pickle instruction"),
        (pickle_of({"01": {"val_acc": [print]}}), "the pickle instruction"),
        (pickle_of({"01": {"val_acc": 1 << 4000}}), "the pickle instruction"),
        (pickle_of([1.0, 2.0]), "not a dictionary"),
        (pickle_of({"01": {"a": 1.0}, "011": {"a": 1.0}}), "equally many digits"),
        (pickle_of({"xy": {"a": 1.0}}), "equally many digits"),
        (pickle_of({"01": {"a": "word"}}), "must be a number"),
        (pickle_of(NETWORKS)[:-9], "not a table of results"),
        (pickle_of({}), "not a dictionary"),
        (b"", "not a table of results"),
        (b"\x80\x04h\x05.", "not a table of results"),
        (b"\x80\x04(u.", "not a table of results"),
        (b"\x80\x04]e.", "not a table of results"),
        (b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.", "not a table of results"),
    ],
)  # fmt: skip
def test_other_pickles_are_refused_and_nothing_is_run(
    content: bytes, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.pkl").write_bytes(content)
    with pytest.raises(ArchError, match=rf"A2251.*{why}"):
        pickled.arrays(tmp_path / "t.pkl")
    assert capsys.readouterr().out == ""


@settings(max_examples=200, deadline=None)
@given(noise=st.binary(max_size=60), place=st.integers(0, 200))
def test_no_bytes_end_otherwise(noise: bytes, place: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    whole = pickle_of(NETWORKS)
    path = tmp_path_factory.getbasetemp() / "noise.pkl"
    path.write_bytes(whole[: place % len(whole)] + noise + whole[place % len(whole) + len(noise) :])
    with suppress(ArchError):
        pickled.arrays(path)
