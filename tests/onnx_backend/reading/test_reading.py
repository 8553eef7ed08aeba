"""ONNX files import as networks with equal outputs, one operation per idiom; errors name the node."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir.language.decompiler.decompile import decompile
from archir.language.decompiler.imported import Imported
from archir_onnx import BACKEND as ONNX
from tests.conftest import EXAMPLES

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
HERE = {"squeezenet": 30, "shufflenet": 40, "resnet50": 30, "densenet121": 40, "inception_v1": 80, "inception_v2": 150,
        "zfnet512": 50, "bvlc_alexnet": 60, "vgg19": 60}  # fmt: skip
"""The light models, and the most lines that they may become."""


def file(
    path: Path, nodes: Sequence[Any], weights: Mapping[str, Any] | None = None, shape: Sequence[Any] = ("N", 4, 8, 8),
    name: str = "x", opset: int = 17,
) -> Path:  # fmt: skip
    """A model of one input, `x` or of another name, and one output `y`."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()]
    given = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(list(nodes), "g", [given], [made], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def node(operator: str, reads: str, writes: str, **attributes: Any) -> Any:
    """A node, its operands parted by blanks."""
    return helper.make_node(operator, reads.split(), writes.split(), **attributes)


def operations(imported: Imported) -> list[str]:
    """The operations of a network but for inputs."""
    return operations_of(imported.graph)


def operations_of(graph: Graph) -> list[str]:
    """The same of a graph."""
    return [graph[number].op.name for number in graph if graph[number].op.name != "input"]


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_exported_network_survives_import(tmp_path: Path) -> None:
    text = """net small {
    input image: f32[3, 16, 16]
    x = image |> conv(8, kernel=3, stride=2, bias=true) |> relu
    y = x |> conv(8, kernel=3, groups=8, bias=true) |> hard_swish
    z = x + y |> prelu(shared=true) |> conv(8) |> prelu
    output logits = z |> global_avg_pool |> linear(10) |> log_softmax
}
"""
    graph = archir.loads(text).graph
    archir.export(graph, tmp_path / "small.onnx", archir.compile(graph))
    imported = archir.from_onnx(tmp_path / "small.onnx")
    assert archir.canonical_hash(imported.graph) == archir.canonical_hash(graph)
    assert archir.cost(imported.graph) == archir.cost(graph)
    assert archir.canonical_hash(archir.loads(decompile(imported).text).graph) == archir.canonical_hash(graph)


BACK = """import std.experts

net back(width = 20) {
    input ids: i64[6]
    input image_: f32[3, 12, 12]
    x = image_ |> conv(width, kernel=3) |> batch_norm(momentum=0.01, eps=0.001)
    x = x |> avg_pool(kernel=3, stride=2, count_padding=true)
    few = x |> conv(12) |> pad([0, 1, 0, 1]) |> avg_pool(1, stride=2) |> avg_pool(3)
    y = x * parameter([1, 1, 1]) |> scale(0.9805806) |> avg_pool(kernel=2, stride=2, padding="valid") |> to_tokens
    z = (ids |> embedding(11, 8, weights="table")) + (ids |> positions |> embedding(6, 8))
    z = z + parameter([6, 8], trained=false) |> rms_norm |> rotary(heads=2)
    z = attention(z, z, z, heads=2, causal=true) |> gelu(approximate=true)
    output one = y
    output four = few
    output two = z |> linear(11, bias=false, weights="table")
    output three = z |> mixture_of_experts(3, k=2, ratio=2) |> mixture_of_experts(2, k=1, ratio=1, bias=false)
}
"""


def test_operations_exported_as_several_nodes_survive_import(tmp_path: Path) -> None:
    """Pools by convolution, tables that are shared, what is not trained, rotations, what norms keep, experts."""
    graph = archir.loads(BACK).graph
    archir.export(graph, tmp_path / "m.onnx", archir.compile(graph), deployed=False, runtime="cpu")
    again = archir.from_onnx(tmp_path / "m.onnx").graph
    assert sorted(operations_of(again)) == sorted(operations_of(graph))
    assert archir.canonical_hash(again) == archir.canonical_hash(graph)


def test_decomposed_layer_norm_and_gelu_become_single_operations(tmp_path: Path) -> None:
    nodes = [
        node("ReduceMean", "x", "mean", axes=[-1]),
        node("Sub", "x mean", "centred"),
        node("Pow", "centred two", "squares"),
        node("ReduceMean", "squares", "variance", axes=[-1]),
        node("Add", "variance eps", "positive"),
        node("Sqrt", "positive", "deviation"),
        node("Div", "centred deviation", "normed"),
        node("Mul", "normed scale", "scaled"),
        node("Add", "scaled shift", "n"),
        node("MatMul", "n w", "product"),
        node("Add", "product b", "h"),
        node("Div", "h root", "inner"),
        node("Erf", "inner", "e"),
        node("Add", "e one", "f"),
        node("Mul", "h f", "g"),
        node("Mul", "g half", "y"),
    ]
    constants = {"two": 2.0, "eps": 1e-6, "root": sqrt(2), "one": 1.0, "half": 0.5}
    weights = {name: np.float32(value) for name, value in constants.items()}
    weights |= {"scale": numbers(8), "shift": numbers(8), "w": numbers(8, 16), "b": numbers(16)}
    imported = archir.from_onnx(file(tmp_path / "m.onnx", nodes, weights, (1, 5, 8)))
    assert operations(imported) == ["layer_norm", "linear", "gelu"]
    assert {source.name for source in imported.sources.values()} == {"scale", "shift", "w", "b"}


def test_computed_reshape_sizes_are_constant_folded(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "samples", axis=0),
        node("Unsqueeze", "samples axis", "first"),
        node("Concat", "first rest", "wanted", axis=0),
        node("Reshape", "x wanted", "flat"),
        node("Gemm", "flat w b", "y", transB=1),
    ]
    weights = {
        "zero": np.int64(0),
        "axis": np.array([0]),
        "rest": np.array([-1]),
        "w": numbers(3, 256),
        "b": numbers(3),
    }
    assert operations(archir.from_onnx(file(tmp_path / "m.onnx", nodes, weights))) == ["flatten", "linear"]


