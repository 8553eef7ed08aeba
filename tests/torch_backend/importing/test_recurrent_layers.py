"""LSTM, GRU and RNN, which the library has as blocks: both ways, several layers, from torch and from ONNX files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import archir
from archir.backends.imports import program_of
from archir.diagnostics.errors import ArchError
from tests.onnx_backend.reading.test_reading import file, node, numbers

TOKENS = torch.zeros(1, 4, 5)


class Tagger(nn.Module):
    """A recurrent layer, and a map of what it gives or of its last states."""

    def __init__(self, layer: nn.Module, width: int, what: str) -> None:
        super().__init__()
        self.layer, self.head, self.what = layer, nn.Linear(width, 3), what

    def forward(self, x: Tensor) -> Any:
        if self.what == "tokens first":
            return self.head(self.layer(x.transpose(0, 1))[0].transpose(0, 1))
        y, states = self.layer(x)
        last = states[0] if isinstance(states, tuple) else states
        return self.head(last[-1] if self.what == "last" else y)


@pytest.mark.parametrize(
    ("layer", "width", "what", "said"),
    [
        (nn.LSTM(5, 6, 2, batch_first=True, bidirectional=True), 12, "all", ["lstm(6, reverse=true"]),
        (nn.LSTM(5, 6), 6, "tokens first", ["lstm(6, recurrent_bias=true)"]),
        (nn.GRU(5, 6, batch_first=True), 6, "last", ["gru(6)"]),
        (nn.RNN(5, 6, batch_first=True, bias=False), 6, "all", ["rnn(6, bias=false)"]),
    ],
    ids=["both ways", "tokens first", "last state", "no bias"],
)
def test_torch_recurrent_layers_import_as_blocks(
    layer: nn.Module, width: int, what: str, said: list[str], tmp_path: Path
) -> None:
    module = Tagger(layer, width, what)
    imported = archir.from_torch(module, TOKENS)
    program = program_of(imported)
    assert program.lines <= 9
    assert all(one in program.text for one in said)
    assert {source.name for source in program.sources.values()} == module.state_dict().keys()
    archir.export(imported.graph, tmp_path / "own.onnx", archir.compile(imported.graph), deployed=False)
    found = archir.from_onnx(tmp_path / "own.onnx").graph
    assert archir.canonical_hash(found) == archir.canonical_hash(imported.graph)


class Handed(nn.Module):
    """A layer whose first state is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(5, 6, batch_first=True)

    def forward(self, x: Tensor, state: Tensor) -> Any:
        return self.layer(x, state.unsqueeze(0))[0]


def test_rejects_explicit_initial_states() -> None:
    with pytest.raises(ArchError, match="states before the first token"):
        archir.from_torch(Handed(), (TOKENS, torch.zeros(1, 6)))


ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


@pytest.mark.parametrize("spelled", [False, True], ids=["", "activations"])
@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_onnx_recurrent_layers_import_as_blocks(operator: str, spelled: bool, tmp_path: Path) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    weights = {"w": numbers(2, 6 * gates, 5), "r": numbers(2, 6 * gates, 6), "b": numbers(2, 12 * gates)}
    how: dict[str, Any] = {"direction": "bidirectional", "hidden_size": 6}
    how |= {"linear_before_reset": 1} if operator == "GRU" else {}
    how |= {"activations": ACTIVATIONS[operator] * 2} if spelled else {}
    nodes = [node("Transpose", "x", "t", perm=[1, 0, 2]), node(operator, "t w r b", "states", **how)]
    nodes += [node("Transpose", "states", "u", perm=[2, 0, 1, 3]), node("Reshape", "u shape", "y")]
    shape = np.array([0, 0, -1], np.int64)
    imported = archir.from_onnx(file(tmp_path / "m.onnx", nodes, weights | {"shape": shape}, ("N", 4, 5)))
    program = program_of(imported)
    assert f"{operator.lower()}(6" in program.text
    assert program.lines <= 6


def test_rejects_nonstandard_recurrent_activations(tmp_path: Path) -> None:
    weights = {"w": numbers(1, 6, 5), "r": numbers(1, 6, 6)}
    nodes = [node("RNN", "x w r", "y", hidden_size=6, activations=["Relu"], layout=1)]
    with pytest.raises(ArchError, match="other activations"):
        archir.from_onnx(file(tmp_path / "m.onnx", nodes, weights, ("N", 4, 5)))
