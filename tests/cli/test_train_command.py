"""`archir train`: networks of a search's trials, initial weights, limits and threads."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import archir
from archir import __main__ as program
from archir.diagnostics.errors import ArchError
from archir.recipes.external_files import trained_on
from archir.runs import Run
from archir_torch.training import checkpoint_folder
from tests.cli.test_cli import run
from tests.torch_backend.tried import elastic, recipe

TRYING = """
space = "elastic.arch"
export = false

[data]
source = "digits"
limit = 100

[[phase]]
name = "first"
strategy = "random"
training = { batch = 16 }
options = { objectives = ["naswot:max"], trials = 3, scorer = { kind = "proxies", proxies = ["naswot"] } }

[[phase]]
name = "second"
strategy = "random"
objective = { kind = "classification", label_smoothing = 0.1 }
training = { seed = 1, batch = 16 }
options = { objectives = ["naswot:max"], trials = 4, scorer = { kind = "proxies", proxies = ["naswot"] } }
"""
NET = "net net {\n    input x: f32[1, 8, 8]\n    output y = x |> flatten |> linear(10)\n}\n"


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trials")
    run("search", str(recipe(folder, TRYING)), "-o", str(folder / "run"), "--device", "cpu")
    return folder / "run"


def test_train_trial_uses_architecture_and_data_of_trial(searched: Path, tmp_path: Path) -> None:
    """As the phase says: its data, what it minimises. The folder holds the trial's architecture."""
    said = run("train", "--trial", str(searched), "second:1", "--epochs", "1", "-o", str(tmp_path / "run"), "--json")
    trial = Run.open(searched).phase("second").trials()[1]
    assert json.loads((tmp_path / "run" / "architecture.json").read_text())["choices"] == trial.architecture
    assert json.loads(said.stdout)["data"] == "digits"
    only = run("train", "--trial", str(searched), "3", "--epochs", "1", "-o", str(tmp_path / "only"), "--json")
    assert json.loads(only.stdout)["params"] > 0


def test_export_of_search_without_training_names_train_command(searched: Path, tmp_path: Path) -> None:
    """Nothing of it can be exported: what is missing is said, and which command gives it."""
    said = run("export", str(searched), "-o", str(tmp_path / "net.onnx"), code=1).stderr
    assert f"error[A1804]: the search in {searched} trained no network\n" in said
    hint = 'add a phase with `strategy = "train"` to the recipe, or train its best architecture: '
    assert f"  hint: {hint}`archir train SPACE --arch {searched / 'best.json'}`\n" in said
    space, best = str(searched.parent / "elastic.arch"), str(searched / "best.json")
    run("train", space, "--arch", best, "--epochs", "1", "-o", str(tmp_path / "trained"))


def test_export_of_stopped_search_suggests_resume(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", "stopped", {"recipe.toml": TRYING}, {}):
        pass
    said = run("export", str(tmp_path / "run"), "-o", str(tmp_path / "net.onnx"), code=1).stderr
    assert f"the search in {tmp_path / 'run'} has no network yet: it was stopped, or is still running\n" in said
    assert f"  hint: resume it: `archir search --resume {tmp_path / 'run'}`\n" in said


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("1", "several phases have a trial `1`\n  hint: name the phase: `first:1` and `second:1`"),
        ("second:4", "no trial `second:4`\n  hint: there are first:0 to first:2, second:0 to second:3"),
        ("x", "has no trial `x`"),
    ],
)
def test_rejects_unknown_or_ambiguous_trial(searched: Path, tmp_path: Path, which: str, said: str) -> None:
    assert said in run("train", "--trial", str(searched), which, "-o", str(tmp_path / "run"), code=1).stderr
    assert not (tmp_path / "run").exists()


def test_training_starts_from_given_weights(tmp_path: Path) -> None:
    """Those of a folder, or of a file; a network that they do not fit is refused, and leaves no folder."""
    file = tmp_path / "net.arch"
    file.write_text(NET)
    first, again, refused = (str(tmp_path / name) for name in ("first", "again", "refused"))
    run("train", str(file), "--epochs", "1", "-o", first)
    still = ("--epochs", "1", "--lr", "1e-30", "--weight-decay", "0")
    for given in (first, f"{first}/weights.safetensors"):
        assert trained_on(Path(first) / "weights.safetensors") == ["digits"]
        run("train", str(file), *still, "--weights", given, "-o", again, "--train-seed", "7")
        assert equal(load_file(f"{again}/weights.safetensors"), load_file(f"{first}/weights.safetensors"))
        for one in Path(again).iterdir():
            one.unlink()
    file.write_text(NET.replace("flatten", "flatten |> linear(4)"))
    said = run("train", str(file), *still, "--weights", first, "-o", refused, code=1).stderr
    assert "A0902" in said
    assert not Path(refused).exists()


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_limit_is_a_number_of_samples(tmp_path: Path) -> None:
    (tmp_path / "net.arch").write_text(NET)
    options = ("train", str(tmp_path / "net.arch"), "--epochs", "1", "--batch", "20", "-o", str(tmp_path / "run"))
    run(*options, "--limit", "40")
    contents = checkpoint_folder.read(tmp_path / "run")
    assert contents is not None
    assert contents[1]["state"]["loop"]["index"] == 40 // 20
    assert "`limit` was 40, and is None" in run(*options, "--resume", code=1).stderr
    assert "A1109]: `limit` is 1" in run(*options[:-1], str(tmp_path / "none"), "--limit", "1", code=1).stderr