def test_node_names_become_module_scopes(tmp_path: Path) -> None:
    nodes, weights, last = [], {}, "x"
    for i in range(3):
        weights |= {f"w{i}": numbers(4, 4, 3, 3), f"b{i}": numbers(4)}
        home = f"/layers/layers.{i}"
        nodes += [
            node("Conv", f"{last} w{i} b{i}", f"c{i}", pads=[1, 1, 1, 1], name=f"{home}/conv/Conv"),
            node("Relu", f"c{i}", f"r{i}", name=f"{home}/act/Relu"),
            node("Add", f"r{i} {last}", f"a{i}", name=f"{home}/Add"),
            node("Sigmoid", f"a{i}", f"s{i}" if i < 2 else "y", name=f"{home}/out/Sigmoid"),
        ]
        last = f"s{i}"
    imported = archir.from_onnx(file(tmp_path / "m.onnx", nodes, weights))
    assert "layers[1].conv" in {imported.graph[number].scope for number in imported.graph}
    text = decompile(imported).text
    assert "repeat 3 {" in text
    assert text.count("conv(") == 1


@pytest.mark.parametrize("name", ["calls", "fixed", "training", "calls/keywords", "forward/call", "conv/weight/Conv"])
def test_node_names_may_equal_torch_module_attributes(name: str, tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w", "c", name="conv"), node("Relu", "c", "r", name=name), node("Conv", "r v", "y"),
    ]  # fmt: skip
    weights = {"w": numbers(4, 4, 1, 1), "v": numbers(4, 4, 1, 1)}
    assert operations(archir.from_onnx(file(tmp_path / "m.onnx", nodes, weights))) == ["conv", "relu", "conv"]


