"""HW-GPT-Bench: its three spaces have the published sizes, and its surrogate scores searches."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import archir
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.runs import Run
from tests.conftest import EXAMPLES
from tests.plugins import forgotten

FILE = EXAMPLES / "zoo" / "hw_gpt.arch"
PLUGIN = "hw_gpt_bench"
MEDIUM = {"width": 1024, "depth": 24, "heads": 16, "few": 8, "some": 12}
LARGE = {"width": 1280, "depth": 36, "heads": 20, "few": 8, "some": 16}
FOLDER = os.environ.get("ARCHIR_NAS", "")

RECIPE = """\
space = "hw_gpt.arch"
plugins = ["hw_gpt_bench"]
export = false
parameters = {{ vocabulary = 256, context = 8 }}
data = {{ source = "text:corpus" }}
objective = {{ kind = "next_token" }}

[[phase]]
name = "search"
strategy = "evolution"

[phase.options]
objective = "perplexity:min"
trials = 8
population = 4
parents = 2
mutations = 2
crossovers = 1
scorer = {{ kind = "hw_gpt_bench", options = {{ weights = "{weights}", scale = "s" }} }}
"""


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLES / "tables" / f"{PLUGIN}.py", tmp_path)
    with forgotten(tmp_path):
        archir.plugin(PLUGIN)
        yield sys.modules[PLUGIN]


@pytest.mark.parametrize(
    ("parameters", "size", "largest"),
    [
        ({}, 1_903_784_282_946, 123_651_072),
        (MEDIUM, 537_684_912_592_251_733_153_026, 353_771_520),
        (LARGE, 151_858_100_636_256_657_146_478_033_822_541_506, 772_715_520),
    ],
)
def test_space_sizes_match_published_ones(parameters: dict[str, int], size: int, largest: int) -> None:
    """Two ways to have biases, three widths, and nine layers for each of the last three depths."""
    space = archir.load(FILE, **parameters)
    depth = parameters.get("depth", 12)
    assert space.size == size == 2 * 3 * sum(9**layers for layers in range(depth - 2, depth + 1))
    assert space.account.extremes("params")[1].value == largest


def made(path: Path, scale: str, features: int) -> Path:
    """A surrogate with small random weights."""
    rng = np.random.default_rng(0)
    sizes = [features, 4, 4, 4, 4, 1]
    arrays = {}
    for i in range(5):
        arrays[f"{scale}/perplexity/fc{i + 1}.weight"] = rng.normal(size=(sizes[i + 1], sizes[i])).astype(np.float32)
        arrays[f"{scale}/perplexity/fc{i + 1}.bias"] = rng.normal(size=sizes[i + 1]).astype(np.float32)
    np.savez(path, **arrays)
    return path


def test_surrogate_features_are_one_hot_choices(plugin: Any) -> None:
    chosen = archir.load(FILE).architecture(
        {"bias": "false", "width": 384, "depth": 10}
        | {f"heads[{i}]": 8 for i in range(10)}
        | {f"ratio[{i}]": 4 for i in range(10)}
    )
    row = plugin.features("s", dict(chosen))
    assert row[:6].tolist() == [0, 1, 0, 1, 0, 0]
    assert row[6:42].reshape(12, 3).tolist() == [[0, 0, 1]] * 10 + [[0, 0, 0]] * 2
    assert row[42:78].reshape(12, 3).tolist() == [[0, 1, 0]] * 10 + [[0, 0, 0]] * 2
    assert row[78:].tolist() == [0, 1]


def test_a_search_is_scored_by_the_surrogate(plugin: Any, tmp_path: Path) -> None:
    """What the run writes down of each candidate is what five matrices say of it."""
    weights = made(tmp_path / "surrogate.npz", "s", 80)
    shutil.copy(FILE, tmp_path)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "text.txt").write_text("the next byte " * 50)
    (tmp_path / "recipe.toml").write_text(RECIPE.format(weights=weights))
    done = CliRunner().invoke(main, ["search", "recipe.toml", "-o", "run"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    layers = plugin.read(weights, "s")
    trials = Run.open(tmp_path / "run").phase("search").trials()
    assert len(trials) == 8
    for trial in trials:
        x = plugin.features("s", trial.architecture)
        for matrix, bias in layers[:-1]:
            x = np.maximum(matrix @ x + bias, 0)
        assert trial.scores["perplexity"] == pytest.approx(float((layers[-1][0] @ x + layers[-1][1])[0]), rel=1e-5)


def test_a_file_without_the_surrogate_is_refused(plugin: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", ops=np.zeros(3))
    for file in ("other.npz", "none.npz"):
        with pytest.raises(ArchError, match=r"A2251.*no surrogate of scale `m`"):
            plugin.read(tmp_path / file, "m")


@pytest.mark.skipif(not FOLDER, reason="$ARCHIR_NAS names no folder with the published tables")
@pytest.mark.parametrize(("scale", "parameters"), [("s", {}), ("m", MEDIUM), ("l", LARGE)])
def test_larger_networks_are_predicted_to_be_better(plugin: Any, scale: str, parameters: dict[str, int]) -> None:
    space = archir.load(FILE, **parameters)
    weights = plugin.read(Path(FOLDER) / "hw_gpt_surrogates.npz", scale)
    least, most = (space.decode(one.codes) for one in space.account.extremes("params"))
    assert plugin.perplexity(weights, scale, most) < plugin.perplexity(weights, scale, least)
