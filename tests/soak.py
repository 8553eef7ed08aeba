"""Parameters of tests that the suite runs in part, and the soak completely."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def with_soak(names: Iterable[Any], quick: Container[Any]) -> list[Any]:
    """Return all names for `parametrize`; those that are not `quick` are marked for the soak."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.soak) for name in names]
