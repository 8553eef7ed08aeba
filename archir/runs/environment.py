"""Environment of a run: package versions, the machine, and facts about devices from the backend."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from archir import __version__

_PACKAGES = ("torch", "numpy", "networkx", "lark", "onnx", "onnxruntime", "onnxruntime-gpu", "safetensors", "pydantic")
"""Packages whose versions may affect results."""


def environment(**facts: Any) -> dict[str, Any]:
    """Return package versions and machine properties, plus `facts` from the caller, such as device and thread count."""
    return {
        "archir": __version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "packages": _versions(),
        **facts,
    }


def _versions() -> Mapping[str, str]:
    """Return the installed versions of the packages in `_PACKAGES`."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
