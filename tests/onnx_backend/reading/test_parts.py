"""Partial import of ONNX models: the largest supported part is imported, and everything left out is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import archir
from archir.diagnostics.errors import ArchError
from archir.language.decompiler.imported import Imported
from tests.onnx_backend.reading.test_reading import file, node, numbers, operations

WEIGHTS = {"w": numbers(8, 4, 3, 3), "v": numbers(4, 8, 3, 3), "u": numbers(4, 4, 1, 1), "zero": np.float32(0)}


def part_of(path: Path) -> Imported:
    return archir.from_onnx(path, partial=True)


def branch(operator: str) -> object:
    """A graph of one operator, which reads a value `c` of the graph around it."""
    made = helper.make_tensor_value_info("b", TensorProto.FLOAT, [1, 4, 8, 8])
    return helper.make_graph([node(operator, "c", "b")], operator, [], [made])


def test_partial_import_takes_largest_supported_part(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "a", pads=[1] * 4), node("Relu", "a", "r"), node("Conv", "r v", "c", pads=[1] * 4),
        node("Det", "c", "d"), node("Unique", "c", "u_"), node("Conv", "c u", "e"), node("Add", "e u_", "f"),
        node("Add", "f d", "y"),
    ]  # fmt: skip
    path = file(tmp_path / "m.onnx", nodes, WEIGHTS)
    with pytest.raises(ArchError, match=r"Det.*`d`"):
        archir.from_onnx(path)
    found = part_of(path)
    assert operations(found) == ["conv", "relu", "conv", "conv"]
    assert [*found.graph.inputs] == ["x"]
    assert [*found.graph.outputs] == ["c", "e"]
    assert {source.name for source in found.sources.values()} == {"w", "v", "u"}
    assert [one.message for one in found.problems] == [
        "Det (`d`): archir has no such operation",
        "Unique (`u_`): archir has no such operation",
    ]


def test_control_flow_result_becomes_input_of_partial_import(tmp_path: Path) -> None:
    """What stands beside it is named, too; what its branches read of the network is an output of what is before."""
    chosen = helper.make_node("If", ["g"], ["h"], then_branch=branch("Relu"), else_branch=branch("Neg"))
    nodes = [
        node("Conv", "x u", "c"), node("ReduceMax", "c", "m", keepdims=0), node("Greater", "m zero", "g"), chosen,
        node("Conv", "h t", "a", pads=[1] * 4), node("Conv", "a v", "b", pads=[1] * 4), node("Hardmax", "b", "y"),
    ]  # fmt: skip
    path = file(tmp_path / "m.onnx", nodes, WEIGHTS | {"t": numbers(8, 4, 3, 3)}, (1, 4, 8, 8))
    with pytest.raises(ArchError) as refused:
        archir.from_onnx(path)
    assert {one.message.split(" ")[0] for one in refused.value.diagnostics} == {"If", "Hardmax"}
    found = part_of(path)
    assert operations(found) == ["conv", "conv"]
    assert [*found.graph.inputs] == ["h"]
    assert [*found.graph.outputs] == ["b"]


def test_partial_import_rejects_model_without_supported_part(tmp_path: Path) -> None:
    with pytest.raises(ArchError, match="no part that can be imported"):
        part_of(file(tmp_path / "m.onnx", [node("Det", "x", "y")]))


def test_partial_import_of_supported_model_has_no_problems(tmp_path: Path) -> None:
    found = part_of(file(tmp_path / "m.onnx", [node("Conv", "x w", "y")], WEIGHTS))
    assert not found.problems
    assert operations(found) == ["conv"]


def test_input_names_become_valid_identifiers(tmp_path: Path) -> None:
    path = file(tmp_path / "m.onnx", [node("Conv", "Image.1 w", "y")], WEIGHTS, name="Image.1")
    assert [*archir.from_onnx(path).graph.inputs] == ["Image_1"]


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_reflect_and_edge_padding_import(mode: str, tmp_path: Path) -> None:
    nodes = [node("Pad", "x pads", "p", mode=mode), node("Conv", "p w", "y")]
    weights = {**WEIGHTS, "pads": np.array([0, 0, 1, 2, 0, 0, 0, 1], np.int64)}
    assert "conv" in operations(archir.from_onnx(file(tmp_path / "m.onnx", nodes, weights)))
