"""Fixtures of the tests of imported models: most are compared with onnxruntime in this process."""

from __future__ import annotations

import pytest

from archir_onnx.verification import sandbox


@pytest.fixture
def isolated() -> None:
    """Run models in a separate process, as users do."""


@pytest.fixture(autouse=True)
def _run_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run models in this process, unless a test is `isolated`: starting the other takes a second."""
    if "isolated" not in request.fixturenames:
        monkeypatch.setattr(sandbox, "_answer", sandbox._run_part)
