"""Two processes search as one with the doubled batch does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file
from torch.distributed.tensor import DTensor

from archir import backends
from archir.cli import main
from archir.language.elaboration.elaborate import elaborate
from archir.recipes.training import AlphasOptimizer, Training
from archir.runs import Run
from archir.spaces.space import Space
from archir_torch.search.job import Strategy
from archir_torch.training import distributed
from archir_torch.training.loop import Row, run
from tests.soak import with_soak
from tests.torch_backend import forked
from tests.torch_backend.forked import run_processes
from tests.torch_backend.searches import command, recipe, strategy, surroundings

PROCESSES = 2
CASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "first order": ("darts", {"penalty": {}, "entropy": {"last": 0.1}}),
    "second order": ("darts", {"order": 2, "penalty": {}}),
    "eigenvalue": ("darts", {"curvature": {"iterations": 3}}),
    "gdas": ("gdas", {}),
    "gdas, second order": ("gdas", {"order": 2}),
    "inputs with weights": ("darts", {"edges": "weighted"}),
}
FEW = ["second order", "gdas"]
"""Those of the suite."""


def searched(case: str, batch: int) -> tuple[Strategy, list[Row]]:
    """A search whose last batch of an epoch is smaller than the others, and odd."""
    kind, options = CASES[case]
    alphas = AlphasOptimizer(lr=3e-3)
    search = strategy(kind, options, batch=batch, alphas=alphas)
    return search, run(search, epochs=search.epochs, steps=search.steps)


PLAIN = """
net plain() {
    input x: f32[1, 6, 6]
    x = x |> conv(8, kernel=3, bias=false) |> batch_norm |> relu
    x = x |> conv(8, kernel=3) |> batch_norm(affine=false) |> relu
    output logits = x |> global_avg_pool |> linear(3)
}
"""


def trained(batch: int, sharding: str = "none") -> tuple[Strategy, list[Row]]:
    """A network that is trained, and looked at after each epoch with averaged weights."""
    training = Training(epochs=3, batch=batch, ema=0.8, sharding=sharding)  # type: ignore[arg-type]
    search = strategy("train", space=Space(elaborate(PLAIN, "plain.arch")), training=training)
    return search, run(search, epochs=search.epochs, steps=search.steps)


def worker(rank: int, folder: Path, cases: Sequence[str]) -> None:
    distributed.start("cpu")
    for case in cases:
        search, rows = searched(case, 8)
        tensors = {name: tensor.contiguous().clone() for name, tensor in search.state().tensors.items()}
        save_file(tensors, folder / f"{case}-{rank}.safetensors")
        (folder / f"{case}-{rank}.json").write_text(json.dumps(rows))
    search, rows = trained(8, "full")
    assert any(isinstance(tensor, DTensor) for tensor in search.state().tensors.values())
    save_file(dict(search.outcome().weights), folder / f"divided-{rank}.safetensors")
    (folder / f"divided-{rank}.json").write_text(json.dumps(rows))
    distributed.stop()


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left of the cases that are asked for."""
    path = tmp_path_factory.mktemp("searches")
    run_processes(PROCESSES, worker, path, CASES if "not soak" not in request.config.getoption("markexpr") else FEW)
    return path


@pytest.mark.parametrize("case", with_soak(CASES, FEW))
def test_search_by_two_processes_equals_one_with_doubled_batch(case: str, folder: Path) -> None:
    search, rows = searched(case, 16)
    wanted = search.state().tensors
    first, second = (load_file(folder / f"{case}-{rank}.safetensors") for rank in range(PROCESSES))
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    assert wanted["search/history"].std(0).max() > 1e-3
    for name in ("search/history", "alphas/weights/logits"):
        torch.testing.assert_close(first[name], wanted[name], rtol=0, atol=1e-5)
    for name, tensor in wanted.items():
        torch.testing.assert_close(first[name], tensor, rtol=1e-3, atol=1e-4, msg=lambda text, n=name: f"{n}: {text}")
    measured = set(rows[0]) - {"epoch", "seconds"}
    for rank in range(PROCESSES):
        found = json.loads((folder / f"{case}-{rank}.json").read_text())
        for one, other in zip(found, rows, strict=True):
            assert {n: one[n] for n in measured} == pytest.approx({n: other[n] for n in measured}, rel=1e-3, abs=1e-4)


def test_sharded_training_equals_unsharded_training(folder: Path) -> None:
    search, rows = trained(16)
    wanted = search.outcome().weights
    for rank in range(PROCESSES):
        found = load_file(folder / f"divided-{rank}.safetensors")
        assert found.keys() == wanted.keys()
        for name, tensor in wanted.items():
            torch.testing.assert_close(found[name], tensor, rtol=0, atol=1e-5, msg=lambda text, n=name: f"{n}: {text}")
        figures = json.loads((folder / f"divided-{rank}.json").read_text())
        for one, other in zip(figures, rows, strict=True):
            names = set(other) - {"seconds"}
            assert {n: one[n] for n in names} == pytest.approx({n: other[n] for n in names}, abs=1e-4)


