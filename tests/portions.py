"""What the suite tries of what the soak tries whole."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def portion(names: Iterable[Any], few: Container[Any]) -> list[Any]:
    """All names for `parametrize`: the suite tries a few of them, the soak the others."""
    return [name if name in few else pytest.param(name, marks=pytest.mark.soak) for name in names]
