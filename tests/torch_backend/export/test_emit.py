"""Standalone torch files: they import torch alone, load the same weights and give the same outputs."""

from __future__ import annotations

import ast
import importlib.util
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import save_file

import archir
from archir.ir.graph import Graph
from archir_torch.export.source.emit import emit
from archir_torch.lowering.module import lower
from archir_torch.lowering.weights import load_weights, save_weights
from tests.conftest import EXAMPLES
from tests.op_cases import CASES, graph_of
from tests.soak import with_soak
from tests.torch_backend.lowering.test_lowering import inputs_of


def imported(path: Path, text: str) -> ModuleType:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def last_class(text: str) -> str:
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)][-1]


def assert_same(graph: Graph, path: Path) -> str:
    text = emit(graph)
    emitted = getattr(imported(path, text), last_class(text))().eval()
    module = lower(graph).eval()
    emitted.load_state_dict(module.state_dict())
    inputs = [torch.randn(2, *graph[number].op.infer().shape) for number in graph.inputs.values()]
    with torch.no_grad():
        wanted, found = module(*inputs), emitted(*inputs)
    assert torch.equal(wanted, found)
    return text


def test_resnet50_is_short_and_imports_torch_alone(tmp_path: Path) -> None:
    text = assert_same(archir.load(EXAMPLES / "resnet50.arch", size=64).graph, tmp_path / "resnet50.py")
    assert len(text.splitlines()) < 250
    names = {n.module for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)}
    names |= {alias.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Import) for alias in n.names}
    assert names == {"json", "sys", "pathlib", "torch", "torch.nn.functional"}
    assert text.count("class Bottleneck") == 2


