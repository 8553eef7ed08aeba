"""How models in int8 are made, and judged, by the tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner

from archir.backends.samples import Evaluator, Samples
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir_onnx.quantization.batch_inference import ModelInterface, run_batches
from archir_onnx.running.sessions import session


def accuracy(path: Path, known: Samples, judge: Evaluator | None = None) -> float:
    """The held-out accuracy of a model."""
    running, entrance, judge = session(path), ModelInterface.of(onnx.load(path)), judge or known.evaluator
    assert judge is not None
    return judge.measured(lambda arrays: run_batches(running, entrance, arrays, known))["accuracy"]


def command(*arguments: Any) -> dict[str, Any]:
    """What `archir quantize ... --json` prints."""
    result = CliRunner().invoke(main, ["quantize", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(ArchError) as caught:
        call()
    return caught.value.diagnostics[0].code


def changed(path: Path, output: Path, change: Callable[[onnx.ModelProto], Any]) -> Path:
    model = onnx.load(path)
    change(model)
    onnx.save(model, output)
    return output