def test_weight_names_may_equal_torch_module_attributes(tmp_path: Path) -> None:
    nodes = [node("Conv", "x calls.weight", "c"), node("Conv", "c calls.weight.bias", "y")]
    weights = {"calls.weight": numbers(4, 4, 1, 1), "calls.weight.bias": numbers(4, 4, 1, 1)}
    imported = archir.from_onnx(file(tmp_path / "m.onnx", nodes, weights))
    assert {source.name for source in imported.sources.values()} == weights.keys()


REFUSED: dict[str, tuple[list[Any], dict[str, Any], str, str]] = {
    "unknown operators": ([node("Unique", "x", "u"), node("Det", "u", "y")], {}, "A3202", "Unique|Det"),
    "quantised": (
        [node("QuantizeLinear", "x s", "q"), node("DequantizeLinear", "q s", "y")], {"s": np.float32(1)}, "A3202",
        "quantised",
    ),
    "a cycle": (
        [node("Relu", "b", "a"), node("Relu", "a", "b"), node("Relu", "a", "y")], {}, "A0916", "no earlier node"
    ),
    "a missing weight": ([node("Conv", "x w", "y")], {}, "A0916", "reads `w`"),
    "a weight that does not fit": ([node("Conv", "x w", "y")], {"w": numbers(4, 3, 3, 3)}, "A3202", "Conv `y`"),
    "10^9 numbers": (
        [node("ConstantOfShape", "n", "c"), node("Mul", "x c", "y")], {"n": np.array([10**9, 4])}, "A3202", "4000000000"
    ),
    "2^40 sums": (
        [node("ConstantOfShape", "n", "a"), node("ConstantOfShape", "m", "b"), node("Add", "a b", "c"),
         node("Mul", "x c", "y")],
        {"n": np.array([2**20, 1]), "m": np.array([1, 2**20])}, "A3202", "Add `c`: a constant of 1099511627776",
    ),
    "2^32 joined": (
        [node("ConstantOfShape", "n", "a"), node("Concat", "a " * 2**12, "c", axis=0), node("Mul", "x c", "y")],
        {"n": np.array([2**20])}, "A3202", "Concat `c`: a constant of 4294967296",
    ),
    "2^39 looked up": (
        [node("ConstantOfShape", "n", "a"), node("Gather", "a at", "c"), node("Mul", "x c", "y")],
        {"n": np.array([1, 2**20]), "at": np.zeros(2**19, np.int64)}, "A3202", "Gather `c`: a constant of 549755813888",
    ),
    "no output": ([node("Relu", "x", "z")], {}, "A0916", "no node computes"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_rejects_model_that_is_no_supported_network(what: str, tmp_path: Path) -> None:
    nodes, weights, code, text = REFUSED[what]
    with pytest.raises(ArchError, match=text) as refused:
        archir.from_onnx(file(tmp_path / "m.onnx", nodes, weights))
    assert {diagnostic.code for diagnostic in refused.value.diagnostics} == {code}


MALFORMED: dict[str, tuple[list[Any], str]] = {
    "too many operands": ([node("Add", "x x w", "y")], r"Add `y`: .* input size 3 not in range \[min=2, max=2\]"),
    "too few operands": ([node("Sigmoid", "", "g"), node("Mul", "x g", "y")], r"Sigmoid `g`: .* input size 0"),
    "a scatter of two": ([node("ScatterND", "x at", "y")], r"ScatterND `y`: .* input size 2"),
    "an operand left out": (
        [helper.make_node("Div", ["x", ""], ["y"])], r"Div `y`: Node \(\)'s input 1 is marked single"
    ),
    "too many results": ([node("Relu", "x", "y z")], r"Relu `y`: .* output size 2"),
    "a missing attribute": ([node("Concat", "x x", "y")], r"Concat `y`: Required attribute 'axis' is missing"),
    "an unknown attribute": ([node("Relu", "x", "y", alpha=1.0)], r"Relu `y`: Unrecognized attribute: alpha"),
    "an attribute of another type": ([node("Softmax", "x", "y", axis=0.5)], r"Softmax `y`: .*Expected: 'INT'"),
    "a shape of floats": ([node("Reshape", "x w", "y")], r"node name: Reshape `y`\): .* has unsupported type"),
}  # fmt: skip


@pytest.mark.parametrize("what", MALFORMED)
@pytest.mark.parametrize("partial", [False, True])
def test_nodes_that_break_their_schema_are_refused(what: str, partial: bool, tmp_path: Path) -> None:
    nodes, text = MALFORMED[what]
    path = file(tmp_path / "m.onnx", nodes, {"w": numbers(4), "at": np.array([[0]])})
    with pytest.raises(ArchError, match=text) as refused:
        archir.from_onnx(path, partial=partial)
    assert {diagnostic.code for diagnostic in refused.value.diagnostics} == {"A0916"}


UNSUPPORTED: dict[str, tuple[list[Any], str]] = {
    "Cast to u8": ([node("Cast", "x", "c", to=2), node("Cast", "c", "y", to=1)], "Cast `c`: conversion to .* type 2"),
    "Cast of a constant to u32": (
        [node("Cast", "w", "c", to=12), node("Cast", "c", "d", to=1), node("Mul", "x d", "y")], "Cast `c`: .* type 12"
    ),
    "MaxPool over four axes": ([node("MaxPool", "x", "y", kernel_shape=[1] * 4)], "MaxPool `y`: pools over 4 axes"),
    "AveragePool over four axes": ([node("AveragePool", "x", "y", kernel_shape=[1] * 4)], "`y`: pools over 4 axes"),
    "Attention without heads": (
        [node("Reshape", "x tokens", "t"), node("Attention", "t t t", "y")], "Attention `y`: .* `q_num_heads`"
    ),
    "RMSNormalization over axes": ([node("RMSNormalization", "x w", "y", axis=4)], "`y`: norms over more than the la"),
    "LayerNormalization over axes": ([node("LayerNormalization", "x w", "y", axis=4)], "`y`: norms over more than"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNSUPPORTED)
def test_unsupported_attributes_are_refused(what: str, tmp_path: Path) -> None:
    nodes, text = UNSUPPORTED[what]
    weights = {"w": numbers(2, 2), "tokens": np.array([0, 4, 16])}
    with pytest.raises(ArchError, match=text) as refused:
        archir.from_onnx(file(tmp_path / "m.onnx", nodes, weights, ("N", 4, 2, 2, 2, 2), opset=24))
    assert {diagnostic.code for diagnostic in refused.value.diagnostics} == {"A3202"}


def test_constants_in_bfloat16_become_float32(tmp_path: Path) -> None:
    nodes = [node("Cast", "w", "a", to=16), node("Cast", "a", "b", to=1), node("Mul", "x b", "y")]
    assert operations(archir.from_onnx(file(tmp_path / "m.onnx", nodes, {"w": np.float32(2)}))) == ["scale"]


MISFITS: dict[str, tuple[list[Any], str]] = {
    "shapes": ([node("MatMul", "x w", "y")], r"MatMul `y`: .* do not fit: `x` \[N, 4, 8, 8\], `w` \[3\]"),
    "sizes": ([node("Reshape", "x at", "y")], r"Reshape `y`: .* `x` \[N, 4, 8, 8\], `at` \[7, 9\]"),
    "constants": (
        [node("Add", "w v", "c"), node("Mul", "x c", "y")], r"Add `c`: .* `w` \[1.0, 2.0, 3.0\], `v` \[7.0, 9.0\]"
    ),
    "attributes": ([node("MaxPool", "x", "y", kernel_shape=[2, 2], strides=[0, 1])], r"MaxPool `y`: .*strides=\[0, 1"),
    "axes in a table": ([node("Unsqueeze", "w table", "c"), node("Mul", "x c", "y")], r"`c`: .* `table` \[\["),
    "a shape in a table": ([node("ConstantOfShape", "table", "c"), node("Mul", "x c", "y")], r"`c`: .* `table` \[\["),
    "one axis for all": ([node("Unsqueeze", "w one", "c"), node("Mul", "x c", "y")], r"Unsqueeze `c`: .* `one` 1"),
    "a value of the input": ([node("ReduceMax", "x", "m"), node("Pad", "x pads m", "y")], "depends on the input"),
    "operands of a newer version": ([node("Gelu", "x x", "y")], r"Gelu `y`: .* do not fit: `x` \[N, 4, 8, 8\]"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISFITS)
def test_uncomputable_node_error_names_its_operands(what: str, tmp_path: Path, capfd: Any) -> None:
    """In ONNX's names, and without what torch says and logs."""
    nodes, text = MISFITS[what]
    weights = {"w": np.array([1, 2, 3], np.float32), "at": np.array([7, 9]), "v": np.array([7, 9], np.float32)}
    weights |= {"table": np.array([[0], [1]]), "one": np.array(1), "pads": np.zeros(8, np.int64)}
    with pytest.raises(ArchError, match=text):
        archir.from_onnx(file(tmp_path / "m.onnx", nodes, weights))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "damage", [{"ir_version": 2**40}, {"ir_version": -1}, {"data_type": 0}, {"data_type": -5}], ids=str
)
def test_rejects_invalid_ir_version_or_data_type(damage: dict[str, int], tmp_path: Path) -> None:
    path = file(tmp_path / "m.onnx", [node("Add", "x w", "y")], {"w": numbers(4, 8, 8)})
    model = onnx.load(path)
    for name, value in damage.items():
        setattr(model if hasattr(model, name) else model.graph.initializer[0], name, value)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ArchError, match=r"A0916|A3202"):
        archir.from_onnx(path)


CONSTANT: dict[str, Any] = {
    "Min of two shapes": node("Min", "table row", "c"), "Max of two shapes": node("Max", "row table", "c"),
    "Mod": node("Mod", "signed row", "c"), "Mod as in C": node("Mod", "signed row", "c", fmod=1),
    "Div": node("Div", "signed row", "c"), "Div of large numbers": node("Div", "large row", "c"),
}  # fmt: skip


@pytest.mark.parametrize("what", CONSTANT)
def test_constants_are_computed_as_onnxruntime_does(what: str, tmp_path: Path) -> None:
    tensors = {"table": [[1], [5]], "row": [3, -3, 1, 2], "signed": [-7, -7, 7, -7], "large": [2**53 + 1] * 4}
    nodes = [
        CONSTANT[what], node("Mod", "c some", "d"), node("Cast", "d", "e", to=TensorProto.FLOAT),
        node("Flatten", "e", "f", axis=0), node("ReduceSum", "x axes", "s", keepdims=1), node("Mul", "s f", "y"),
    ]  # fmt: skip
    weights = {name: np.array(array, np.int64) for name, array in tensors.items()}
    weights |= {"some": np.array(1009), "axes": np.array([3])}
    archir.from_onnx(file(tmp_path / "m.onnx", nodes, weights))


def test_integers_divided_by_zero_are_refused_without_a_warning(tmp_path: Path) -> None:
    nodes = [node("Mod", "a b", "c"), node("Cast", "c", "d", to=1), node("Add", "x d", "y")]
    with pytest.raises(ArchError, match="modulo by zero"):
        archir.from_onnx(file(tmp_path / "m.onnx", nodes, {"a": np.array([7]), "b": np.array([0])}))


def test_outputs_that_are_infinite_are_compared(tmp_path: Path) -> None:
    nodes = [node("Mul", "x huge", "a"), node("Exp", "a", "y")]
    path = file(tmp_path / "m.onnx", nodes, {"huge": np.full(1, 1e30, np.float32)})
    assert operations(archir.from_onnx(path))[-1] == "exp"


def test_folded_einsum_constant_becomes_parameter(tmp_path: Path) -> None:
    nodes = [node("Einsum", "a b", "p", equation="i,j->ij"), node("Add", "x p", "y")]
    path = file(tmp_path / "m.onnx", nodes, {"a": np.ones(1, np.float32), "b": numbers(4)}, ("N", 4))
    assert operations(archir.from_onnx(path)) == ["parameter", "add"]


def test_duplicate_outputs_get_distinct_names(tmp_path: Path) -> None:
    path = file(tmp_path / "m.onnx", [node("Relu", "x", "y")])
    model = onnx.load(path)
    model.graph.output.append(model.graph.output[0])
    onnx.save(model, path)
    assert [*archir.from_onnx(path).graph.outputs] == ["y", "y_2"]


OUTSIDE = ("../secret", "/etc/hostname", "folder/w", "missing", "..")


@pytest.mark.parametrize("location", OUTSIDE)
def test_data_outside_of_the_folder_is_refused(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(4 * 4 * 4))
    (tmp_path / "in" / "folder").mkdir(parents=True)
    (tmp_path / "in" / "folder" / "w").write_bytes(bytes(4 * 4 * 4))
    path = file(tmp_path / "in" / "m.onnx", [node("Conv", "x w", "y")], {"w": numbers(4, 4, 1, 1)})
    model = onnx.load(path)
    (stored,) = model.graph.initializer
    stored.ClearField("raw_data")
    stored.data_location = TensorProto.EXTERNAL
    stored.external_data.add(key="location", value=location)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ArchError, match="the data of `w`") as refused:
        archir.from_onnx(path)
    assert {diagnostic.code for diagnostic in refused.value.diagnostics} == {"A0916"}


def _external(name: str, data_type: int, dims: Sequence[int], data: Path) -> Any:
    """A weight whose numbers are in another file."""
    tensor = TensorProto(name=name, data_type=data_type, dims=dims, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=data.name)
    return tensor


def test_strings_in_another_file_are_refused(tmp_path: Path) -> None:
    """Their bytes would be taken as addresses."""
    (tmp_path / "data").write_bytes(b"A" * 16)
    path = file(tmp_path / "m.onnx", [node("Gather", "w zero", "t"), node("Relu", "x", "y")], {"zero": np.int64(0)})
    model = onnx.load(path)
    model.graph.initializer.append(_external("w", TensorProto.STRING, [2], tmp_path / "data"))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ArchError, match="`w` has strings as external data") as refused:
        archir.from_onnx(path)
    assert {diagnostic.code for diagnostic in refused.value.diagnostics} == {"A0916"}


