"""The task examples run from data to a served answer, and their searches beat chance."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from numpy.typing import NDArray

import archir
from archir import backends
from archir.api import lowering
from archir.cli import main
from archir.cli.train_folder import open_run
from archir.data.inputs import inputs_of
from archir.data.splits import split_source
from archir.recipes.parsing import read
from archir.runs.folder import WEIGHTS
from archir_torch.data import Data, Split, load
from benchmarks.chance import TASKS, compare_with_random, write_data
from tests.conftest import EXAMPLES

FOLDER = EXAMPLES / "tasks"
SMALL = {
    "table": {"search.options.trials": "2", "search.options.population": "2"},
    "labels": {"search.options.trials": "2", "search.options.population": "2"},
    "shapes": {"search.options.trials": "4", "search.options.population": "4"},
    "own": {"search.options.trials": "2"},
    "series": {"search.options.trials": "2", "search.options.population": "2"},
    "sounds": {"search.options.trials": "2", "search.options.population": "2"},
    "language": {
        "search.options.trials": "2",
        "search.options.population": "2",
        "search.options.parents": "2",
        "finalists.options.count": "2",
    },
}


def searched(name: str, folder: Path, **overrides: str) -> tuple[Mapping[str, Any], str]:
    """What a search of little data came to, and its source of data."""
    recipe = FOLDER / name / "recipe.toml"
    sizes = {"series": {"steps": 600}, "sounds": {"each": 30}}
    source = write_data(name, folder, **sizes.get(name, {})) or read(recipe).recipe.data.source
    settings = overrides | {"data.source": json.dumps(source)}
    return archir.run(recipe, folder / "run", overrides=settings, device="cpu"), source


@pytest.mark.parametrize("name", TASKS)
def test_task_runs_from_data_to_served_answer(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search, export, verify, serve: what is sent are samples as the data have them."""
    phases = [phase.name for phase in read(FOLDER / name / "recipe.toml").recipe.phase]
    once = {f"{phase}.training.epochs": "1" for phase in phases}
    limits = {} if name == "series" else {"data.limit": "100"}
    summary, source = searched(name, tmp_path, **once, **limits, **SMALL.get(name, {}))
    criterion, larger = TASKS[name]
    assert summary["measures"]["retrain"]["criterion"] == criterion
    assert summary["measures"]["retrain"]["measures"][criterion] == larger
    assert isinstance(summary["network"][criterion], float)
    assert summary["onnx"]["relative"] < 1e-5
    assert f"validation_{criterion}" in summary["phases"]["search"]
    assert criterion in (tmp_path / "run" / "report.html").read_text()
    model = tmp_path / "net.onnx"
    for command in (["export", f"{tmp_path / 'run'}", "-o", str(model), "--preprocess"], ["verify", str(model)]):
        done = CliRunner().invoke(main, command, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    monkeypatch.syspath_prepend(str(EXAMPLES / "serve"))
    sample, wanted = first(summary, source, tmp_path / "run")
    status, answer = answered(model, {"inputs": sample.tolist()})
    assert status == 200, answer
    (output,) = answer["outputs"].values()
    np.testing.assert_allclose(output, wanted, rtol=1e-3, atol=1e-3)
    assert ("classes" in answer) == (name == "sounds")


def first(summary: Mapping[str, Any], source: str, run: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """A sample as the data have it, of images [H, W, C], and what the run's network makes of it as it was trained."""
    trained = open_run(run)
    module = lowering.compile(trained.graph)
    backends.get("torch").load(module, run / WEIGHTS)
    inputs = inputs_of(trained.graph)
    data = load(source, inputs, limit=None if source.startswith("series") else 100, labelled=False)
    raw = split_source(source, inputs, False)[0].inputs[inputs[0].name][int(data.train.rows[0])]
    wanted = module.eval()(data.train.pixels[torch.tensor([0])])[0].detach().numpy()
    if not inputs[0].is_image:
        return raw.squeeze(), wanted
    return (raw if raw.dtype == np.uint8 else np.rint(255 * raw).astype(np.uint8)).transpose(1, 2, 0), wanted


def answered(model: Path, body: Any) -> tuple[int, Any]:
    """What the service answers, without a socket between."""
    from model import Model  # of examples/serve
    from service import Service, Settings

    content, parts = json.dumps(body).encode(), list[Any]()

    async def receive() -> Any:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        parts.append(message)

    async def ask() -> None:
        app = Service(Model(model, 1), Settings()).app()
        scope = {
            "type": "http", "method": "POST", "path": "/predict", "query_string": b"", "http_version": "1.1",
            "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())],
        }  # fmt: skip
        async with app.router.lifespan_context(app):
            await app(scope, receive, send)

    asyncio.run(ask())
    return parts[0]["status"], json.loads(b"".join(part["body"] for part in parts[1:]))


def bigram(data: Data) -> float:
    """The perplexity of held-out tokens given the one before: counts of the training part, one added to each."""
    counts, parts = torch.ones(256, 256, dtype=torch.float64), []
    for part in (data.train, data.held_out):
        (seen,), (after,) = part.inputs.values(), part.targets.values()
        parts.append(256 * seen[torch.arange(len(part))].flatten() + after.flatten())
    counts.view(-1).index_add_(0, parts[0], torch.ones(len(parts[0]), dtype=torch.float64))
    chances = (counts / counts.sum(1, keepdim=True)).flatten()
    return float((-chances[parts[1]].log().mean()).exp())


def test_bigrams_are_counted() -> None:
    """Of `abab...`, `b` follows `a` always: 101 of 101 + 255 counts say so."""
    tokens = torch.tensor([[97, 98] * 100 + [97]])
    split = Split({"bytes": tokens[:, :-1]}, {"next": tokens[:, 1:]})
    assert bigram(Data(split, split, (), (), ())) == pytest.approx(356 / 101)


@pytest.mark.soak
def test_a_gpt_knows_more_than_bigrams(tmp_path: Path) -> None:
    """In at most two minutes of processor time; 14.4 and 19.2 when the table was written."""
    begin = time.process_time()
    summary, source = searched("language", tmp_path)
    assert time.process_time() - begin < 120
    inputs = inputs_of(open_run(tmp_path / "run").graph)
    data = load(source, inputs, limit=read(FOLDER / "language" / "recipe.toml").recipe.data.limit)
    assert summary["network"]["perplexity"] < 0.9 * bigram(data)


@pytest.mark.soak
@pytest.mark.timeout(1200)  # 21 trainings; those of texts: 150 s of processor time, on a busy machine many more
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TASKS)
def test_found_network_beats_median_of_random_ones(name: str, seed: int, tmp_path: Path) -> None:
    """Of at most its cost, all trained alike (benchmarks/chance.py)."""
    found = compare_with_random(name, seed, tmp_path)
    assert found.won, (found.figure, found.ranked)
