"""ONNX export of every operation across opsets, precisions, fixed and dynamic axes, and raw-pixel inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir.ops.attention import Attention
from archir.passes.resize import resize, valid_sizes
from archir_onnx import BACKEND as ONNX
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.export_options import ATTENTIONS, OPSETS, ExportOptions, PixelNormalization
from archir_onnx.quantization.layers import layers
from archir_onnx.running.sessions import session
from archir_torch import BACKEND as TORCH
from tests.op_cases import CASES, Case, graph_of, name_of
from tests.soak import with_soak

OPEN = ("batch", "height", "width")
LOOKED = [case for case in CASES if isinstance(case[0], Attention)]


def exported(graph: Graph, path: Path, **form: Any) -> Any:
    module = TORCH.lower(graph)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if name.endswith(("running_mean", "running_var", "weight", "bias")):
                tensor += torch.rand(tensor.shape, generator=generator) / 10
    return archir.export(graph, path, module, **form)


FIRST = {type(case[0]): case for case in reversed(CASES)}
"""A case of every operation."""


@pytest.mark.parametrize(
    "case",
    [case if FIRST[type(case[0])] is case else pytest.param(case, marks=pytest.mark.soak) for case in CASES],
    ids=name_of,
)
def test_every_operation_exports_in_every_form(case: Case, tmp_path: Path) -> None:
    graph, path = graph_of(*case), tmp_path / "one.onnx"
    for opset in (min(OPSETS), max(OPSETS)):
        assert exported(graph, path, opset=opset).relative < 1e-5
    assert exported(graph, path, dynamic=(), batch=2).batches == (2,)
    assert exported(graph, path, precision="float16").relative < 1e-2
    try:
        report = exported(graph, path, dynamic=OPEN)
    except ArchError as error:
        assert error.diagnostics[0].code == "A0932"  # noqa: PT017 (either is right, depending on the operation)
    else:
        assert report.relative < 1e-5
        assert report.sizes


@pytest.mark.parametrize("case", with_soak(LOOKED, LOOKED[::4]), ids=name_of)
@pytest.mark.parametrize("form", ATTENTIONS)
def test_attention_exports_in_every_form(form: str, case: Case, tmp_path: Path) -> None:
    graph, path = graph_of(*case), tmp_path / "one.onnx"
    assert exported(graph, path, attention=form).relative < 1e-5
    operators = {node.op_type for node in onnx.load(path).graph.node}
    wanted = {"decomposed": "Softmax", "standard": "Attention", "fused": "MultiHeadAttention"}
    apart = isinstance(case[0], Attention) and case[0].along != "all"  # along one axis, it is always written out
    assert form == "auto" or wanted["decomposed" if apart else form] in operators
    if case[1][0][-1:] != (1,):
        assert exported(graph, path, attention=form, precision="float16").relative < 1e-2


def test_attention_is_standard_where_that_is_faster(tmp_path: Path) -> None:
    def operators(heads: int, tokens: int, opset: int) -> set[str]:
        text = f"net a {{ input x: f32[{tokens}, 8] \n output y = attention(x, x, x, heads={heads}) }}"
        exported(archir.loads(text).graph, tmp_path / "net.onnx", opset=opset)
        return {node.op_type for node in onnx.load(tmp_path / "net.onnx").graph.node}

    assert "Attention" in operators(4, 200, 23)
    assert "Attention" in operators(1, 64, 23)
    assert "Attention" not in operators(2, 200, 23)
    assert "Attention" not in operators(4, 200, 22)


SPACE = """
import std.attention
block gated(x) { return x * (x |> global_avg_pool(keep=true) |> conv(x.channels) |> sigmoid |> as_gate) }
net searched(size = 16) {
    input image: f32[3, size, size]
    x = image |> conv(8, kernel=3, stride=2) |> batch_norm |> relu
    x = x |> local_self_attention(kernel=3, heads=2) |> gated
    x = x + local_attention(x, x, x, kernel=7, heads=4)
    kernels = x |> global_avg_pool |> linear(72) |> reshape([8, 3, 3]) |> as_kernel
    x = x + nonlocal_attention(x) + dynamic_conv(x, kernels)
    x = x + zero(x) |> channel_shuffle(2) |> group_norm(2) |> upsample(2) |> slice(1, none, 1)
    output features = x
    output logits = x |> max_pool(2) |> global_avg_pool |> linear(4)
}
"""


@pytest.mark.parametrize("opset", [17, 23])
@pytest.mark.parametrize("dynamic", [OPEN, ("height",), ("batch", "width")])
def test_dynamic_image_sizes_export_exactly(dynamic: tuple[str, ...], opset: int, tmp_path: Path) -> None:
    graph, path = archir.loads(SPACE).graph, tmp_path / "net.onnx"
    report = exported(graph, path, dynamic=dynamic, opset=opset)
    assert report.relative < 1e-5
    tall, wide = [size if name in dynamic else 16 for name, size in (("height", 32), ("width", 32))]
    assert report.sizes[0] == (tall, wide)
    dims = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
    named = [dim.dim_param for dim in dims]
    assert [named[0], *named[2:]] == [name if name in dynamic else "" for name in OPEN]
    # what was not tried when it was written is right, too
    module, size = TORCH.lower(graph), (22 if "height" in dynamic else 16, 27 if "width" in dynamic else 16)
    x = np.random.default_rng(1).standard_normal((1, 3, *size)).astype(np.float32)
    ONNX.write(graph, path, TORCH.arrays(module), dynamic=dynamic, opset=opset)
    for name, wanted in TORCH.runner(module)({"image": x}).items():
        assert np.abs(ONNX.run(path, {"image": x})[name] - wanted).max() < 1e-4


def test_dynamic_size_error_names_size_dependent_weight(tmp_path: Path) -> None:
    text = """
    net fixed {
        input image: f32[1, 8, 8]
        output logits = image |> conv(4) |> flatten |> linear(3)
    }
    """
    with pytest.raises(
        ArchError, match=r"A0932.*`linear.weight` of `linear` would be \[3, 1024\], not \[3, 256\]"
    ) as e:
        exported(archir.loads(text).graph, tmp_path / "net.onnx", dynamic=("height", "width"))
    assert e.value.diagnostics[0].span is not None
    with pytest.raises(ArchError, match=r"A0932.*does not take images of a single size"):
        valid_sizes(archir.loads("net flat { input x: f32[4] \n output y = x |> linear(2) }").graph, OPEN)


@pytest.mark.parametrize(
    ("body", "axes", "accepted"),
    [
        ("image |> conv(8)", OPEN, "height and width from 1 on"),
        ("image |> conv(8, kernel=5, padding=0) |> max_pool(2)", OPEN, "height and width from 5 on"),
        ("concat(image, image |> conv(8, kernel=4, stride=4) |> upsample(4))", OPEN,
         "height and width from 4 on, in multiples of 4"),
        ("concat(image, image |> conv(8, kernel=2, stride=2) |> upsample(2))", ("height",),
         "height from 2 on, in multiples of 2"),
    ],
)  # fmt: skip
def test_export_names_accepted_image_sizes(body: str, axes: tuple[str, ...], accepted: str, tmp_path: Path) -> None:
    graph = archir.loads(f"net n {{ input image: f32[3, 16, 24] \n output y = {body} }}").graph
    report = exported(graph, tmp_path / "net.onnx", dynamic=axes)
    assert str(report).endswith(f"accepts {accepted}")
    ((size, larger),) = [report.sizes[-2:]]
    step = int(accepted.rpartition(" of ")[2]) if " of " in accepted else 1
    assert larger == (16 + step, 24 + step if "width" in axes else 24)
    with pytest.raises(ArchError):
        exported(resize(graph, size[0] - step, size[1] - step), tmp_path / "net.onnx")


def test_resizing_changes_the_input_alone() -> None:
    graph = archir.loads(SPACE).graph
    other = resize(graph, 32, 48)
    assert [graph[number].op for number in graph][1:] == [other[number].op for number in other][1:]
    assert 'input "image" f32[3, 32, 48]' in archir.print_graph(other)


def test_half_precisions_set_weight_type_and_keep_float_inputs(tmp_path: Path) -> None:
    graph, path = archir.loads(SPACE).graph, tmp_path / "net.onnx"
    sizes = {}
    for precision in ("float32", "float16", "bfloat16"):
        report = exported(graph, path, precision=precision, opset=23)
        sizes[precision] = {
            t.data_type: len(t.raw_data) for t in onnx.load(path).graph.initializer if ".weight" in t.name
        }
        assert {i.type.tensor_type.elem_type for i in onnx.load(path).graph.input} == {onnx.TensorProto.FLOAT}
        if precision == "bfloat16":  # onnxruntime has no bfloat16 convolutions for CPUs
            assert report.batches == () or "CUDAExecutionProvider" in report.providers
            assert "CPU has no kernels for bfloat16 models" in report.note or report.batches
            with pytest.raises(ArchError, match=r"A0914.*lacks a kernel on CPU(.*\n)*.*export without --bf16"):
                session(path)
            with pytest.raises(ArchError, match=r"A2802(.*\n)*.*export it without --fp16 and --bf16"):
                layers(onnx.load(path))
        else:
            assert report.relative < 1e-2
    assert set(sizes["float16"]) == {onnx.TensorProto.FLOAT16}
    assert set(sizes["bfloat16"]) == {onnx.TensorProto.BFLOAT16}


@pytest.mark.parametrize("opset", [22, 23])
def test_float16_rms_norm_does_not_overflow(opset: int, tmp_path: Path) -> None:
    graph = archir.loads("net big { input x: f32[3, 8] \n output y = x * 3000 |> rms_norm(eps=1e-8) }").graph
    assert exported(graph, tmp_path / "net.onnx", precision="float16", opset=opset).relative < 1e-2


def test_rejects_weights_beyond_float16_range(tmp_path: Path) -> None:
    graph = archir.loads("net big { input x: f32[4] \n output y = x |> linear(2) }").graph
    weights = TORCH.arrays(TORCH.lower(graph))
    most = {**weights, "linear.weight": np.full((2, 4), 65_504, np.float32)}
    ONNX.write(graph, tmp_path / "a.onnx", most, precision="float16")
    with pytest.raises(ArchError, match=r"A0931.*`linear.weight` has values up to 1e\+06"):
        ONNX.write(
            graph,
            tmp_path / "a.onnx",
            {**weights, "linear.weight": np.full((2, 4), 1e6, np.float32)},
            precision="float16",
        )


def test_uint8_pixel_input_equals_normalized_input(tmp_path: Path) -> None:
    graph, path = archir.loads(SPACE).graph, tmp_path / "net.onnx"
    pixels = PixelNormalization((0.4, 0.5, 0.6), (0.2, 0.25, 0.3))
    module = TORCH.lower(graph)
    rng = np.random.default_rng(0)
    real = {"image": rng.standard_normal((5, 3, 16, 16)).astype(np.float32)}
    report = archir.export(graph, path, module, pixels=pixels, real=real, certified=True)
    assert report.real == 5
    assert ONNX.verify(path).differences["CPUExecutionProvider"] < 1e-4
    images = rng.integers(0, 256, (2, 16, 16, 3), dtype=np.uint8)
    seen = (images.transpose(0, 3, 1, 2) / 255 - np.reshape(pixels.mean, (3, 1, 1))) / np.reshape(pixels.std, (3, 1, 1))
    wanted = TORCH.runner(module)({"image": seen.astype(np.float32)})
    found = ONNX.run(path, {"image": images})
    assert all(np.abs(found[name] - wanted[name]).max() < 1e-4 for name in wanted)
    with pytest.raises(ArchError, match=r"A0933.*not an image of 2 channels"):
        archir.export(graph, path, module, pixels=([0.5] * 2, [0.5] * 2))


def test_one_mean_and_deviation_of_pixels_stand_for_all_channels(tmp_path: Path) -> None:
    graph = archir.loads(SPACE).graph
    module, images = TORCH.lower(graph), np.random.default_rng(0).integers(0, 256, (2, 16, 16, 3), dtype=np.uint8)
    outputs = []
    for channels in (1, 3):
        archir.export(graph, tmp_path / "net.onnx", module, pixels=([0.4] * channels, [0.2] * channels), certified=True)
        assert ONNX.verify(tmp_path / "net.onnx").differences["CPUExecutionProvider"] < 1e-4
        outputs.append(ONNX.run(tmp_path / "net.onnx", {"image": images}))
    for name, array in outputs[0].items():
        np.testing.assert_allclose(array, outputs[1][name], rtol=1e-5)


def test_rejects_normalization_of_pixels_from_0_to_255(tmp_path: Path) -> None:
    graph = archir.loads(SPACE).graph
    numbers = ([123.675, 116.28, 103.53], [58.395, 57.12, 57.375])
    with pytest.raises(ArchError, match=r"A0911.*123.675 is above 1\n.*0.485,0.456,0.406/0.229,0.224,0.225"):
        archir.export(graph, tmp_path / "net.onnx", TORCH.lower(graph), pixels=numbers)


def test_raw_number_inputs_are_normalized_in_model(tmp_path: Path) -> None:
    """Of several inputs, each by its own mean and deviation; integers have none."""
    text = """
    net mixed {
        input row: f32[2]
        input wave: f32[4, 3]
        input word: i64[5]
        words = word |> embedding(7, 4) |> flatten |> linear(4)
        output y = (row |> linear(4)) + (wave |> flatten |> linear(4)) + words
    }
    """
    graph, path = archir.loads(text).graph, tmp_path / "net.onnx"
    module, rng = TORCH.lower(graph), np.random.default_rng(0)
    scales = {
        "row": {"mean": [2000.0, 5.0], "std": [0.5, 40.0], "of": "numbers"},
        "wave": {"mean": [0.0, 1.0, 2.0], "std": [1.0, 2.0, 4.0], "of": "numbers"},
    }
    seen = {"row": rng.standard_normal((3, 2), np.float32), "wave": rng.standard_normal((3, 4, 3), np.float32)}
    word = {"word": rng.integers(0, 7, (3, 5))}
    real, weights = {**seen, **word}, TORCH.arrays(module)
    ONNX.write(graph, path, weights, reference=TORCH.runner(module), real=real, scales=scales, certified=True)
    raw = {
        name: array * np.float32(scales[name]["std"]) + np.float32(scales[name]["mean"]) for name, array in seen.items()
    }
    wanted, found = TORCH.runner(module)(real), ONNX.run(path, {**raw, **word})
    np.testing.assert_allclose(found["y"], wanted["y"], atol=1e-3)
    with pytest.raises(ArchError, match=r"A0933.*`row` is f32\[2\], not numbers of 1 channels"):
        ONNX.write(graph, path, weights, scales={"row": {"mean": [0.0], "std": [1.0], "of": "numbers"}})


def test_verification_detects_wrong_pixel_normalization(tmp_path: Path) -> None:
    """A wrong deviation is noticed: what the network sees of an image is not what the model makes of it."""
    graph, path = archir.loads(SPACE).graph, tmp_path / "net.onnx"
    module = TORCH.lower(graph)
    right, wrong = PixelNormalization((0.4,) * 3, (0.2,) * 3), PixelNormalization((0.4,) * 3, (0.3,) * 3)
    runner = TORCH.runner(module)
    ONNX.write(graph, path, TORCH.arrays(module), reference=runner, pixels=right)
    from archir_onnx.lowering.export_options import ExportOptions
    from archir_onnx.verification.verify import verify

    with pytest.raises(ArchError, match="A0913"):
        verify(
            path,
            runner,
            {"image": archir.ir.typing.infer(graph)[graph.inputs["image"]]},
            ExportOptions(scales={"": wrong}),
        )


@pytest.mark.parametrize(
    ("form", "within", "beyond"),
    [
        ({}, [9e-5], [1.1e-4, 5e-3, 1.0]),
        ({"precision": "float16"}, [9e-3], [1.1e-2, 0.5]),
        ({"precision": "bfloat16"}, [4.9e-2], [5.1e-2, 2.5]),
    ],
)
def test_models_differ_by_no_more_than_the_tolerance(
    form: dict[str, Any], within: list[float], beyond: list[float], tmp_path: Path
) -> None:
    """Relative to the largest number of an output; a tolerance that is given counts instead."""
    from archir_onnx.lowering.export_options import ExportOptions
    from archir_onnx.verification.verify import verify

    path = tmp_path / "net.onnx"
    graph = archir.loads("net n { input x: f32[4]\n output y = x |> linear(8)\n output z = x }").graph
    runner = TORCH.runner(module := TORCH.lower(graph))
    archir.export(graph, path, module)
    kinds = archir.ir.typing.infer(graph)
    inputs = {name: kinds[number] for name, number in graph.inputs.items()}
    for name in ("y", "z"):
        for off in (*within, *beyond):

            def reference(arrays: Any, name: str = name, off: float = off) -> Any:
                found = dict(runner(arrays))
                return {**found, name: found[name] / (1 + off)}

            if off in within:
                report = verify(path, reference, inputs, ExportOptions(**form))
                assert report.relative <= report.tolerance
            else:
                with pytest.raises(ArchError, match="A0913"):
                    verify(path, reference, inputs, ExportOptions(**form))
            assert verify(path, reference, inputs, ExportOptions(**form), tolerance=1.05 * off).tolerance == 1.05 * off
            with pytest.raises(ArchError, match="A0913"):
                verify(path, reference, inputs, ExportOptions(**form), tolerance=0.9 * off)


def test_verification_covers_batches_sizes_and_real_samples(tmp_path: Path) -> None:
    from archir_onnx.verification.verify import check, verify

    path = tmp_path / "net.onnx"
    graph = archir.loads("net n { input x: f32[3, 8, 8]\n output y = x |> conv(2) }").graph
    runner = TORCH.runner(module := TORCH.lower(graph))
    archir.export(graph, path, module, dynamic=OPEN)
    inputs = {"x": graph[graph.inputs["x"]].op.infer()}
    shapes: list[tuple[int, ...]] = []

    def reference(arrays: Any) -> Any:
        shapes.append(arrays["x"].shape)
        return runner(arrays)

    sizes = {(5, 6): {"x": inputs["x"].with_dims(3, 5, 6)}, (2, 9): {"x": inputs["x"].with_dims(3, 2, 9)}}
    real = {"x": np.ones((4, 3, 8, 8), np.float32)}
    assert verify(path, reference, inputs, sizes=sizes, real=real).real == 4
    assert shapes == [(1, 3, 8, 8), (3, 3, 8, 8), (1, 3, 5, 6), (1, 3, 2, 9), (4, 3, 8, 8)]
    assert verify(path, reference, inputs).real == 0
    with pytest.raises(ArchError, match="A0914"):
        verify(path, reference, inputs, providers=["UnknownExecutionProvider"])
    model = onnx.load(path)
    model.graph.node[0].op_type = "Unknown"
    onnx.save(model, path)
    for given in (model, path):
        with pytest.raises(ArchError, match="A0915"):
            check(given)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ({"attention": "linear"}, "attention must be `auto`, .* not `linear`"),
        ({"attention": "standard", "opset": 22}, "opset 22 has no attention"),
        ({"opset": 27}, "opset 27 is not supported"),
        ({"precision": "float8"}, "there is no precision `float8`"),
        ({"dynamic": ("depth",)}, "there is no axis `depth`"),
        ({"dynamic": (), "batch": 0}, "at least 1, not 0"),
        ({"dynamic": (), "batch": 1 << 31}, "a batch of 2,147,483,648 samples is too large"),
        ({"dynamic": (), "batch": 10**30}, "samples is too large to be verified; the maximum is [0-9,]+"),
        ({"pixels": ((0.5, 0.5, 0.5), (0.1,))}, "normalisation needs a mean"),
        ({"pixels": ((0.5,) * 3, (0.1, 0.0, 0.1))}, "normalisation needs a mean"),
        ({"pixels": ((0.5, 0.5, float("nan")), (0.1,) * 3)}, "normalisation needs a mean"),
    ],
)
def test_rejects_invalid_export_options(form: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=f"A0911.*{text}"):
        exported(archir.loads(SPACE).graph, tmp_path / "net.onnx", **form)
    assert not list(tmp_path.iterdir())


INFINITE = """
net infinite {
    input x: f32[4]
    output fine = x |> relu
    output y = log(-abs(x) - 1)
}
"""


def test_export_rejects_non_finite_outputs(tmp_path: Path) -> None:
    graph = archir.loads(INFINITE).graph
    with pytest.raises(ArchError, match=r"A0913.*nan"):
        archir.export(graph, tmp_path / "net.onnx", TORCH.lower(graph))


def test_inputs_of_every_element_type_export(tmp_path: Path) -> None:
    """Truth values cannot be subtracted, and numpy has no bfloat16."""
    text = "net types {{ input x: {0}[4]\n input z: f32[3]\n output y = x\n output w = z |> relu }}"
    for kind in ("bool", "i32", "i64", "f16"):
        graph = archir.loads(text.format(kind)).graph
        assert archir.export(graph, tmp_path / "net.onnx", TORCH.lower(graph)).relative == 0
    graph = archir.loads(text.format("bf16")).graph
    with pytest.raises(ArchError, match=r"A0907.*bf16"):
        archir.export(graph, tmp_path / "net.onnx", TORCH.lower(graph))


@pytest.mark.parametrize(
    ("line", "operator"),
    [
        ("t |> rotary(heads=2)", "Range"),
        ("attention(t, t, t, heads=4)", None),
        ("concat(t, zero(t), axis=0)", "Shape"),
        ("t |> linear(8) |> to_map", "Sqrt"),
        ("t |> linear(8) |> to_map(height=8)", None),
        ("t |> to_map(height=8)", None),
        ("image |> slice(0, 8, axis=1)", "Slice"),
    ],
)
@pytest.mark.parametrize("form", [{}, {"precision": "float16", "opset": 17}, {"attention": "decomposed"}])
def test_token_operations_export_with_dynamic_image_size(
    line: str, operator: str | None, form: dict[str, Any], tmp_path: Path
) -> None:
    """As many tokens as there are pixels; and what does nothing at one size may do something at another."""
    text = f"net n {{ input image: f32[8, 8, 8]\n t = image |> to_tokens\n output y = {line} }}"
    graph, path = archir.loads(text).graph, tmp_path / "net.onnx"
    report = exported(graph, path, dynamic=OPEN, **form)
    assert report.sizes[:3] == ((16, 16), (12, 12), (4, 4)) or "8" in line
    assert report.relative < (1e-2 if form.get("precision") else 1e-5)
    assert operator is None or operator in {node.op_type for node in onnx.load(path).graph.node}


def test_outputs_named_like_inputs_export(tmp_path: Path) -> None:
    text = """net names {
        input x: f32[3]
        input x_output_output: f32[3]
        output x_output = x |> relu
        output x = x |> tanh
        output x_output_output = x_output_output |> exp
    }"""
    graph, path = archir.loads(text).graph, tmp_path / "net.onnx"
    assert exported(graph, path).relative < 1e-6
    names = [one.name for one in onnx.load(path).graph.output]
    assert names == ["x_output", "x_output_output_output", "x_output_output_output_output"]


def test_real_samples_that_fill_no_batch_are_not_counted(tmp_path: Path) -> None:
    graph = archir.loads("net n { input x: f32[4]\n output y = x |> relu }").graph
    for batch, count in ((2, 4), (5, 5), (6, 0)):
        real = {"x": np.ones((5, 4), np.float32)}
        report = exported(graph, tmp_path / "net.onnx", dynamic=(), batch=batch, real=real)
        assert report.real == count
    assert exported(graph, tmp_path / "net.onnx", real={"x": np.ones((0, 4), np.float32)}).real == 0


def test_zero_padding_before_max_pool_is_kept(tmp_path: Path) -> None:
    """onnxruntime takes padding into a pool that follows, where it is less than every number."""
    text = 'net n { input x: f32[2, 8, 8]\n output y = x |> pad(1) |> max_pool(3, stride=2, padding="valid") }'
    low = {"x": -1 - np.random.default_rng(0).random((1, 2, 8, 8), np.float32)}
    archir.export(graph := archir.loads(text).graph, tmp_path / "net.onnx", TORCH.lower(graph))
    (found,) = session(tmp_path / "net.onnx").run(None, low)
    assert np.array_equal(found[0, 0, 0], [0, 0, 0, 0])


def test_weights_that_are_not_numbers_are_stored_once() -> None:
    builder = Builder(ExportOptions(), [])
    array = np.array([1.0, np.nan], np.float32)
    assert {builder.weight("w", array), builder.weight("w", array.copy())} == {"w"}