def test_weights_of_no_numbers_may_be_in_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    path = file(tmp_path / "m.onnx", [node("Concat", "empty sizes", "all", axis=0), node("Reshape", "x all", "y")],
                {"sizes": np.array([-1, 16, 4, 4])})  # fmt: skip
    model = onnx.load(path)
    model.graph.initializer.append(_external("empty", TensorProto.INT64, [0], tmp_path / "data"))
    path.write_bytes(model.SerializeToString())
    assert operations(archir.from_onnx(path)) == ["reshape"]


def _sized(dims: Sequence[int]) -> Any:
    """A weight that says that it has these sizes, and has no numbers."""
    return TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims)


@pytest.mark.parametrize("dims", [(10**9, 4, 3, 3), (-1, 4, 3, 3), (1,) * 40, (4, 4, 1, 1)])
def test_rejects_weight_whose_dims_do_not_match_its_data(dims: tuple[int, ...], tmp_path: Path) -> None:
    path = file(tmp_path / "m.onnx", [node("Conv", "x w", "y")])
    model = onnx.load(path)
    model.graph.initializer.append(_sized(dims))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ArchError) as refused:
        archir.from_onnx(path)
    assert {diagnostic.code for diagnostic in refused.value.diagnostics} == {"A0916"}


@pytest.mark.parametrize("dims", [(2**62, 0), (2**40, 2**40, 0)])
def test_weights_of_no_numbers_with_huge_axes_are_refused(dims: tuple[int, ...], tmp_path: Path) -> None:
    path = file(tmp_path / "model.onnx", [node("Conv", "x w", "y")])
    (tmp_path / "data").write_bytes(b"")
    model = onnx.load(path)
    model.graph.initializer.append(_external("w", TensorProto.FLOAT, dims, tmp_path / "data"))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ArchError, match="A0916"):
        archir.from_onnx(path)


