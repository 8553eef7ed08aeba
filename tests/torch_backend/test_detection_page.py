"""The documentation's detector: a step of training changes the backbone that archir made."""

from __future__ import annotations

import json
import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import archir
from benchmarks.imports import importable
from tests.conftest import ROOT
from tests.documents import commands, execute, snippets, unpack

PAGE = ROOT / "docs" / "detection.md"
MISSING = [library for library in ("torchvision", "timm") if find_spec(library) is None]


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
@pytest.mark.filterwarnings("ignore")
def test_a_step_of_the_documented_detector_trains_the_backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importable()
    unpack(PAGE, tmp_path)
    monkeypatch.chdir(tmp_path)
    for command, shown in commands(PAGE):
        execute(command, shown)
    (program,) = snippets(PAGE, "python")
    (tmp_path / "detector.py").write_text(program.text)
    torch.manual_seed(0)
    names = runpy.run_path(str(tmp_path / "detector.py"))
    losses = names["losses"]
    assert {*losses} == {"classification", "bbox_regression"}
    assert all(bool(loss.isfinite()) for loss in losses.values())
    before = archir.compile(archir.load("backbone.arch", levels=True, size=128).specialize(found())).state_dict()
    trained = dict(names["network"].named_parameters())
    assert {name for name in trained if torch.equal(trained[name], before[name])} == {"linear.weight", "linear.bias"}
    untrained = archir.compile(archir.load("backbone.arch").specialize(found())).state_dict()
    assert {*untrained} == {*before}


def found() -> dict[str, str]:
    """The choices in `found.json`."""
    choices: dict[str, str] = json.loads(Path("found.json").read_text())["choices"]
    return choices
