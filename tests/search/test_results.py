"""Tables of results: mapping rows to architectures, averaging, missing rows and rejected files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir.search.registry import STRATEGIES
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
def test_csv_and_parquet_tables_equal_npz_table(form: str, tmp_path: Path) -> None:
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


def test_row_filter_selects_rows(tmp_path: Path) -> None:
    rows = arrays()["ms"]
    found = table(tmp_path, f'{MAPPING}\n[rows]\n"ms" = {rows[5]}\n')
    assert len(found) == 1
    assert next(iter(found.values["latency"]))[1].tolist() == [rows[5]]
    with pytest.raises(ArchError, match=r"A2251.*no row of table.npz has `ms = -1`"):
        table(tmp_path, f'{MAPPING}\n[rows]\n"ms" = -1\n')


def test_rows_that_break_a_constraint_are_outside(tmp_path: Path) -> None:
    pairs = [(a, b) for a in (1, 3) for b in (1, 3)]
    text = "a,b,accuracy\n" + "".join(f"{a},{b},{a * b}\n" for a, b in pairs)
    (tmp_path / "table.csv").write_text(text)
    (tmp_path / "table.toml").write_text('[choices]\na = "a"\nb = "b"\n[measures]\naccuracy = "accuracy"\n')

    def space(most: int) -> archir.Space:
        body = f"a = choose a(1, 3)\nb = choose b(1, 3)\nrequire a + b <= {most}"
        return archir.loads(f"net n {{ input x: f32[4, 8, 8]\n {body}\n output y = x |> conv(a) |> conv(b) }}")

    results = archir.results(tmp_path / "table.csv", space(4))
    assert (len(results), results.outside_count, results.row_count) == (3, 1, 4)
    assert {tuple(one.values()) for one in space(4).enumerate()} == {*pairs} - {(3, 3)}
    assert all(one in results for one in space(4).enumerate())
    rows = "\n".join(text.splitlines()[::4])  # only the row of (3, 3)
    (tmp_path / "table.csv").write_text(rows)
    with pytest.raises(ArchError, match=r"A2252") as refused:
        archir.results(tmp_path / "table.csv", space(4))
    assert refused.value.diagnostics[0].hint == "the rows break the constraints of the space"


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_strategy_runs_on_result_table(name: str, tmp_path: Path) -> None:
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


def test_missing_rows_count_as_failures(tmp_path: Path) -> None:
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
        ('"ms"', '"two"', r"A2251.*not a column of numbers"),
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
