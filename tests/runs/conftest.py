"""Fixtures of the tests of runs."""

from __future__ import annotations

import os

import pytest

from archir.runs import journal


@pytest.fixture(autouse=True)
def _no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable fsync, which is slow: no test can lose written data that is not synced."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(journal, "SYNCHRONOUS", "OFF")
