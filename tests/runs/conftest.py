"""What tests of runs share."""

from __future__ import annotations

import os

import pytest

from archir.runs import journal


@pytest.fixture(autouse=True)
def _no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that a test can do loses what was written and not yet synced; disks take their time over that."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(journal, "SYNCHRONOUS", "OFF")
