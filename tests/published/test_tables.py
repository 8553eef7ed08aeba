"""Mappings of published result tables fit their spaces, and read the real tables where available."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import archir
from archir.spaces.space import Space
from archir.tabular import mapping
from archir.utils.globs import capture_stars, fill_stars, matches
from tests.conftest import EXAMPLES
from tests.examples import elaborated
from tests.soak import with_soak

CELL, MACRO, ACCEL, FBNET, OFA = (
    "nas_bench_201/nas_bench_201", "zoo/nas_bench_macro", "zoo/accel_mnasnet", "zoo/fbnet",
    "mobilenet_v3_ofa/mobilenet_v3_ofa",
)  # fmt: skip
TABLES = {
    "nas_bench_201": ("nb201", CELL, 15_625),
    "hw_nas_bench": ("hw_nas_bench", CELL, 15_625),
    "help_nas_bench_201": ("help_nb201_latency", CELL, 15_625),
    "nas_bench_macro": ("nb_macro", MACRO, 6_561),
    "accel_nasbench": ("accel_nasbench", ACCEL, 5_125),
    "help_fbnet": ("help_fbnet", FBNET, 5_000),
    "help_ofa": ("help_ofa", OFA, 220),
}
"""The arrays, the space, and how many architectures there are results of."""
FOLDER = os.environ.get("ARCHIR_NAS", "")


def space_of(path: str) -> Space:
    return elaborated(f"{path}.arch:{Path(path).name}")


def test_every_mapping_file_is_tested() -> None:
    assert {path.stem for path in (EXAMPLES / "tables").glob("*.toml")} == set(TABLES)


@pytest.mark.parametrize("name", with_soak(TABLES, ["nas_bench_201", "accel_nasbench", "help_ofa"]))
def test_a_mapping_finds_every_architecture_again(name: str, tmp_path: Path) -> None:
    """Of a small table of the published form: arrays, two of them of two dimensions, a row for each network."""
    space = space_of(TABLES[name][1])
    file = EXAMPLES / "tables" / f"{name}.toml"
    said, _ = mapping.read_mapping(file)
    drawn = [space.sample(seed) for seed in range(12)]
    arrays: dict[str, Any] = {}
    labels = list(said.labels.get("*", ()))
    for choice in space.choices:
        column = next(
            fill_stars(column, capture_stars(p, choice.path) or ()) if "*" in p else column
            for p, column in said.choices.items()
            if matches(p, choice.path)
        )
        array, _, index = column.removesuffix("]").partition("[")
        cells = [one.get(choice.path, choice.label(0)) for one in drawn]
        arrays.setdefault(array, np.zeros((len(drawn), 32)))[:, int(index)] = [
            labels.index(str(cell)) if labels else {"true": 1, "false": 0}.get(str(cell), cell) for cell in cells
        ]
    if name == "accel_nasbench":
        arrays["se"] = arrays["se"].astype(bool)
    for column, cell in said.rows.items():
        arrays[column.partition("[")[0]] = np.full((len(drawn), 1), cell)
    for measure in said.measures.values():
        arrays[str(measure.column).partition("[")[0]] = np.arange(len(drawn) * 10).reshape(-1, 10)
    np.savez(tmp_path / "table.npz", **arrays)
    found = archir.results(tmp_path / "table.npz", space, map=file)
    assert len(found) == len(set(drawn))
    assert all(one in found for one in drawn)


@pytest.mark.skipif(not FOLDER, reason="$ARCHIR_NAS names no folder with the published tables")
@pytest.mark.parametrize("name", TABLES)
def test_published_table_gives_expected_number_of_results(name: str, tmp_path: Path) -> None:
    arrays, path, count = TABLES[name]
    file = Path(FOLDER) / f"{arrays}.npz"
    if path == CELL and name != "nas_bench_201":
        networks = np.load(Path(FOLDER) / "nb201.npz")["ops"]
        np.savez(tmp_path / file.name, ops=networks, **np.load(file))
        file = tmp_path / file.name
    assert (
        len(archir.results(file, archir.load(EXAMPLES / f"{path}.arch"), map=EXAMPLES / f"tables/{name}.toml")) == count
    )


@pytest.mark.skipif(not FOLDER, reason="$ARCHIR_NAS names no folder with the published tables")
def test_best_accuracies_equal_published_ones() -> None:
    """Of validation accuracies, averaged over seeds."""
    space = archir.load(EXAMPLES / f"{CELL}.arch")
    found = archir.results(Path(FOLDER) / "nb201.npz", space, map=EXAMPLES / "tables/nas_bench_201.toml")
    for name, best in {"accuracy": 0.9161, "accuracy_cifar100": 0.7349, "accuracy_imagenet16": 0.4673}.items():
        assert np.nanmax(found.values[name][0][1]) == pytest.approx(best, abs=5e-5)
