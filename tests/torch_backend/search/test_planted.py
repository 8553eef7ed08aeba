"""Searches find the one architecture that can fit the data, where there is only one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from archir import backends
from archir_torch.data import Split
from tests.torch_backend.searches import npz

SPACE = """
# Only a filter that reaches three pixels far sees what the label depends on: whether two pixels are equal. Each is as
# often light as dark, whatever the label, so that nothing linear tells the labels from each other.

net planted() {
    input x: f32[1, 9, 9]
    x = x |> choose reach {
        point: conv(8, kernel=1)
        near: conv(8, kernel=3)
        far: conv(8, kernel=3, dilation=3)
        farther: conv(8, kernel=3, dilation=5)
    }
    x = x |> choose bend { straight: identity, blurred: avg_pool(3, stride=1), nothing: zero, bent: relu }
    x = x |> conv(8, kernel=1) |> choose gate { closed: zero, open: identity }
    output logits = x |> global_avg_pool |> linear(2)
}
"""
PLANTED = {"reach": "far", "bend": "bent", "gate": "open"}


def alphas(rate: float) -> str:
    """The line of a recipe with the optimizer of architecture parameters."""
    return f"alphas = {{ lr = {rate}, weight_decay = 0 }}\n"


SETTINGS = {
    "darts": (8, alphas(2e-2)),
    "gdas": (60, alphas(3e-2) + "options = { alpha_warmup_epochs = 10, temperature = [5.0, 0.5] }"),
    "random": (1, ""),
}
"""By strategy: epochs, and settings of the architecture parameters."""

RECIPE = """
space = "planted.arch"
threads = 1
export = false

[data]
source = "planted.npz"

[[phase]]
name = "search"
strategy = "{strategy}"
training = {{ epochs = {epochs}, batch = 25 }}
weights = {{ kind = "adam", lr = 1e-2, schedule = "constant" }}
{settings}
"""


def pairs(count: int, seed: int) -> Split:
    """Noise of -1 and 1, where the product of each pixel and the one three to the right of it is the label's sign."""
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, (count, 1, 9, 9), generator=generator) * 2.0 - 1
    labels = torch.randint(0, 2, (count,), generator=generator)
    for column in range(3, 9):
        signs[..., column] = signs[..., column - 3] * (labels * 2.0 - 1)[:, None, None]
    return Split.labelled(signs, labels)


def found(folder: Path, strategy: str, seed: int) -> dict[str, str]:
    """The architecture that a strategy derives."""
    folder.mkdir()
    (folder / "planted.arch").write_text(SPACE)
    npz(folder / "planted.npz", pairs(1000, 2 * seed), pairs(200, 2 * seed + 1))
    epochs, settings = SETTINGS[strategy]
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(strategy=strategy, epochs=epochs, settings=settings))
    overrides = {"seed": str(seed), "data.source": repr(str(folder / "planted.npz"))}
    backends.get("torch").search(path, folder / "run", overrides=overrides, device="cpu")
    choices: dict[str, str] = json.loads((folder / "run" / "best.json").read_text())["choices"]
    return choices


def planted(folder: Path, strategy: str, seeds: int) -> int:
    """For how many seeds a strategy derives the planted architecture."""
    return sum(found(folder / f"{strategy}-{seed}", strategy, seed) == PLANTED for seed in range(seeds))


def test_darts_finds_planted_architecture(tmp_path: Path) -> None:
    assert planted(tmp_path, "darts", 1) == 1


@pytest.mark.soak
def test_gdas_finds_planted_architecture(tmp_path: Path) -> None:
    assert planted(tmp_path, "gdas", 1) == 1


def test_random_search_rarely_finds_planted_architecture(tmp_path: Path) -> None:
    assert planted(tmp_path, "random", 10) <= 2


@pytest.mark.soak
@pytest.mark.parametrize("strategy", ["darts", "gdas"])
def test_planted_architecture_is_found_for_nine_of_ten_seeds(strategy: str, tmp_path: Path) -> None:
    assert planted(tmp_path, strategy, 10) >= 9
