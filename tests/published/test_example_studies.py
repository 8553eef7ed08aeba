"""Studies of trainings in the examples: all arms are valid, and in the soak each arm trains for a moment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from archir.cli import main
from tests.conftest import EXAMPLES

STUDIES = sorted(path for path in EXAMPLES.glob("*/*.toml") if "\nrecipe = " in path.read_text("utf-8"))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A source of 400 images of noise in ten classes."""
    path = tmp_path_factory.mktemp("images") / "noise.npz"
    pixels = np.random.default_rng(0).integers(0, 256, (400, 32, 32, 3), dtype=np.uint8)
    np.savez(path, images=pixels, labels=np.arange(400) % 10)
    return f"npz:{path}"


def name_of(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", STUDIES, ids=name_of)
def test_every_arm_of_an_example_study_is_valid(path: Path, images: str) -> None:
    result = CliRunner().invoke(main, ["study", str(path), "--data", images, "--check"])
    assert result.exit_code == 0, result.output
    assert "is valid" in result.output


@pytest.mark.soak
@pytest.mark.parametrize("path", STUDIES, ids=name_of)
def test_every_arm_of_an_example_study_trains(path: Path, images: str, tmp_path: Path) -> None:
    options = ["--data", images, "--smoke", "--set", "data.limit=64", "-o", str(tmp_path / "study")]
    result = CliRunner().invoke(main, ["study", str(path), *options])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "study" / "results.csv").exists()
