"""Small trainings of searched, random and hand-made networks: tables, what is compared, going on after a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import archir
from archir.runs.manifest import NAME
from benchmarks import trainings
from benchmarks.trainings import EXAMPLES, KINDS, SEARCHED, SETTINGS, Comparison, Settings, Trained, row, table
from tests.conftest import EXAMPLES as FOLDER
from tests.conftest import ROOT
from tests.documents import snippets

TINY = Settings("digits", 40, 8, epochs=1, batch=32, search_size=8, search_epochs=1)
ARGUMENTS = [
    "--data",
    "digits",
    "--images",
    "40",
    "--size",
    "8",
    "--epochs",
    "1",
    "--batch",
    "32",
    "--search-size",
    "8",
]


def one(seed: int, kind: str, accuracy: float, macs: int = 10, seconds: float | None = 2.0) -> Trained:
    return Trained(seed, kind, accuracy, 1234, macs, seconds)


def test_errors_are_those_of_means_over_seeds() -> None:
    """Two networks of one seed are one value; differences are of the same seeds."""
    found = [one(0, SEARCHED, 0.5), one(1, SEARCHED, 0.6), one(2, SEARCHED, 0.7)]
    drawn = [
        one(0, "random", 0.5),
        one(0, "random", 0.4),
        one(1, "random", 0.55, 13),
        one(3, "random", 0.35, seconds=None),
    ]
    assert row(SEARCHED, found + drawn) == ["3", "60.00%", "5.77", "", "", "1,234", "10", "2"]
    # by seed 45, 55 and 35 percent; better by 5 and 5 where both are
    assert row("random", found + drawn) == ["3", "45.00%", "5.77", "+5.00", "0.00", "1,234", "11", "2"]
    assert row("plain", [one(4, "plain", 0.5, seconds=None)]) == ["1", "50.00%", "", "", "", "1,234", "10", ""]


def test_the_table_is_of_what_is_there(tmp_path: Path) -> None:
    for seed, file, kind in [(0, "searched", SEARCHED), (0, "plain", "plain"), (1, "plain", "plain")]:
        path = tmp_path / "nos" / f"seed{seed}" / f"{file}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(one(seed, kind, 0.25))))
    (tmp_path / "nos" / SETTINGS).write_text(json.dumps(asdict(TINY)))
    made = table("nos", tmp_path)
    assert [(kind, seeds) for kind, seeds, *_ in made.rows] == [(SEARCHED, "1"), ("plain", "2")]
    assert made.title == ("nos: 40 images of 8 x 8 pixels, 1 epochs of batches of 32; before, 1 of each phase at 8 x 8")


def test_shares_of_an_equal_share(tmp_path: Path) -> None:
    """Over seeds and choices: 2 and 1.2, and once 1, after the last phase that searches."""
    rows = {"a.op": [[0.5, 0.5], [1.0, 0.0]], "b.op": [[0.25, 0.25, 0.5], [0.3, 0.4, 0.3]]}
    for seed, history in enumerate([rows, {"a.op": [[0.5, 0.5]]}]):
        path = tmp_path / "full_attention" / f"seed{seed}" / "searched" / "phases" / "finetune" / "alphas.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"history": history}))
    (tmp_path / "full_attention" / SETTINGS).write_text(json.dumps(asdict(TINY)))
    assert table("full_attention", tmp_path).title.endswith(" had 1.40 times an equal share")


@pytest.mark.parametrize("name", EXAMPLES)
def test_tables_of_the_examples_were_printed(name: str) -> None:
    printed = (ROOT / "benchmarks" / "results" / "trainings_cpu.txt").read_text("utf-8")
    (shown,) = [one.text.strip() for one in snippets(FOLDER / name / "README.md", "none")]
    assert shown.startswith(f"{name}: ")
    assert f"\n\n{shown}\n" in printed
    assert [line.split()[0] for line in shown.splitlines()[-len(KINDS) :]] == list(KINDS)


def test_a_folder_has_trainings_of_one_kind(tmp_path: Path) -> None:
    Comparison("nos", 0, tmp_path, TINY)
    Comparison("nos", 1, tmp_path, TINY)
    with pytest.raises(SystemExit, match=r"nos has trainings with other settings: .*'images': 40"):
        Comparison("nos", 0, tmp_path, Settings("digits", 50, 8, 1, 32, 8, 1))


@pytest.mark.soak  # seconds: architectures near a cost are counted
def test_random_ones_cost_what_was_found_costs(tmp_path: Path) -> None:
    compared = Comparison("autola", 0, tmp_path, TINY)
    space = compared.space()
    macs = archir.cost(space.specialize(space.sample(5))).macs
    drawn = [space.architecture(choices) for choices in compared.random_architectures(macs)]
    costs = [archir.cost(space.specialize(architecture)).macs for architecture in drawn]
    assert len(costs) == 2
    assert all(0.95 * macs <= cost <= macs for cost in costs), (macs, costs)
    assert compared.random_architectures(macs) == [dict(architecture) for architecture in drawn]


@pytest.mark.parametrize(
    ("name", "gates"), [("nos", [16] * 4 + [32] * 4 + [64] * 4), ("full_attention", [16] * 3 + [32] * 6 + [64] * 6)]
)
def test_hand_made_networks(name: str, gates: list[int]) -> None:
    """They are clean programs; what attention adds are two layers of a gate, and in CBAM seven times seven weights for
    two maps, and a norm."""
    path, given = FOLDER / name / EXAMPLES[name].hand_made, dict(EXAMPLES[name].hand_made_parameters)
    assert archir.check(path) == []
    assert archir.lint(path) == []
    plain, se, cbam = (archir.cost(archir.load(path, **given, attention=kind).graph) for kind in ("none", "se", "cbam"))
    layers = sum(2 * width * (width // 4) + width // 4 + width for width in gates)
    assert (se.params - plain.params, cbam.params - se.params) == (layers, 100 * len(gates))
    assert plain.macs < se.macs < cbam.macs < 1.05 * plain.macs


def command(folder: Path) -> list[str]:
    return [*ARGUMENTS, "--example", "autola", "--seeds", "1", "--search-epochs", "1", "--folder", str(folder)]


def results(folder: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text()) | {"seconds": 0} for path in folder.glob("autola/seed0/*.json")}


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by signals")
def test_it_goes_on_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Killed in the search and in a training, it comes to what it comes to undisturbed, and trains nothing twice."""
    program = [sys.executable, str(ROOT / "benchmarks" / "trainings.py")]
    begun = [tmp_path / "killed" / "autola" / "seed0" / name for name in ("searched", "se")]
    for run in begun:
        process = subprocess.Popen([*program, *command(tmp_path / "killed")], stdout=subprocess.DEVNULL)
        while not (run / NAME).exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not run.with_suffix(".json").exists()
    kept = {path: path.stat().st_mtime_ns for path in begun[0].parent.glob("*.json")}
    assert len(kept) == 4  # found, two random ones, plain
    for folder in ("killed", "whole"):
        monkeypatch.setattr(sys, "argv", [program[1], *command(tmp_path / folder)])
        trainings.main()
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert results(tmp_path / "killed") == results(tmp_path / "whole")
    assert len(results(tmp_path / "whole")) == 6
    assert {kind: seeds for kind, seeds, *_ in table("autola", tmp_path / "whole").rows} == dict.fromkeys(KINDS, "1")
    assert f"autola: {TINY};\n" in capsys.readouterr().out
    for kind, attention in [("plain", "none"), ("se", "se"), ("cbam", "cbam")]:
        net = f"{FOLDER}/autola/baselines.arch:cifar"
        cost = archir.cost(archir.load(net, depth=8, size=8, option="B", reduction=4, attention=attention).graph)
        trained = results(tmp_path / "whole")[f"{kind}.json"]
        assert (trained["params"], trained["macs"]) == (cost.params, cost.macs)
