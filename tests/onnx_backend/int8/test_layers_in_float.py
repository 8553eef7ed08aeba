"""As few layers as possible stay in float to keep quality; which measure decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

import archir
from archir.backends.samples import Samples
from archir.cli import main
from archir_onnx import BACKEND as ONNX
from archir_onnx.quantization.sensitivity import smallest_float_set
from archir_torch.data import Split
from archir_torch.measuring.evaluator import Evaluator as Halved
from archir_torch.objectives.classification import Classification
from archir_torch.objectives.task import Task
from tests.onnx_backend.int8.judged import accuracy, code_of, command


def spoiled(path: Path, output: Path, images: Samples, name: str) -> None:
    """A model that computes the same, with a layer whose weights int8 cannot hold: on a pixel that never changes
    they are so large that those on others are rounded to nothing."""
    model = onnx.load(path)
    tensors = {one.name: one for one in model.graph.initializer}
    layer = next(node for node in model.graph.node if node.name == name)
    weights, bias = (numpy_helper.to_array(tensors[one]).copy() for one in layer.input[1:])
    pixel = int(np.argmin(images.training["image"].reshape(len(images), -1).std(0)))
    value = float(images.training["image"][0].reshape(-1)[pixel])
    weights[:, pixel] += 3000
    bias -= 3000 * value
    for array, one in ((weights, layer.input[1]), (bias, layer.input[2])):
        tensors[one].CopyFrom(numpy_helper.from_array(array.astype(np.float32), one))
    onnx.save(model, output)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_layer_damaged_by_int8_stays_in_float(mode: str, flat: Path, tmp_path: Path, digits: Samples) -> None:
    spoiled(flat, tmp_path / "net.onnx", digits, "linear/Gemm")
    facts = command(tmp_path / "net.onnx", "-o", tmp_path / "int8.onnx", "--mode", mode)
    assert {row["name"]: row["why"] for row in facts["layers"]} == {
        "linear/Gemm": "costs too much",
        "linear_2/Gemm": None,
        "linear_3/Gemm": None,
    }
    assert facts["loss"] <= 1
    assert facts["rounds"] == 1
    assert digits.evaluator is not None
    assert facts["chosen"] + facts["held_out"] == len(digits.evaluator)
    assert abs(facts["chosen"] - facts["held_out"]) <= 10
    for file, when in (("net.onnx", "before"), ("int8.onnx", "after")):
        assert facts[when]["accuracy"] == accuracy(tmp_path / file, digits, digits.evaluator.halves()[1])
    alone = {row["name"]: row["alone"] for row in facts["layers"]}
    assert alone["linear/Gemm"] > 5 * max(alone["linear_2/Gemm"], alone["linear_3/Gemm"])
    lost = ONNX.quantize(tmp_path / "net.onnx", tmp_path / "lost.onnx", digits, mode=mode, max_loss=100, seconds=0)
    assert lost.loss > 10


def test_unreachable_accuracy_raises_and_writes_nothing(flat: Path, tmp_path: Path, digits: Samples) -> None:
    spoiled(flat, tmp_path / "net.onnx", digits, "linear/Gemm")
    keep = ["linear_2*", "linear_3*"]
    output = tmp_path / "int8.onnx"
    assert (
        code_of(lambda: archir.quantize(tmp_path / "net.onnx", output, mode="static", keep=keep, seconds=0)) == "A2803"
    )
    assert not output.exists()


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_held_out_halves_are_disjoint_and_stratified(labels: list[int]) -> None:
    """They have every sample once, and of every class the same number, up to one."""
    split = Split({"x": torch.arange(len(labels)).float()}, {"label": torch.tensor(labels)})
    halves = Halved(Task(Classification(), ["y"], seed=0, device="cpu"), split, ["x"], labelled=True).halves()
    one, other = (half.split for half in halves)
    assert min(len(one), len(other)) > 0
    if len(labels) == 1:  # both halves have it
        return
    assert sorted([*one.images.tolist(), *other.images.tolist()]) == list(range(len(labels)))
    for kind in set(labels):
        assert abs(int((one.labels == kind).sum()) - int((other.labels == kind).sum())) <= 1


@pytest.mark.parametrize("needed", range(9))
def test_fewest_layers_return_to_float(needed: int) -> None:
    costs = {f"{number}": float(number) for number in range(8)}
    order = sorted(costs, reverse=True)
    asked: list[int] = []

    def loses(back: Any) -> bool:
        assert list(back) == order[: len(back)]
        asked.append(len(back))
        return len(back) < needed

    assert smallest_float_set(costs, loses) == (order[: max(needed, 1)] if needed < 8 else None)
    assert len(asked) <= 6


def test_a_regression_is_judged_by_its_measures(tmp_path: Path) -> None:
    """On numbers as they come, too; without an objective, nothing is measured of what has no labels."""
    rng = np.random.default_rng(0)
    rows = rng.normal(3, 2, (400, 6)).astype(np.float32)
    prices = (rows @ rng.normal(size=(6, 1)) + 0.1 * rows[:, :1] ** 2).astype(np.float32)
    np.savez(tmp_path / "prices.npz", x=rows, y=prices)
    net = """net price {
        input row: f32[6]
        output price = row |> linear(32) |> relu |> linear(32) |> relu |> linear(1)
    }"""
    graph, data = archir.loads(net).graph, str(tmp_path / "prices.npz")
    settings = {"epochs": 10, "lr": 1e-2, "objective": {"kind": "regression"}}
    module, result = archir.train(graph, data=data, settings=settings)
    for form in ({}, {"scales": result.images["scales"]}):
        archir.export(graph, tmp_path / "net.onnx", module, **form)
        objective = '{kind = "regression", criterion = "mae"}'
        facts = command(tmp_path / "net.onnx", "-o", tmp_path / "int8.onnx", "--data", data, "--objective", objective,
                        "--max-loss", "400", "--mode", "static")  # fmt: skip
        assert next(iter(facts["before"])) == facts["criterion"] == "mae"
        for name in ("mae", "mse", "r2", "loss"):
            wanted = result.measures["held_out_loss" if name == "loss" else name]
            assert facts["before"][name] == pytest.approx(wanted, rel=1e-3)
        lost = facts["after"]["mae"] / facts["before"]["mae"] - 1
        assert facts["loss"] == pytest.approx(100 * lost)
        assert lost < 4
    assert command(tmp_path / "net.onnx", "-o", tmp_path / "int8.onnx", "--data", data)["before"] == {}


def test_a_model_of_texts_is_judged_token_by_token(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(b"to be or not to be, that is the question. " * 100)
    net = """net words {
        input words: i64[16]
        output next = words |> embedding(256, 16) |> conv1d(32, kernel=3, padding=[2, 0]) |> relu |> linear(256)
    }"""
    graph, data = archir.loads(net).graph, str(tmp_path / "text.txt")
    module, result = archir.train(graph, data=data, settings={"epochs": 4, "objective": {"kind": "next_token"}})
    archir.export(graph, tmp_path / "net.onnx", module)
    said = CliRunner().invoke(main, [
        "quantize", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "int8.onnx"), "--seconds", "0", "--data", data,
        "--objective", "next_token", "--max-loss", "50",
    ])  # fmt: skip
    assert said.exit_code == 0, said.output
    assert f"held-out perplexity {result.measures['perplexity']:.4g} -> " in said.stdout
    wrong = code_of(lambda: archir.quantize(
        tmp_path / "net.onnx", tmp_path / "x.onnx", data=data, objective={"kind": "multilabel"}, seconds=0
    ))  # fmt: skip
    assert wrong in ("A1903", "A1116")