def test_weights_that_are_listed_as_inputs_may_be_unused(tmp_path: Path) -> None:
    path = file(tmp_path / "model.onnx", [node("Conv", "x w", "y")], {"w": numbers(4, 4, 3, 3), "seen": numbers(1)})
    model = onnx.load(path)
    for name, shape in (("w", [4, 4, 3, 3]), ("seen", [1])):
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    path.write_bytes(model.SerializeToString())
    assert operations(archir.from_onnx(path)) == ["conv"]


def endless(writes: str) -> Any:
    """A loop of 2^62 rounds."""
    kinds = (("i", 7), ("c", 9), ("v", 1), ("again", 9), ("w", 1))
    ends = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds]
    body = helper.make_graph([node("Identity", "c", "again"), node("Neg", "v", "w")], "body", ends[:3], ends[3:])
    return helper.make_node("Loop", ["rounds", "", "x"], [writes], body=body)


def test_models_run_in_a_process_of_their_own_without_dead_nodes(isolated: None, tmp_path: Path) -> None:
    """What no output needs is neither allocated nor computed."""
    nodes = [
        node("Conv", "x w", "y"), node("ConstantOfShape", "huge", "h"), node("Neg", "h", "dead"), endless("z"),
    ]  # fmt: skip
    weights = {"w": numbers(4, 4, 1, 1), "huge": np.array([2**40]), "rounds": np.array(2**62)}
    path = file(tmp_path / "m.onnx", nodes, weights)
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="data", size_threshold=0)
    assert operations(archir.from_onnx(path)) == ["conv"]
    assert operations(archir.from_onnx(path, partial=True)) == ["conv"]