@pytest.mark.parametrize("fresh", with_soak([False, True], [False]))
def test_emitted_file_runs_without_archir(
    fresh: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In an interpreter of its own, or in this one, where archir can no longer be imported."""
    (tmp_path / "net.py").write_text(emit(archir.load(EXAMPLES / "deit_tiny.arch", size=32, classes=10).graph))
    if fresh:
        done = subprocess.run(
            [sys.executable, "-W", "error", "net.py"], cwd=tmp_path, env={}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        said = done.stdout
    else:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["net.py"])
            for name in [name for name in sys.modules if name.startswith("archir")]:
                patch.setitem(sys.modules, name, None)
            with pytest.raises(ImportError):
                importlib.import_module("archir")
            runpy.run_path(str(tmp_path / "net.py"), run_name="__main__")
        said = capsys.readouterr().out
    assert said.startswith("logits: [1, 10], the largest number is at ")


@pytest.mark.parametrize("biased", ["true", "false"])
def test_unevenly_padded_convolutions_are_emitted_exactly(biased: str, tmp_path: Path) -> None:
    """They are not layers of torch: a class of their own, of which a network may need two forms."""
    text = """
    net uneven {
        input image: f32[3, 9, 9]
        x = image |> conv(4, kernel=2, bias=BIASED) |> conv(4, kernel=4, bias=false) |> conv(4, kernel=2, bias=true)
        output x = x
    }
    """.replace("BIASED", biased)
    written = assert_same(archir.loads(text).graph, tmp_path / "uneven.py")
    assert "nn.Conv2d" not in written


def test_names_cannot_inject_code(tmp_path: Path) -> None:
    """Names of `.arch` files reach the text as identifiers only, whatever Python makes of them."""
    text = """
    block half(x, lambda) { return x |> conv(lambda) }
    block forward(x) { return x |> half(4) |> batch_norm }
    net class(training = 3) {
        input def: f32[training, 8, 8]
        x = def |> forward
        for i in 0..2 { x = x |> choose import { None: conv(4), self: relu } }
        output type = x |> global_avg_pool
        output yield = x
    }
    """
    space = archir.loads(text)
    for seed in range(3):
        graph = space.specialize(space.sample(seed))
        source = emit(graph)
        emitted = getattr(imported(tmp_path / "odd.py", source), last_class(source))().eval()
        module = lower(graph).eval()
        emitted.load_state_dict(module.state_dict())
        x = torch.randn(2, 3, 8, 8)
        wanted, found = module(x), emitted(x)
        assert wanted.keys() == found.keys() == {"type", "yield"}
        assert all(torch.equal(wanted[name], found[name]) for name in wanted)


@pytest.mark.parametrize("name", ["layer", "torch", "float", "rotary"])
def test_inputs_may_have_names_that_statements_use(name: str, tmp_path: Path) -> None:
    text = """
    block turned(x) { return x |> rotary(heads=2) }
    block step(x) { return x |> linear(8) |> relu }
    net named {
        input x: f32[6, 8]
        input NAME: f32[6, 8]
        input map: f32[8, 3, 3]
        for i in 0..4 { x = x |> step }
        x = concat(x, x |> turned, NAME) |> global_avg_pool |> linear(8)
        output y = x + (map |> upsample(2) |> global_avg_pool)
    }
    """
    source = assert_same(archir.loads(text.replace("NAME", name)).graph, tmp_path / "named.py")
    assert "for layer in self.step" in source


def test_block_without_input_knows_batch_size(tmp_path: Path) -> None:
    text = """
    block table(size) { return parameter([size]) }
    block half(size) { return table(size) * 0.5 }
    net position { input x: f32[4]
        output y = x + half(4) }
    """
    graph = archir.loads(text, name="position").graph
    assert_same(graph, tmp_path / "position.py")


def test_modules_that_are_passed_in_are_not_shared(tmp_path: Path) -> None:
    """Two places of a class that take modules of equal classes take two modules."""
    text = """
    block left(x, width) { return x |> conv(width) }
    block right(x, width) { return x |> conv(width) |> relu }
    block either(x, width, kind) { return x |> left(width) if kind == 0 else x |> right(width) }
    block both(x, width, kind) {
        for i in 0..2 { x = x |> either(width, kind) }
        return x
    }
    block outer(x, width, kind) { return x |> both(width, kind) }
    net twins { input x: f32[4, 8, 8]
        output y = x |> outer(4, 0) |> outer(4, 1) |> outer(4, 0)
    }
    """
    graph = archir.loads(text, name="twins").graph
    source = assert_same(graph, tmp_path / "twins.py")
    twins = imported(tmp_path / "twins.py", source).Twins()
    assert sum(p.numel() for p in twins.parameters()) == archir.cost(graph).params


def test_derived_numbers_are_emitted_as_expressions() -> None:
    text = """
    block unit(x, width) { return x |> conv(width / 4, kernel=1) |> relu |> conv(width) |> slice(0, width / 2) }
    net units { input x: f32[8, 8, 8]
        output y = x |> unit(8) |> conv(16) |> unit(16) |> conv(32) |> unit(32)
    }
    """
    source = emit(archir.loads(text, name="units").graph)
    assert source.count("class Unit") == 2
    for line in [
        "def __init__(self, in_channels):",
        "self.conv = nn.Conv2d(in_channels, in_channels // 4, 1, bias=False)",
        "self.stop = in_channels // 2",
        "return self.conv_2(F.relu(self.conv(x)))[:, :self.stop]",
        "self.unit = Unit(8)",
        "self.unit_3 = Unit(32)",
    ]:
        assert line in source


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ("x[0:4] * sigmoid(x[4:8])", "x, y = x.chunk(2, 1)"),
        ("x[0:2] * sigmoid(x[2:4])", "x[:, :2]"),
        ("x[0:2] |> concat(sigmoid(x[2:8]))", "x[:, 2:]"),
    ],
)
def test_only_equal_slices_are_emitted_as_chunk(parts: str, text: str, tmp_path: Path) -> None:
    net = f"net parts {{ input x: f32[8, 8, 8]\n output y = {parts} }}"
    assert text in assert_same(archir.loads(net, name="parts").graph, tmp_path / "parts.py")


def test_rejects_emitting_open_choices(tmp_path: Path) -> None:
    space = archir.load(EXAMPLES / "full_attention" / "full_attention.arch")
    with pytest.raises(archir.ArchError, match=r"A0901.*must be chosen"):
        emit(space.graph)


def test_network_without_weights_saves_and_loads_empty_file(tmp_path: Path) -> None:
    graph = archir.loads("net plain { input x: f32[4]\n output y = x |> relu }").graph
    module, path = lower(graph), tmp_path / "plain.safetensors"
    save_weights(module, path)
    assert load_weights(module, path) == {}
    assert imported(tmp_path / "plain.py", emit(graph)).load(path)(torch.ones(1, 4)).shape == (1, 4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.uint8, torch.bool])
def test_weights_of_any_type_are_read(dtype: torch.dtype, tmp_path: Path) -> None:
    graph = archir.loads("net plain { input x: f32[4]\n output y = x |> linear(2) }").graph
    weights = {name: torch.ones_like(tensor, dtype=dtype) for name, tensor in lower(graph).state_dict().items()}
    save_file(weights, tmp_path / "plain.safetensors")
    loaded = imported(tmp_path / "plain.py", emit(graph)).load(tmp_path / "plain.safetensors")
    assert loaded(torch.ones(1, 4)).tolist() == [[5, 5]]


def test_every_operation_is_emitted_exactly(tmp_path: Path) -> None:
    for i, (op, dims) in enumerate({(type(op), tuple(map(len, dims))): (op, dims) for op, dims in CASES}.values()):
        graph = graph_of(op, dims)
        emitted = imported(tmp_path / f"net{i}.py", text := emit(graph))
        module, made = lower(graph).eval(), getattr(emitted, last_class(text))().eval()
        made.load_state_dict(module.state_dict())
        with torch.no_grad():
            given = inputs_of(graph)
            torch.testing.assert_close(made(*given), module(*given), rtol=0, atol=0, msg=f"{op}")