def test_results_tell_the_direction_of_the_criterion(tmp_path: Path) -> None:
    (tmp_path / "net.arch").write_text(NET)
    options = ("train", str(tmp_path / "net.arch"), "--epochs", "1", "--batch", "20", "--limit", "40")
    for criterion, larger in (("accuracy", True), ("loss", False)):
        folder = tmp_path / criterion
        run(*options, "-o", str(folder), "--objective", f'{{kind = "classification", criterion = "{criterion}"}}')
        record = json.loads((folder / "training.json").read_text())
        assert (record["criterion"], record["larger"]) == (criterion, larger)


def test_threads_option_sets_torch_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    (tmp_path / "net.arch").write_text(NET)
    run("train", str(tmp_path / "net.arch"), "--epochs", "1", "--threads", "3", "-o", str(tmp_path / "run"))
    assert asked == [3, torch.get_num_threads()]


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)],
)
def test_openmp_spin_count_is_set_unless_user_sets_it(
    before: dict[str, str], after: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless whoever starts archir says how they wait."""
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(program, "main", lambda: None)
    monkeypatch.setattr(sys, "argv", ["archir", "train"])
    program.run()
    assert os.environ.get("GOMP_SPINCOUNT") == after
    os.environ.pop("GOMP_SPINCOUNT", None)


def test_weight_map_renames_weights_of_other_names(tmp_path: Path) -> None:
    """Named by a map, they are as if they had the network's names."""
    (tmp_path / "net.arch").write_text(NET)
    common = [str(tmp_path / "net.arch"), "--epochs", "1", "--batch", "512", "--lr", "1e-30", "-o"]
    run("train", *common, str(tmp_path / "first"))
    weights = load_file(tmp_path / "first" / "weights.safetensors")
    save_file(
        {f"head.{name.removeprefix('linear.')}": one for name, one in weights.items()}, tmp_path / "w.safetensors"
    )
    (tmp_path / "map.json").write_text(json.dumps([["linear.*", "head.*"]]))
    start = ["--weights", str(tmp_path / "w.safetensors"), "--train-seed", "3"]
    run("train", *common, str(tmp_path / "second"), *start, "--map", str(tmp_path / "map.json"))
    again = load_file(tmp_path / "second" / "weights.safetensors")
    assert all(again[name].allclose(weights[name], rtol=0, atol=1e-20) for name in weights)
    (tmp_path / "map.json").write_text(json.dumps({"linear.*": "head.*", "": "body.*"}))
    said = run("train", *common, str(tmp_path / "third"), *start, "--map", str(tmp_path / "map.json"), code=1)
    assert "A2220" in said.stderr
    assert not (tmp_path / "third").exists()
    run("train", *common, str(tmp_path / "third"), "--map", str(tmp_path / "map.json"), code=2)


def test_trials_are_returned_as_columns_with_costs(searched: Path) -> None:
    """Of one length, with costs: those of the architectures."""
    found = archir.trials(searched)
    assert {len(column) for column in found.values()} == {7}
    assert found["phase"] == ["first"] * 3 + ["second"] * 4
    assert [*found][:6] == ["phase", "trial", "status", "hash", "budget", "seconds"]
    run_ = Run.open(searched)
    for name in ("first", "second"):
        part = archir.trials(searched, name)
        trials = run_.phase(name).trials()
        assert part["scores.naswot"] == [one.scores["naswot"] for one in trials]
        assert part["choices.width"] == [one.architecture["width"] for one in trials]
        space = elastic()
        costs = [archir.cost(space.specialize(space.architecture(one.architecture))) for one in trials]
        assert part["costs.macs"] == [one.macs for one in costs]
        assert part["costs.params"] == [one.params for one in costs]
    assert any(None in column for name, column in found.items() if name.startswith("choices."))
    with pytest.raises(ArchError, match=r"A1207.*`third`"):
        archir.trials(searched, "third")


def test_compare_shows_mean_and_deviation_over_seeds(tmp_path: Path) -> None:
    phase = '[[phase]]\nname = "supernet"\nstrategy = "spos"\ntraining = { epochs = 1, batch = 30 }\n'
    path = recipe(tmp_path, f'space = "elastic.arch"\nexport = false\ndata = {{ limit = 60 }}\n{phase}')
    for seed in (0, 1):
        run("search", str(path), "-o", str(tmp_path / "runs" / f"s{seed}"), "--set", f"seed={seed}", "--device", "cpu")
    found = run("compare", str(tmp_path / "runs")).output
    assert "mean and deviation" in found
    assert re.search(r"seed +0 +1", found), found
