"""Registry of zero-cost proxies."""

from __future__ import annotations

from collections.abc import Callable

from archir.plugins.registry import Registry
from archir_torch.proxies.untrained import Trial

Proxy = Callable[[Trial], float]

PROXIES: Registry[str, Proxy] = Registry("proxy", "proxies", "archir_torch.proxies")
"""Registry of proxies by name."""


def proxy(function: Proxy) -> Proxy:
    """Decorator that registers a function as a proxy under the function's name."""
    PROXIES.register(function.__name__, function)
    return function