EPOCHS = 12
"""So many that a search can be stopped before their end."""
OVERRIDDEN = ("--set", f"search.training.epochs={EPOCHS}")


STARTED = with_soak(["torchrun", "forked"], ["forked"])


def said_by_two(how: str, folder: Path, name: str, *arguments: object) -> str:
    """What two processes printed that work on a command together: started by torchrun, or in its environment."""
    if how == "torchrun":
        started = command(*arguments, processes=PROCESSES, name=name)
        done = subprocess.run(started, env=surroundings(), text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout
    run_processes(PROCESSES, forked.archir, folder, name, *map(str, arguments))
    return "".join((folder / f"said-{rank}").read_text() for rank in range(PROCESSES))


def searched_by_two(how: str, folder: Path, *more: str) -> Path:
    """The run of a search by two processes that nobody stopped."""
    path = recipe(folder)
    said = said_by_two(how, folder, "search", path, "-o", folder / "run", *more)
    assert said.count("architecture of `retrain`") == 1
    return folder / "run"


@pytest.fixture(scope="module", params=STARTED)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of few epochs."""
    return searched_by_two(request.param, tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of `EPOCHS`."""
    return searched_by_two("torchrun", tmp_path_factory.mktemp("long"), *OVERRIDDEN)


def test_two_process_run_equals_single_process_run(whole: Path, tmp_path: Path) -> None:
    """Every phase, one of which is not trained; the run is one that a single process could have left."""
    overrides = {f"{phase}.training.batch": "64" for phase in ("search", "again", "retrain")}
    backends.get("torch").search(whole.parent / "recipe.toml", tmp_path / "one", overrides=overrides, device="cpu")
    one, two = Run.open(tmp_path / "one"), Run.open(whole)
    assert two.finished
    names = [{name for name in run.entries if "checkpoint" not in name} for run in (one, two)]
    assert names[0] == names[1]
    assert one.content("best.json") == two.content("best.json")
    for phase in ("search", "again"):
        wanted, found = (json.loads(run.content(f"phases/{phase}/alphas.json")) for run in (one, two))
        for what in ("logits", "history"):
            for choice, values in wanted[what].items():
                assert torch.tensor(found[what][choice]) == pytest.approx(torch.tensor(values), abs=1e-5), (phase, what)
    assert [row["loss"] for row in two.phase("retrain").rows()] == pytest.approx(
        [row["loss"] for row in one.phase("retrain").rows()], rel=1e-3
    )


@pytest.mark.parametrize("how", STARTED)
def test_archir_train_by_two_processes_equals_one(how: str, tmp_path: Path) -> None:
    file, settings = tmp_path / "plain.arch", ("--epochs", "2", "--optimizer", "sgd", "--lr", "0.05")
    file.write_text(PLAIN.replace("f32[1, 6, 6]", "f32[1, 8, 8]").replace("linear(3)", "linear(10)"))
    said = said_by_two(how, tmp_path, "train", file, "-o", tmp_path / "two", "--batch", "32", *settings)
    assert said.count("held-out accuracy") == 1
    CliRunner().invoke(main, ["train", str(file), "-o", str(tmp_path / "one"), "--batch", "64", *settings])
    one, two = (json.loads((tmp_path / name / "training.json").read_text()) for name in ("one", "two"))
    assert [epoch["loss"] for epoch in two["history"]] == pytest.approx(
        [epoch["loss"] for epoch in one["history"]], 1e-4
    )
    wanted, found = (load_file(tmp_path / name / "weights.safetensors") for name in ("one", "two"))
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=1e-4, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.soak
def test_resumed_torchrun_search_equals_uninterrupted_one(long: Path, tmp_path: Path) -> None:
    """It comes to what one comes to that nobody stopped."""
    folder = tmp_path / "run"
    begin = command(long.parent / "recipe.toml", "-o", folder, *OVERRIDDEN, processes=PROCESSES)
    with subprocess.Popen(begin, env=surroundings(), text=True, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        while "search: epoch 2" not in process.stderr.readline():
            assert process.poll() is None
        process.terminate()
        said = process.stderr.read()
    assert "search was stopped after epoch" in said
    rows = Run.open(folder).phase("search").rows()
    assert 2 <= len(rows) < EPOCHS
    assert Run.open(folder).phase("search").checkpoints()
    again = command("--resume", folder, processes=PROCESSES)
    done = subprocess.run(again, env=surroundings(), text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    one, other = Run.open(folder), Run.open(long)
    assert one.finished
    assert one.phase("search").rows()[: len(rows)] == rows
    results = [name for name in other.entries if name.endswith(("alphas.json", "weights.safetensors"))]
    assert len(results) == 7
    for name in results:
        assert one.content(name) == other.content(name), name
