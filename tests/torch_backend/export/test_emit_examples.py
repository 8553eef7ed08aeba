"""Every example's architectures as standalone torch files: what they import, how they read, and what they compute."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import archir
from archir.ir.graph import Graph
from archir.language.elaboration.files import read_program
from archir.spaces.architecture import read_architecture
from archir_torch import BACKEND as TORCH
from archir_torch.export.source.emit import emit
from tests.architectures import inputs_of
from tests.conftest import EXAMPLES
from tests.examples import CELLS, NETS, elaborated
from tests.soak import with_soak
from tests.torch_backend.export.test_emit import imported

FEW = (
    "autoformer/autoformer.arch:autoformer_tiny",
    "darts/darts.arch:darts",
    "full_attention/full_attention.arch:full_attention",
    "glit/search.arch:levels",
    "mobilenet_v2.arch:mobilenet_v2",
    "mobilenet_v3_ofa/mobilenet_v3_ofa.arch:mobilenet_v3_ofa",
    "nas_bert/nas_bert.arch:nas_bert",
    "trionet/baselines.arch:axial_net",
)
"""Layers, cells, attention, text, elastic convolutions, and several outputs."""
SOAK = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 20)]


def written(graph: Graph, folder: Path) -> tuple[Path, torch.nn.Module]:
    """A network's file with the weights beside it, and the module that they are of."""
    module = TORCH.lower(graph).eval()
    (folder / "net.py").write_text(emit(graph))
    TORCH.save(module, folder / "net.safetensors")
    return folder / "net.py", module


def imports(path: Path) -> set[str]:
    """The packages that a file imports."""
    nodes = [*ast.walk(ast.parse(path.read_text()))]
    names = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {name.split(".")[0] for name in names}


def test_every_example_net_is_listed() -> None:
    found = set()
    for path in EXAMPLES.rglob("*.arch"):
        for name in re.findall(r"^net (\w+)", read_program(path), re.MULTILINE):
            found.add(f"{path.relative_to(EXAMPLES)}:{name}")
    assert found == NETS.keys()


@pytest.mark.parametrize("seed", [0, *SOAK])
@pytest.mark.parametrize("net", with_soak(NETS, FEW))
def test_emitted_example_files_equal_networks(net: str, seed: int, tmp_path: Path) -> None:
    space = elaborated(net, **NETS[net])
    if seed and not space.choices:
        pytest.skip("there is one architecture")
    graph = space.specialize(space.sample(seed))
    path, module = written(graph, tmp_path)
    assert imports(path) - sys.stdlib_module_names == {"torch"}
    ruff = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", path], capture_output=True, text=True, check=False
    )
    assert ruff.returncode == 0, ruff.stdout
    loaded = imported(path, path.read_text()).load(path.with_suffix(".safetensors"))
    inputs = inputs_of(graph)
    with torch.no_grad():
        wanted, found = module(*inputs), loaded(*inputs)
    if not isinstance(wanted, dict):
        wanted, found = {"": wanted}, {"": found}
    assert wanted.keys() == found.keys()
    assert all(torch.equal(wanted[name], found[name]) for name in wanted)


@pytest.mark.parametrize(
    "net", with_soak(["glit.arch", "search.arch:high", "search.arch:low", "search.arch:levels"], ["glit.arch"])
)
def test_sampled_glit_file_is_short(net: str) -> None:
    space = archir.load(EXAMPLES / "glit" / net)
    assert space.graph.parameters.get("depth", 12) == 12
    for seed in range(5):
        assert len(emit(space.specialize(space.sample(seed))).splitlines()) < 250


def test_published_glit_file_is_short() -> None:
    space = archir.load(EXAMPLES / "glit" / "search.arch:low")
    choices = read_architecture((EXAMPLES / "glit" / "glit_tiny.json").read_text()).choices
    text = emit(space.specialize(space.architecture(choices)))
    assert len(text.splitlines()) < 250
    assert text.count("class Layer") == 2  # without drop path, and with it


def printed(path: Path, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch, *arguments: str) -> str:
    """What a file prints when it is run, here in this process."""
    patch.setattr(sys, "argv", [str(path), *arguments])
    imported(path, path.read_text()).main()
    return capsys.readouterr().out


def test_emitted_file_runs_with_named_adjacent_or_no_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the weights that are named, with those beside it, and with none."""
    path, module = written(archir.load(EXAMPLES / "mobilenet_v2.arch", size=32, classes=10).graph, tmp_path)
    torch.manual_seed(0)
    with torch.no_grad():
        largest = module(torch.randn(1, 3, 32, 32)).argmax().item()
    wanted = f"logits: [1, 10], the largest number is at {largest}\n"
    assert printed(path, capsys, monkeypatch) == wanted
    weights = (tmp_path / "net.safetensors").rename(tmp_path / "trained.safetensors")
    assert printed(path, capsys, monkeypatch, str(weights)) == wanted
    assert printed(path, capsys, monkeypatch).startswith("logits: [1, 10]")
    with pytest.raises(FileNotFoundError):
        printed(path, capsys, monkeypatch, "nowhere.safetensors")


def test_several_outputs_are_all_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    space = archir.load(EXAMPLES / "darts/darts.arch:darts", auxiliary=True, **{**CELLS, "size": 32})
    path, _ = written(space.specialize(space.sample(0)), tmp_path)
    shown = printed(path, capsys, monkeypatch)
    assert re.fullmatch(r"logits: \[1, 10\], .*\nauxiliary: \[1, 10\], .*\n", shown)


@pytest.mark.parametrize("cut", [4, 100, 3000])
def test_weights_that_were_cut_off_are_refused(cut: int, tmp_path: Path) -> None:
    space = archir.loads("net tiny { input x: f32[8]\n output y = x |> linear(100) }", name="tiny")
    path, _ = written(space.graph, tmp_path)
    weights = path.with_suffix(".safetensors")
    weights.write_bytes(weights.read_bytes()[:cut])
    with pytest.raises((ValueError, RuntimeError)):
        imported(path, path.read_text()).load(weights)
