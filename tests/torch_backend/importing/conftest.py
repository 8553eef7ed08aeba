"""Modules draw their weights from torch's own generator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _the_same_weights() -> Iterator[None]:
    """Whatever was drawn before: rounding errors of deep networks differ from seed to seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
