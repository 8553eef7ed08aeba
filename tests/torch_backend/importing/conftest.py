"""Seed torch's generator, from which modules of these tests initialise their weights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _the_same_weights() -> Iterator[None]:
    """Seed the generator for each test, because rounding errors of deep networks depend on the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
