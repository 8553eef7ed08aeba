"""A trained network made smaller: what it was is measured as it was, and what it becomes keeps the budget."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import archir
from archir.backends.speed.measurements import Latency, Speed, Speeds, Subject
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir.recipes.external_files import DATA_KEY
from archir_torch.lowering.module import lower
from archir_torch.lowering.weights import save_weights

NETS = """
block layer(x, width) {
    return x |> conv(width, stride=2) |> batch_norm |> relu
}

net full() {
    input image: f32[1, 8, 8]
    x = image |> layer(12) |> layer(16)
    output logits = x |> global_avg_pool |> linear(10)
}

net space() {
    input image: f32[1, 8, 8]
    x = image |> layer(choose a(4, 8, 12)) |> layer(choose b(8, 16))
    output logits = x |> global_avg_pool |> linear(10)
}

net wider() {
    input image: f32[1, 8, 8]
    x = image |> layer(choose a(4, 8, 14)) |> layer(16)
    output logits = x |> global_avg_pool |> linear(10)
}
"""
QUICK = {"epochs": 1, "trials": 4, "threads": 1}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a network was trained: its net, its weights, its accuracy."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "nets.arch").write_text(NETS)
    graph = archir.load(f"{folder}/nets.arch:full").graph
    settings = {"epochs": 2, "seed": 0}
    network, result = archir.train(graph, settings=settings, device="cpu")
    save_weights(network, folder / "full.safetensors", {DATA_KEY: json.dumps(["digits"])})  # as `archir train` does
    (folder / "accuracy.json").write_text(json.dumps(result.measures["accuracy"]))
    return folder


def shrunk(trained: Path, folder: Path, **given: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"space": f"{trained}/nets.arch:space", "settings": QUICK, "device": "cpu", "int8": False}
    net, weights = f"{trained}/nets.arch:full", trained / "full.safetensors"
    return archir.shrink(net, weights, "macs <= 0.5x", folder, **options | given)


def in_no_time(networks: Mapping[str, Graph], on: Sequence[str], seconds: float) -> Speeds:
    """What `measure` says, without processes for it: a run takes a nanosecond for each multiplication."""
    return Speeds(
        tuple(
            Speed(Subject(name, one, 1, 1), Latency.of([archir.cost(graph).macs]), None, 0)
            for name, graph in networks.items()
            for one in on
        ),
        (),
        {},
    )


def test_shrink_reports_before_and_after_within_budgets(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archir.api.shrinking.bench", in_no_time)
    arguments = [
        "shrink", f"{trained}/nets.arch:full", "--weights", str(trained / "full.safetensors"), "--choose",
        "widths", "--budget", "macs <= 0.6x", "--budget", "params < 2K", "--elastic", "1",
        "--epochs", "1", "--trials", "2", "--teach", "alone", "--threads", "1",
        "--device", "cpu", "-o", str(tmp_path / "run"),
    ]  # fmt: skip
    done = CliRunner().invoke(main, arguments, catch_exceptions=False, env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    assert "tuned" in done.stdout
    assert "networks/tuned/" in done.stdout
    found = json.loads((tmp_path / "run" / "before_and_after.json").read_text())
    report = (tmp_path / "run" / "report.html").read_text()
    assert "<h3>Before and after</h3>" in report
    assert f"<td>{found['after']['macs']:,}</td>" in report
    before, after = found["before"], found["after"]
    assert before["accuracy"] == pytest.approx(json.loads((trained / "accuracy.json").read_text()))
    assert before["params"] == archir.cost(archir.load(f"{trained}/nets.arch:full").graph).params
    assert after["macs"] <= 0.6 * before["macs"]
    assert after["params"] < 2000
    assert after["bytes"] < before["bytes"]
    assert after["int8_bytes"] < after["bytes"]
    for found in (before, after):
        assert found["milliseconds, torch"] == found["milliseconds, onnxruntime-cpu"] == found["macs"] / 1e6


@pytest.mark.soak
def test_repeated_shrink_resumes_existing_run(trained: Path, tmp_path: Path) -> None:
    first = shrunk(trained, tmp_path / "run", int8=True)
    assert shrunk(trained, tmp_path / "run")["after"]["accuracy"] == first["after"]["accuracy"]


def test_shrink_rejects_run_with_changed_input_files(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archir.api.shrinking.bench", lambda *_, **__: Speeds((), (), {}))
    (tmp_path / "nets.arch").write_text(NETS)
    (tmp_path / "full.safetensors").write_bytes((trained / "full.safetensors").read_bytes())
    first = shrunk(tmp_path, tmp_path / "run")
    assert shrunk(tmp_path, tmp_path / "run")["after"] == first["after"]
    (tmp_path / "nets.arch").write_text(NETS + "# the same\n")
    with pytest.raises(ArchError, match=r"A2224.*another `nets.arch`"):
        shrunk(tmp_path, tmp_path / "run")
    (tmp_path / "nets.arch").write_text(NETS)
    save_weights(lower(archir.load(f"{trained}/nets.arch:full").graph), tmp_path / "full.safetensors")
    with pytest.raises(ArchError, match=r"A2224.*another `full.safetensors`"):
        shrunk(tmp_path, tmp_path / "run")


def test_shrink_rejects_mismatched_network_space_or_weights(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=r"A2224.*`space` has choices"):
        archir.shrink(f"{trained}/nets.arch:space", trained / "full.safetensors", "macs <= 0.5x", tmp_path / "run",
                      space=f"{trained}/nets.arch:space")  # fmt: skip
    with pytest.raises(ArchError, match=r"A2224.*largest architecture of `wider` is not `full`"):
        shrunk(trained, tmp_path / "run", space=f"{trained}/nets.arch:wider")
    other = lower(archir.loads(NETS.replace("16", "20"), net="full").graph)
    save_weights(other, tmp_path / "other.safetensors")
    with pytest.raises(ArchError, match=r"^error\[A0902\].*`layer_2.conv.weight` in .* has shape \[20, 12, 3, 3\]"):
        archir.shrink(f"{trained}/nets.arch:full", tmp_path / "other.safetensors", "macs <= 0.5x", tmp_path / "run",
                      space=f"{trained}/nets.arch:space", settings=QUICK, device="cpu")  # fmt: skip
    with pytest.raises(ArchError, match=r"A1109.*trials"):
        shrunk(trained, tmp_path / "run", settings=QUICK | {"trials": 0})
    with pytest.raises(ArchError, match=r"A1603.*no architecture has macs <= 10"):
        archir.shrink(f"{trained}/nets.arch:full", trained / "full.safetensors", "macs <= 10", tmp_path / "run",
                      space=f"{trained}/nets.arch:space", settings=QUICK, device="cpu")  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_inherit_without_recalibration_keeps_accuracy(trained: Path, tmp_path: Path) -> None:
    """Its norms' statistics are those that it came with."""
    recipe = f"""
space = "nets.arch:full"
export = false
[[phase]]
name = "as-it-is"
strategy = "inherit"
start = {{ weights = "{trained}/full.safetensors" }}
options = {{ recalibrate = 0 }}
"""
    (tmp_path / "nets.arch").write_text(NETS)
    (tmp_path / "recipe.toml").write_text(recipe)
    summary = archir.run(tmp_path / "recipe.toml", tmp_path / "run", device="cpu")
    assert summary["network"]["accuracy"] == pytest.approx(json.loads((trained / "accuracy.json").read_text()))
