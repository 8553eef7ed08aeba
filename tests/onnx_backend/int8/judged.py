"""Functions of the tests of int8 models: create, evaluate and change them."""

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


def accuracy(path: Path, samples: Samples, evaluator: Evaluator | None = None) -> float:
    """Return the held-out accuracy of a model."""
    onnx_session, interface, evaluator = (
        session(path),
        ModelInterface.of(onnx.load(path)),
        evaluator or samples.evaluator,
    )
    assert evaluator is not None
    return evaluator.measured(lambda arrays: run_batches(onnx_session, interface, arrays, samples))["accuracy"]


def command(*arguments: Any) -> dict[str, Any]:
    """Return the output of `archir quantize ... --json`."""
    result = CliRunner().invoke(main, ["quantize", *map(str, arguments), "--json", "--seconds", "0"])
    assert result.exit_code == 0, result.output
    output: dict[str, Any] = json.loads(result.stdout)
    return output


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(ArchError) as caught:
        call()
    return caught.value.diagnostics[0].code


def changed(path: Path, output: Path, change: Callable[[onnx.ModelProto], Any]) -> Path:
    model = onnx.load(path)
    change(model)
    onnx.save(model, output)
    return output