def test_models_that_need_too_much_memory_or_time_are_refused(isolated: None, tmp_path: Path) -> None:
    huge = file(tmp_path / "huge.onnx", [node("ConstantOfShape", "n", "c"), node("ReduceMax", "c", "m"),
                                         node("Add", "x m", "y")], {"n": np.array([2**34])})  # fmt: skip
    with pytest.raises(ArchError, match="A0914"):
        ONNX.run(huge, {"x": numbers(1, 4, 8, 8)})
    with pytest.raises(ArchError, match=r"A0916.*control flow"):
        ONNX.run(file(tmp_path / "loop.onnx", [endless("y")], {"rounds": np.array(2**62)}), {"x": numbers(1, 4, 8, 8)})


def test_all_unsupported_operators_are_reported_together(tmp_path: Path) -> None:
    nodes = [node("Unique", "x", "u"), node("Relu", "x", "r"), node("Det", "r", "d"), node("Add", "u d", "y")]
    with pytest.raises(ArchError) as refused:
        archir.from_onnx(file(tmp_path / "m.onnx", nodes))
    assert len(refused.value.diagnostics) == 2


def test_dynamic_input_size_must_be_given(tmp_path: Path) -> None:
    path = file(tmp_path / "m.onnx", [node("Relu", "x", "y")], shape=("N", 4, "H", "W"))
    with pytest.raises(ArchError, match="2 axes of open size"):
        archir.from_onnx(path)
    assert archir.from_onnx(path, shapes={"x": (4, 6, 6)}).graph.inputs


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.soak) for name in HERE])
def test_light_models_import_with_random_weights(name: str, tmp_path: Path) -> None:
    """Their weights are all the same number; here they are random, so that what is compared depends on them."""
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    generator = np.random.default_rng(0)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for one in [one for one in model.graph.node if one.op_type == "ConstantOfShape"]:
        shape = stored[one.input[0]].tolist()
        fan_in = max(1, int(np.prod(shape[1:])))
        array = (generator.standard_normal(shape) / fan_in**0.5).astype(np.float32)
        array = np.abs(array) + 0.5 if len(shape) == 1 else array
        model.graph.initializer.append(numpy_helper.from_array(array, one.output[0]))
        model.graph.node.remove(one)
    onnx.save(model, tmp_path / "m.onnx")
    imported = archir.from_onnx(tmp_path / "m.onnx")
    assert len(decompile(imported).text.splitlines()) <= HERE[name]


