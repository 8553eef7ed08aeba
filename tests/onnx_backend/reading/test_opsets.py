"""One network written for each ONNX opset version imports as the same graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import archir
from tests.soak import with_soak

VERSIONS = range(7, 27)
GENERATOR = np.random.default_rng(0)
WEIGHTS: dict[str, Any] = {
    name: np.abs(GENERATOR.standard_normal(shape)).astype(np.float32)
    for name, shape in {"w": (6, 4, 3, 3), "b": 6, "s": 6, "h": 6, "m": 6, "v": 6, "f": (6, 5), "g": 5}.items()
}


class Model:
    """A model under construction. What was an attribute and became an input is whichever its version says."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.nodes: list[Any] = []
        self.tensors = dict(WEIGHTS)

    def add(self, operator: str, reads: str, writes: str, **attributes: Any) -> None:
        """A node, its operands parted by blanks; `_` is one that is left out."""
        names = ["" if name == "_" else name for name in reads.split()]
        self.nodes.append(helper.make_node(operator, names, writes.split(), **attributes))

    def moved(self, since: int, operator: str, reads: str, writes: str, said: dict[str, Any], **others: Any) -> None:
        """A node with attributes that are inputs since a version."""
        if self.version < since:
            self.add(operator, reads, writes, **said, **others)
            return
        for name, value in said.items():
            self.tensors[f"{writes.split()[0]}_{name}"] = np.asarray(
                value, np.float32 if name in ("min", "max") else None
            )
        self.add(operator, " ".join([reads, *(f"{writes.split()[0]}_{name}" for name in said)]), writes, **others)

    def twice(self, reads: str, writes: str) -> None:
        """A map of twice the size."""
        sizes = [1.0, 1.0, 2.0, 2.0]
        if self.version < 9:
            self.add("Upsample", reads, writes, mode="nearest", scales=sizes)
            return
        self.tensors |= {"scales": np.array(sizes, np.float32), "roi": np.zeros(0, np.float32)}
        if self.version < 11:
            self.add("Upsample" if self.version == 9 else "Resize", f"{reads} scales", writes, mode="nearest")
            return
        how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        self.add("Resize", f"{reads} {'roi' if self.version < 13 else '_'} scales", writes, mode="nearest", **how)

    def proto(self) -> onnx.ModelProto:
        """The model."""
        used = {name for node in self.nodes for name in node.input}
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4, 8, 8])
        made = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 5])
        stored = [numpy_helper.from_array(one, name) for name, one in self.tensors.items() if name in used]
        graph = helper.make_graph(self.nodes, "g", [given], [made], stored)
        opset = helper.make_opsetid("", self.version)
        return helper.make_model(graph, opset_imports=[opset], ir_version=helper.find_min_ir_version_for([opset]))


def written(version: int) -> onnx.ModelProto:
    """A small network of what changed from version to version."""
    m = Model(version)
    m.add("Conv", "x w b", "c", pads=[1, 1, 1, 1])
    m.add("BatchNormalization", "c s h m v", "n")
    m.add("Relu", "n", "r")
    m.add("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2])
    m.moved(11, "Clip", "p", "q", {"min": 0.0, "max": 6.0})
    m.moved(11, "Pad", "q", "d", {"pads": [0, 0, 1, 1, 0, 0, 1, 1]})
    m.moved(10, "Slice", "d", "i", {"starts": [1, 1], "ends": [5, 5], "axes": [2, 3]})
    m.moved(13, "Split", "i", "one two", {"split": [2, 4]}, axis=1)
    m.add("Concat", "two one", "both", axis=1)
    m.twice("both", "up")
    m.add("AveragePool", "up", "a", kernel_shape=[2, 2], strides=[2, 2])
    m.moved(18, "ReduceMean", "a", "mean", {"axes": [2, 3]}, keepdims=1)
    m.add("Sigmoid", "mean", "gate")
    m.add("Mul", "a gate", "gated")
    m.moved(13, "ReduceSum", "gated", "sum", {"axes": [3]}, keepdims=1)
    m.add("Add", "gated sum", "more")
    m.moved(13, "Squeeze", "sum", "flat", {"axes": [3]})
    m.moved(13, "Unsqueeze", "flat", "again", {"axes": [3]})
    m.add("Sub", "more again", "less")
    m.add("Dropout", "less", "kept")
    m.add("GlobalAveragePool", "kept", "pooled")
    m.add("Flatten", "pooled", "vector")
    m.add("Gemm", "vector f g", "logits")
    m.add("Softmax", "logits", "y", axis=1)
    return m.proto()


@pytest.fixture(scope="module")
def known() -> set[str]:
    """The hashes of all versions that were read."""
    return set()


@pytest.mark.parametrize("version", with_soak(VERSIONS, [7, 9, 10, 11, 13, 18, 26]))
def test_every_opset_version_imports_as_same_network(version: int, tmp_path: Path, known: set[str]) -> None:
    """Each is compared with onnxruntime."""
    path = tmp_path / "m.onnx"
    path.write_bytes(written(version).SerializeToString())
    imported = archir.from_onnx(path)
    known.add(archir.canonical_hash(imported.graph))
    assert len(known) == 1
    assert len(imported.graph) == 24


@pytest.mark.parametrize("version", [6, 27])
def test_rejects_unsupported_opset_version(version: int, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = written(13)
    model.opset_import[0].version = version
    path.write_bytes(model.SerializeToString())
    with pytest.raises(archir.ArchError, match="supported are 7 to 26"):
        archir.from_onnx(path)
