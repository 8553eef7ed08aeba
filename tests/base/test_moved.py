"""Modules whose documented names have changed: the old ones work, and say what the new ones are."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("archir.errors", "archir.base.errors", "ArchError"),
        ("archir.types", "archir.ir.types", "TensorType"),
        ("archir.runs", "archir.search.runs", "Run"),
        ("archir.passes.relax", "archir.passes.spaces.relax", "relax"),
        ("archir.search.multi.front", "archir.search.fronts.listing", "rows"),
        ("archir_onnx.rules", "archir_onnx.lowering.rules", "lowers"),
        ("archir_torch.engine.feed", "archir_torch.training.feed", "Feed"),
        ("archir_torch.proxies", "archir_torch.search.proxies", "proxy"),
        ("archir_torch.rules", "archir_torch.lowering.rules", "lowers"),
        ("archir_torch.tuning", "archir_torch.supernet.tuning", "tuned"),
    ],
)
@pytest.mark.filterwarnings("ignore:archir_torch.engine has moved")
def test_old_names_are_deprecated(old: str, new: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import_module(new.split(".")[0])
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{old} has moved: import {new}"):
        found = import_module(old)
    assert getattr(found, name) is getattr(import_module(new), name)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        found.nothing_of_the_kind  # noqa: B018