@pytest.mark.soak
@pytest.mark.parametrize("name", ["mobilenet_v2", "deit_tiny", "resnet50"])
def test_exported_examples_survive_import(name: str, tmp_path: Path) -> None:
    rates = {"dropout_rate": 0} if name == "mobilenet_v2" else {}  # models have none
    space = archir.load(EXAMPLES / f"{name}.arch", size=64, **rates)
    graph = space.specialize(space.sample(random.Random(0)))
    archir.export(graph, tmp_path / "m.onnx", archir.compile(graph), deployed=False, runtime="cpu")
    assert archir.canonical_hash(archir.from_onnx(tmp_path / "m.onnx").graph) == archir.canonical_hash(graph)


WHEELS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "silero_vad.onnx": ("If.*control flow", {"input": (512,), "state": (1, 128)}),
    "silero_vad_16k_sequence.onnx": ("LSTM", {}),
    "silero_vad_openvino_16k.onnx": ("LSTM", {}),
}


@pytest.mark.parametrize("name", WHEELS)
def test_silero_vad_error_names_unsupported_operators(name: str) -> None:
    spec = find_spec("silero_vad")
    if spec is None or spec.origin is None:
        pytest.skip("not installed: silero-vad")
    message, shapes = WHEELS[name]
    with pytest.raises(ArchError, match=message):
        archir.from_onnx(Path(spec.origin).parent / "data" / name, shapes=shapes)


