"""Speed of int8 models: measured, printed with reasons if int8 is not faster, and used to choose the mode."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

import archir
from archir.backends.speed.measurements import Latency
from archir.cli import main
from archir_onnx.quantization.speed import Speedup, reasons_for_slowness, speedup


def test_quantize_command_prints_and_stores_speed(trained: Path, tmp_path: Path) -> None:
    output = tmp_path / "int8.onnx"
    result = CliRunner().invoke(main, ["quantize", str(trained), "-o", str(output), "--seconds", "0.05"])
    assert result.exit_code == 0, result.output
    assert "median time of a run" in result.stdout
    speed = json.loads((tmp_path / "int8.onnx.int8.json").read_text())["speed"]
    assert speed["before"] > 0
    assert speed["after"] > 0
    assert ("int8 is not faster here" in result.stderr) == (speed["after"] >= speed["before"])


def test_quantize_command_prints_intervals_and_noise(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    latencies = [
        Latency.of(*[[2_000_000 + 1_000 * turn] * 3 for turn in range(10)]),
        Latency.of([1_000_000, 9_000_000]),
    ]

    def measured(original: Path, versions: Sequence[Path], seconds: float) -> list[Speedup]:
        return [speedup(*latencies, 1, path) for path in versions]

    monkeypatch.setattr(import_module("archir_onnx.quantization.quantize"), "compare_speed", measured)
    result = CliRunner().invoke(main, ["quantize", str(trained), "-o", str(tmp_path / "int8.onnx")])
    assert "median time of a run 2.005 ± 0.002 -> 5.000 ms (2.49x)" in " ".join(result.stdout.split())
    assert "1 of 2 measurements vary by more than 20%: is the machine busy?" in result.stderr


def test_latency_is_noisy_if_it_varies_by_a_fifth_of_its_median() -> None:
    assert Latency.of([100, 100, 125, 125]).is_noisy
    assert not Latency.of([100, 100, 115, 115]).is_noisy


def test_reasons_name_operators_without_int8_kernels(tmp_path: Path) -> None:
    text = """
    net waves {
        input image: f32[1, 8, 8]
        x = image
        for i in 0..3 { x = x |> conv(4) |> tanh |> softplus }
        output y = x |> global_avg_pool |> linear(10)
    }
    """
    space = archir.loads(text)
    archir.export(space, tmp_path / "net.onnx", archir.compile(space))
    options = {"mode": "static", "max_loss": 100, "seconds": 0}
    archir.quantize(tmp_path / "net.onnx", tmp_path / "int8.onnx", **options)  # type: ignore[arg-type]
    (reason,) = reasons_for_slowness(tmp_path / "int8.onnx")
    assert "conversions between int8 and float remain" in reason
    assert "Tanh" in reason
    archir.quantize(tmp_path / "net.onnx", tmp_path / "kept.onnx", keep=["*conv*"], **options)  # type: ignore[arg-type]
    assert reasons_for_slowness(tmp_path / "kept.onnx")[0] == "3 layers stay in float"


@pytest.mark.parametrize("fastest", ["static", "dynamic"])
def test_auto_keeps_the_faster_mode(fastest: str, flat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(original: Path, versions: Sequence[Path], seconds: float) -> list[Speedup]:
        return [Speedup(2.0, 1.0 if path.stem == fastest else 3.0, 1, 1) for path in versions]

    monkeypatch.setattr(import_module("archir_onnx.quantization.quantize"), "compare_speed", measured)
    made = archir.quantize(flat, tmp_path / "int8.onnx", max_loss=100)
    assert made.mode == fastest
    assert made.speed is not None
    assert made.speed.ratio == 0.5
