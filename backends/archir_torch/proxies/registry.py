"""Which proxies there are."""

from __future__ import annotations

from collections.abc import Callable

from archir.plugins.registry import Registry
from archir_torch.proxies.untrained import Trial

Proxy = Callable[[Trial], float]

PROXIES: Registry[str, Proxy] = Registry("proxy", "proxies")
"""Every proxy by its name."""


def proxy(function: Proxy) -> Proxy:
    """Register a proxy by its function's name."""
    PROXIES.register(function.__name__, function)
    return function
