"""Blocks of networks as networks of their own, and as torch files for networks that others write."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner

import archir
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir.spaces.architecture import read_architecture
from archir_torch import BACKEND as TORCH
from archir_torch.export.source.emit import emit_block
from archir_torch.lowering.weights import read_weights
from tests.conftest import EXAMPLES
from tests.documents import snippets
from tests.torch_backend.export.test_emit import imported

TWICE = """
block unit(x, width) { return x |> conv(width) |> batch_norm |> relu }
block two(x, y) { return x + y, x * y }
net twice { input image: f32[1, 8, 8]
    x = image |> unit(4) |> unit(8)
    a, b = two(x, x |> unit(8) |> sigmoid)
    output logits = a * b |> global_avg_pool |> linear(3)
}
"""


@cache
def autola() -> Graph:
    space = archir.load(EXAMPLES / "autola" / "imagenet.arch", size=64, summary="groups")
    choices = read_architecture((EXAMPLES / "autola" / "hoga_paper.json").read_text("utf-8")).choices
    return space.specialize(space.architecture(choices))


@cache
def written(block: str) -> str:
    """The file of a block of it."""
    return emit_block(autola(), block)


def twice() -> Graph:
    return archir.loads(TWICE, name="twice").graph


def test_readme_block_trains_inside_handwritten_resnet50(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the example's README shows: the module as a file, in a ResNet-50 of torch, with the published size."""
    readme = EXAMPLES / "autola" / "README.md"
    program, shown = next(
        (one.text, two.text) for one, two in zip(snippets(readme), snippets(readme)[1:], strict=False)
        if one.language == "python"
    )  # fmt: skip
    command = next(one.text for one in snippets(readme, "console") if "--block" in one.text).splitlines()[0]
    arguments = command.removeprefix("$ archir ").replace("examples/", f"{EXAMPLES}/").split()
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, arguments).exit_code == 0
    hoga = imported(tmp_path / "hoga.py", (tmp_path / "hoga.py").read_text())
    monkeypatch.setitem(sys.modules, "hoga", hoga)
    found = imported(tmp_path / "program.py", program)
    model = found.model.train()
    assert sum(weight.numel() for weight in model.parameters()) == int(shown)
    rate, before = 0.01, {name: weight.detach().clone() for name, weight in model.named_parameters()}
    images, labels = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.arange(4)
    F.cross_entropy(model(images), labels).backward()
    torch.optim.SGD(model.parameters(), rate).step()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all()
    moved = [name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])]
    assert len(moved) > 0.99 * len(before)


@pytest.mark.parametrize(("stage", "channels"), [pytest.param(0, 64, marks=pytest.mark.soak), (3, 512)])
def test_emitted_block_file_equals_block(stage: int, channels: int, tmp_path: Path) -> None:
    scope = f"resnet.residual_stages.inside_bottleneck[{stage}][1].bottleneck.hoga"
    module = archir.compile(archir.block(autola(), f"hoga@{scope}")).eval()
    hoga = imported(tmp_path / "hoga.py", written("hoga")).Hoga(channels).eval()
    hoga.load_state_dict(module.state_dict())
    module.open_sizes = True
    x = torch.randn(2, channels, 8, 8)
    with torch.no_grad():
        assert torch.equal(hoga(x), module(x))


def test_a_block_takes_sizes_that_the_network_does_not_have(tmp_path: Path) -> None:
    hoga = imported(tmp_path / "hoga.py", written("hoga")).Hoga(96)
    assert hoga(torch.randn(2, 96, 7, 7)).shape == (2, 96, 7, 7)


def test_block_output_equals_its_output_in_network() -> None:
    graph = twice()
    whole = archir.compile(graph).eval()
    first, second = (archir.compile(archir.block(graph, f"unit@{scope}")).eval() for scope in ("unit", "unit_2"))
    for part, scope in ((first, "unit."), (second, "unit_2.")):
        state = {name.removeprefix(scope): w for name, w in whole.state_dict().items() if name.startswith(scope)}
        part.load_state_dict(state)
    seen: list[torch.Tensor] = []
    whole.get_submodule("unit_3.conv").register_forward_pre_hook(lambda _, given: seen.append(given[0].clone()))
    image = torch.randn(2, 1, 8, 8)
    with torch.no_grad():
        whole(image)
        assert torch.equal(second(first(image)), seen[0])


def test_block_with_several_inputs_and_outputs_is_extracted(tmp_path: Path) -> None:
    graph = twice()
    block = archir.block(graph, "two")
    assert [*block.inputs] == ["x", "x2"]
    x, y = torch.randn(2, 2, 8, 8, 8)
    found = archir.compile(block)(x, y)
    two = imported(tmp_path / "two.py", emit_block(graph, "two")).Two()
    assert all(torch.equal(a, b) for a, b in zip(found.values(), two(x, y), strict=True))
    assert torch.equal(two(x, y)[0], x + y)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("unti", r"no block `unti`\n.*did you mean `unit`"),
        ("nothing", r"no block `nothing`\n.*blocks are `two` and `unit`"),
        ("unit@uint_2", r"`unit` is not called at `uint_2`\n.*did you mean `unit_2`"),
        ("unit", r"3 different calls of `unit`: those at `unit`, `unit_2` and `unit_3`\n.*`unit@unit`"),
    ],
)
def test_rejects_unknown_or_ambiguous_block(name: str, message: str) -> None:
    with pytest.raises(ArchError, match=f"(?s)A0906.*{message}"):
        archir.block(twice(), name)


def test_blocks_with_different_contents_are_not_one_class() -> None:
    with pytest.raises(ArchError, match=r"A0906.*different calls of `edge`.*edge\[1\]\[0\]"):
        emit_block(autola(), "edge")


def test_rejects_block_with_open_choices() -> None:
    space = archir.load(EXAMPLES / "autola" / "autola.arch", depth=8)
    with pytest.raises(ArchError, match=r"A0901.*`hoga.edge\[0\]\[0\].op`"):
        archir.block(space.graph, "hoga")


def test_the_command_writes_the_weights_of_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("twice.arch").write_text(archir.format(TWICE))
    module = TORCH.lower(twice(), seed=3).eval()
    TORCH.save(module, Path("trained.safetensors"))
    command = ["compile", "twice.arch", "--to", "torch", "--weights", "trained.safetensors", "-o", "unit.py", "--block"]
    done = CliRunner().invoke(main, [*command, "unit@unit_2"])
    assert done.output == "wrote unit.py and unit.safetensors\n"
    written = imported(Path("unit.py").resolve(), Path("unit.py").read_text())
    unit = written.Unit(4, 8)
    unit.load_state_dict(written.weights("unit.safetensors"))
    assert torch.equal(unit.conv.weight, module.get_submodule("unit_2.conv").weight)
    assert "`Unit(1, 4)`, `Unit(4, 8)` and `Unit(8, 8)`" in written.__doc__
    assert read_weights(Path("unit.safetensors"))[0].keys() == {
        "conv.weight", *(f"batch_norm.{name}" for name in ("weight", "bias", "running_mean", "running_var"))
    }  # fmt: skip
    refused = CliRunner().invoke(main, [*command, "unit"])
    assert refused.exit_code == 1
    assert re.search(r"A0906.*3 calls of `unit`, with weights of their own", refused.output)
