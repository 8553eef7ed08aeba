"""Standalone torch files: they import torch alone, load the same weights and give the same outputs."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import archir
from archir.ir.graph import Graph
from archir_torch.emit import emit
from archir_torch.module import lower
from tests.conftest import EXAMPLES


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
    x = torch.randn(2, *graph[next(iter(graph.inputs.values()))].op.infer().shape)
    with torch.no_grad():
        wanted, found = module(x), emitted(x)
    assert torch.equal(wanted, found)
    return text


def test_resnet50_is_short_and_imports_torch_alone(tmp_path: Path) -> None:
    text = assert_same(archir.load(EXAMPLES / "resnet50.arch", size=64).graph, tmp_path / "resnet50.py")
    assert len(text.splitlines()) < 250
    names = {n.module for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)}
    names |= {alias.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Import) for alias in n.names}
    assert names == {"json", "sys", "pathlib", "torch", "torch.nn.functional"}
    assert text.count("class Bottleneck") == 2


def test_the_file_runs_where_archir_is_not(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(emit(archir.load(EXAMPLES / "resnet50.arch", size=32, classes=10).graph))
    done = subprocess.run(
        [sys.executable, "-W", "error", "net.py"], cwd=tmp_path, env={}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("logits: [1, 10], the largest number is at ")


@pytest.mark.parametrize("name", ["deit_tiny", "mobilenet_v2"])
def test_plain_nets(name: str, tmp_path: Path) -> None:
    text = assert_same(archir.load(EXAMPLES / f"{name}.arch", size=32).graph, tmp_path / f"{name}.py")
    assert len(text.splitlines()) < 250


@pytest.mark.parametrize("seed", range(4))
def test_sampled_networks(seed: int, tmp_path: Path) -> None:
    space = archir.load(EXAMPLES / "full_attention" / "full_attention.arch", size=8)
    assert_same(space.specialize(space.sample(seed)), tmp_path / "net.py")


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


def test_emitted_files_pass_ruffs_default_rules(tmp_path: Path) -> None:
    space = archir.load(EXAMPLES / "full_attention" / "full_attention.arch", size=8)
    (tmp_path / "a.py").write_text(emit(space.specialize(space.sample(0))))
    (tmp_path / "b.py").write_text(emit(archir.load(EXAMPLES / "deit_tiny.arch", size=32).graph))
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_choices_must_be_made(tmp_path: Path) -> None:
    space = archir.load(EXAMPLES / "full_attention" / "full_attention.arch")
    with pytest.raises(archir.ArchError, match=r"A0901.*must be chosen"):
        emit(space.graph)
