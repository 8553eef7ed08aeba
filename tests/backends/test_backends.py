"""Backends are found by their entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from archir import backends
from archir.diagnostics.errors import ArchError


def test_entry_points_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def found(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return [EntryPoint("mine", "nowhere_at_all", group)]

    monkeypatch.setattr(backends, "entry_points", found)
    monkeypatch.syspath_prepend("a folder that nothing was looked for in")
    assert backends.names() == ["mine", "onnx", "torch"]
    for _ in range(3):
        assert backends.get("torch").name == "torch"
        with pytest.raises(ArchError, match="cannot be loaded"):
            backends.get("mine")
    assert asked == ["archir.backends"]
