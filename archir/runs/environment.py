"""Environment of a run: versions of packages, the machine, and facts about devices from the backend."""

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
    """Return versions and the machine, with further facts from the caller, such as device and threads."""
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
    """Return the versions of installed packages that affect results."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
