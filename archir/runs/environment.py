"""What a run ran on: versions of what computes, the kind of machine, what the backend says of devices."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from archir import __version__

_PACKAGES = ("torch", "numpy", "networkx", "lark", "onnx", "onnxruntime", "onnxruntime-gpu", "safetensors", "pydantic")


def environment(**facts: Any) -> dict[str, Any]:
    """Versions and machine, and what the caller knows besides: device, threads."""
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
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
