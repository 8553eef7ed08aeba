"""`archir latency table` and `check`, and the figures in docs/latency.md."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

import archir
from archir.cli import main
from archir.costs.latencies.measurement import MAX_BYTES, MAX_OPERATIONS, OPERATION_EFFORT
from archir.costs.latencies.timing import COUNTED, Effort, Timing
from archir.costs.latencies.workloads import space_workloads
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from tests.conftest import ROOT
from tests.latencies import SMALL, table_of, validation
from tests.project.test_layers import FRAMEWORKS, run_alone
from tests.published.test_spaces import space_of

# the documentation


def test_documented_latency_figures_match_the_code() -> None:
    text = " ".join((ROOT / "docs" / "latency.md").read_text().split())
    effort = Effort()
    space = space_of("full_attention")
    assert f"the {space.size / 1e12:.1f} trillion architectures" in text
    assert f"use {len(space_workloads(space.graph))} different operations" in text
    assert f"until a sample lasts {effort.sample_ns / 1e6} ms." in text
    assert f"in {effort.visits} visits, in which" in text
    assert f"up to {effort.max_visits} visits until half of them are known to {100 * effort.precision:.0f} %" in text
    assert f"by itself for {effort.warm_ns / 1e6:.0f} ms before it is timed for {effort.warm_ns / 1e6:.0f} ms" in text
    assert effort.max_ns == 1e10
    assert "at most ten seconds" in text
    assert f"The fastest {100 * COUNTED:.0f} % of the samples count" in text
    assert f"more than {MAX_BYTES >> 30} GiB" in text
    assert f"in groups of at most {MAX_OPERATIONS} operations" in text
    assert f"in {OPERATION_EFFORT.visits} visits with {OPERATION_EFFORT.warm_ns / 1e6:.0f} ms each" in text


@pytest.mark.soak
def test_documented_latency_program_runs(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python part\n(.*?)```", (ROOT / "docs" / "latency.md").read_text(), re.DOTALL)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    run_alone(f"import archir\n{program}\n", tmp_path)
    archir.latency_table(tmp_path / "attention.json").check_covers(space_of("full_attention", channels=16).graph)


# the command


def run(*arguments: str, code: int | None = 0) -> Result:
    """Run the command; the exit code is `code`, or 0 or 1 if that depends on how fast networks are here."""
    result = CliRunner().invoke(main, ["latency", *arguments], catch_exceptions=False)
    assert result.exit_code in ((0, 1) if code is None else (code,)), result.output + result.stderr
    return result


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "tiny.arch").write_text(SMALL["depth"])
    return str(tmp_path / "tiny.arch")


@pytest.mark.parametrize("device", ["cpu", "onnxruntime-cpu"])
def test_a_table_is_made_validated_and_calibrated(device: str, file: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t.json")
    data = json.loads(run("table", file, "-o", path, "--device", device, "--threads", "1", "--json").stdout)
    space = archir.load(file)
    table = archir.latency_table(path)
    assert data["operations"] == len(table.entries) == len(space_workloads(space.graph))
    assert (table.device, table.batch, table.threads) == (device, 1, 1)
    assert any(entry.mean > 0 for entry in table.entries.values())
    assert "replace it with --force" in run("table", file, "-o", path, "--device", device, code=1).stderr
    again = run("table", file, "-o", path, "--device", device, "--resume")
    assert f"{len(table.entries)} operations on {device}, 1 thread, batch 1" in again.stdout
    assert archir.latency_table(path) == table
    text = run("check", file, path, "-n", "4", code=None).stdout
    assert "rank correlation (Spearman)" in text
    data = json.loads(run("check", file, path, "-n", "6", "--seed", "3", "--json", code=None).stdout)
    assert len(data["networks"]) == 6
    assert all(one["measured"] > 0 and one["predicted"] >= round(table.overhead.mean) for one in data["networks"])
    assert data["error"] >= 0
    assert archir.latency_table(path) == table


def test_a_table_from_other_conditions_is_replaced_with_force(file: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    table_of(["relu(f32[3])"]).write(path)
    resumed = run("table", file, "-o", str(path), "--resume", "--threads", "1", code=1).stderr
    assert "error[A1503]" in resumed
    assert "--force" in resumed
    run("table", file, "-o", str(path), "--force", "--threads", "1")
    assert archir.latency_table(path).entries.keys() == space_workloads(archir.load(file).graph).keys()


def test_calibration_is_written(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = validation([(x, 3 * x + 10) for x in (10.0, 20, 40)])
    monkeypatch.setattr("archir.api.measurement.validate", lambda *_, **__: found)
    path = tmp_path / "t.json"
    table_of([]).write(path)
    assert "latency is 3.000 x sum +0.0 us" in run("check", file, str(path), "--calibrate", code=None).stdout
    assert archir.latency_table(path).correction == found.correction()
    monkeypatch.setattr("archir.api.measurement.validate", lambda *_, **__: validation([(1, 1), (1, 2)]))
    result = run("check", file, str(path), "--calibrate", code=1)
    assert "A1504" in result.stderr
    assert "mean error of the predictions" in result.stdout
    found_json = json.loads(run("check", file, str(path), "--calibrate", "--json", code=1).stdout)
    assert [diagnostic["code"] for diagnostic in found_json["diagnostics"]] == ["A1504"]


def test_an_interrupted_command_says_how_to_go_on(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import archir.costs.latencies.measurement as benches

    counted = count()

    def measure(graphs: Sequence[Graph], *_: Any, **__: Any) -> list[Timing]:
        if next(counted) == 2:  # after the overhead and the first group
            raise KeyboardInterrupt
        return [Timing(1, 0, 3)] * len(graphs)

    path = tmp_path / "t.json"
    with monkeypatch.context() as patched:
        patched.setattr(benches, "measure_networks", measure)
        patched.setattr(benches, "MAX_OPERATIONS", 2)
        result = run("table", file, "-o", str(path), "--threads", "1", code=1)
    assert "continue with --resume" in result.stderr
    assert len(archir.latency_table(path).entries) == 2
    run("table", file, "-o", str(path), "--resume")
    assert archir.latency_table(path).entries.keys() == space_workloads(archir.load(file).graph).keys()


def test_what_cannot_be_fitted_is_refused_before_measuring(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archir.api.measurement.measured_latency", None)
    path = str(tmp_path / "m.json")
    assert "needs 5 to 2,000 measured networks, not 3" in run("fit", file, "-o", path, "-n", "3", code=1).stderr
    table_of(["relu(f32[3])"]).write(tmp_path / "t.json")
    operations = ["--operations", str(tmp_path / "t.json")]
    assert "A1502" in run("fit", file, "-o", path, *operations, code=1).stderr


def test_rejects_missing_files_and_calibration_of_models(file: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t.json")
    assert "A1501" in run("check", file, path, code=1).stderr
    assert "Missing option '-o'" in run("table", file, code=2).stderr
    space = archir.load(file)
    architectures = [*space.enumerate()][:8]
    archir.fit_latency(space, architectures, [*range(100, 900, 100)], path)  # not measured by archir
    assert "is a model" in run("check", file, path, "--calibrate", code=2).stderr
    assert "A1503" in run("check", file, path, code=1).stderr


def test_predictions_that_do_not_hold_are_not_fit_for_bounds(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    table_of([]).write(path)
    rising = [(x, 3 * x + 10) for x in range(10, 30)]
    monkeypatch.setattr("archir.api.measurement.validate", lambda *_, **__: validation(rising))
    result = run("check", file, str(path), code=1)
    assert "not fit for bounds: only 0 of 20 held-out networks" in result.stdout
    assert "fit for bounds once it is calibrated: --calibrate" in result.stdout
    assert "fit for bounds: 20 of 20 held-out networks" in run("check", file, str(path), "--calibrate").stdout
    shuffled = [(x, 50 + x * 7 % 20) for x in range(10, 30)]
    monkeypatch.setattr("archir.api.measurement.validate", lambda *_, **__: validation(shuffled))
    result = run("check", file, str(path), code=1)
    assert "; the rank correlation is" in result.stdout
    assert json.loads(run("check", file, str(path), "--json", code=1).stdout)["fit_for_bounds"] is False


def test_rejects_unknown_or_missing_devices(file: str, tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=r"A1505(.|\n)*did you mean `cuda`"):
        archir.measure_operations(archir.load(file), tmp_path / "t.json", device="cudaa")  # type: ignore[arg-type]
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert "A1505" in run("table", file, "-o", str(tmp_path / "t.json"), "--device", "cuda", code=1).stderr
    assert "A0914" in run("table", file, "-o", str(tmp_path / "t.json"), "--device", "onnxruntime-cuda", code=1).stderr
    assert not (tmp_path / "t.json").exists()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("device", ["cuda", "onnxruntime-cuda"])
def test_gpu_table_names_gpu_and_validates(device: Any, file: str, tmp_path: Path) -> None:
    table = archir.measure_operations(archir.load(file), tmp_path / "t.json", device=device)
    assert "gpu" in table.machine
    assert archir.validate(table, archir.load(file), 4).error >= 0


def test_reading_a_table_loads_no_framework(tmp_path: Path) -> None:
    table_of(["relu(f32[3])"]).write(tmp_path / "t.json")
    program = f"import archir\nassert archir.latency_table('t.json').entries\nloaded({FRAMEWORKS})\n"
    assert run_alone(program, tmp_path) == "[]\n"