def test_partial_import_of_silero_vad_has_its_encoder() -> None:
    spec = find_spec("silero_vad")
    if spec is None or spec.origin is None:
        pytest.skip("not installed: silero-vad")
    path = Path(spec.origin).parent / "data" / "silero_vad_16k_sequence.onnx"
    found = archir.from_onnx(path, partial=True)
    assert operations(found).count("conv1d") == 5
    assert archir.cost(found.graph).params == 177_408
    assert [one.message.split(":")[0] for one in found.problems] == ["LSTM `/recurrent/LSTM`", "`stft.padding`"]


def test_shapes_that_contradict_the_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    graph = archir.loads("net n {\n    input image: f32[3, 8, 8]\n    output y = image |> conv(4)\n}").graph
    archir.export(graph, path, archir.compile(graph))
    for shapes, text in [
        ({"": (3, 16, 16)}, "the input `image` has the sizes 3x8x8 in the file, not 3x16x16"),
        ({"image": (3, 8)}, "has the sizes 3x8x8 in the file, not 3x8"),
        ({"imgae": (3, 8, 8)}, r"the model has no input `imgae`, but `image`\n.*did you mean `image`"),
    ]:
        with pytest.raises(ArchError, match=f"A3202.*{text}"):
            archir.from_onnx(path, shapes=shapes)
    assert archir.from_onnx(path, shapes={"": (3, 8, 8)}).graph.inputs
