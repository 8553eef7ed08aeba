"""Compacted int8 models are smaller and compute bit-identical results."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import archir
from archir_onnx.quantization import layers as lay
from archir_onnx.quantization.batch_inference import ModelInterface, batches
from archir_onnx.quantization.compact import compact
from archir_onnx.quantization.quantizer import Quantizer
from archir_onnx.quantization.sensitivity import relative_error
from archir_onnx.running.sessions import session
from tests.onnx_backend.quantised import noise

NODES = [("x", "y"), ("x", "z"), ("", "x")]
"""Names and results of nodes: one name is given twice, and one is that of a value."""


def fused(model: bytes, folder: Path) -> Counter[str]:
    """The operators that onnxruntime makes of a model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(folder / "fused.onnx")
    onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(folder / "fused.onnx").graph.node)


def text(model: bytes) -> int:
    """The bytes of a model that are not those of weights."""
    return len(model) - sum(len(one.raw_data) for one in onnx.load_from_string(model).graph.initializer)


@pytest.mark.parametrize("arithmetic", ["static", "dynamic"])
def test_compact_model_is_bit_identical(arithmetic: lay.ResolvedMode, trained: Path, tmp_path: Path) -> None:
    """Outputs are equal to the last bit, onnxruntime fuses the same layers, and all operators are standard ones."""
    model = onnx.load(trained)
    images = noise("image", (1, 8, 8))
    entrance = ModelInterface.of(model)
    given = [dict(arrays) for arrays, _ in batches(entrance, images.training, images)]
    names = [one.name for one in lay.layers(model) if arithmetic == "static" or one.operator == "Gemm"]
    wanted = Quantizer(model, arithmetic, given, tmp_path).quantize(names)
    before = wanted.SerializeToString()
    found = compact(wanted)
    after = found.SerializeToString()
    assert text(after) < 0.5 * text(before)
    assert not found.functions
    assert {entry.domain for entry in found.opset_import} <= {"", "com.microsoft"}
    for arrays in given:
        (one,), (other,) = (session(content).run(None, arrays) for content in (before, after))
        assert np.array_equal(one, other)
    assert fused(before, tmp_path) == fused(after, tmp_path)
    assert fused(after, tmp_path)["QLinearConv"] == (3 if arithmetic == "static" else 0)


def test_compact_keeps_results_of_layers_sharing_weights(trained: Path, tmp_path: Path) -> None:
    """A bias that serves two layers is in the units of one of them."""
    model = onnx.load(trained)
    again = next(node for node in model.graph.node if node.name == "unit_3.conv/Conv")
    copy = onnx.NodeProto()
    copy.CopyFrom(again)
    copy.name, copy.input[0], copy.output[0] = "again", again.output[0], "again"
    for node in model.graph.node:
        node.input[:] = ["again" if name == again.output[0] else name for name in node.input]
    model.graph.node.insert([*model.graph.node].index(again) + 1, copy)
    images = noise("image", (1, 8, 8))
    given = [dict(arrays) for arrays, _ in batches(ModelInterface.of(model), images.training, images)]
    wanted = Quantizer(model, "static", given, tmp_path).quantize([one.name for one in lay.layers(model)])
    before = wanted.SerializeToString()
    after = compact(wanted).SerializeToString()
    (one,), (other,) = (session(content).run(None, given[0]) for content in (before, after))
    assert np.array_equal(one, other)
    (exact,) = session(model.SerializeToString()).run(None, given[0])
    assert relative_error(one, exact) < 0.1


def test_weights_have_seven_bits_so_that_no_cpu_saturates(trained: Path, tmp_path: Path) -> None:
    archir.quantize(trained, tmp_path / "int8.onnx", seconds=0)
    model = onnx.load(tmp_path / "int8.onnx")
    weights = [numpy_helper.to_array(one) for one in model.graph.initializer if one.data_type == onnx.TensorProto.INT8]
    largest = [int(np.abs(array.astype(int)).max()) for array in weights if array.ndim > 1]
    assert largest == [64] * 4
    assert 2 * 255 * max(largest) < 2**15


def test_compact_keeps_texts_apart() -> None:
    """The numbers of tensors are compared and merged; texts and sparse tensors are stored elsewhere."""
    texts = [
        helper.make_tensor(name, onnx.TensorProto.STRING, [1], [value]) for name, value in (("a", b"x"), ("b", b"y"))
    ]
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in "ab"]
    outputs = [helper.make_tensor_value_info(f"{name}_out", onnx.TensorProto.STRING, [1]) for name in "ab"]
    graph = helper.make_graph(nodes, "texts", [], outputs, texts)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    found = session(compact(model).SerializeToString()).run(None, {})
    assert [one.tolist() for one in found] == [["x"], ["y"]]


def test_names_of_layers_are_distinct() -> None:
    nodes = [helper.make_node("Relu", [f"{i}"], [output], name=name) for i, (name, output) in enumerate(NODES)]
    model = helper.make_model(helper.make_graph(nodes, "names", [], []))
    lay.assign_names(model)
    assert [node.name for node in model.graph.node] == ["x", "z", "x_"]
