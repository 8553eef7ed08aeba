"""Studies of trainings in the examples: all arms are valid, and in the soak each arm trains for a moment."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from archir.cli import main
from tests.conftest import EXAMPLES
from tests.soak import with_soak

SLOW = {
    "trionet-table3", "trionet-ablation", "nos-random_cells", "nos-table4", "nos-attention_guidance", "glit-table1",
    "glit-two_levels",
}  # fmt: skip
"""Studies of networks for ImageNet, or of spaces whose costs take long: checking all arms takes 10 seconds and more."""
STUDIES = sorted(path for path in EXAMPLES.glob("*/*.toml") if "\nrecipe = " in path.read_text("utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 400 images of noise in ten classes, and 400 in a hundred classes."""
    folder = tmp_path_factory.mktemp("images")
    pixels = np.random.default_rng(0).integers(0, 256, (400, 32, 32, 3), dtype=np.uint8)
    for classes in (10, 100):
        np.savez(folder / f"{classes}.npz", images=pixels, labels=np.arange(400) % classes)
    return folder


def sources(path: Path, folder: Path) -> list[str]:
    """Options that replace the data of a recipe by noise: of ten classes, or of a hundred for phases with their own."""
    recipe = tomllib.loads((path.parent / tomllib.loads(path.read_text("utf-8"))["recipe"]).read_text("utf-8"))
    own = [phase["name"] for phase in recipe["phase"] if "source" in phase.get("data", {})]
    settings = [f"{name}.data.source=npz:{folder}/100.npz" for name in own]
    return ["--data", f"npz:{folder}/10.npz", *(part for setting in settings for part in ("--set", setting))]


def name_of(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", with_soak(STUDIES, {p for p in STUDIES if name_of(p) not in SLOW}), ids=name_of)
def test_every_arm_of_an_example_study_is_valid(path: Path, folder: Path) -> None:
    result = CliRunner().invoke(main, ["study", str(path), *sources(path, folder), "--check"])
    assert result.exit_code == 0, result.output
    assert "is valid" in result.output


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("path", STUDIES, ids=name_of)
def test_every_arm_of_an_example_study_trains(path: Path, folder: Path, tmp_path: Path) -> None:
    options = [*sources(path, folder), "--smoke", "--set", "data.limit=64", "-o", str(tmp_path / "study")]
    result = CliRunner().invoke(main, ["study", str(path), *options])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "study" / "results.csv").exists()
