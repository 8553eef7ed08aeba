"""Which proxies there are."""

from __future__ import annotations

from collections.abc import Callable

from archir_torch.search.proxies.untrained import Trial

Proxy = Callable[[Trial], float]

PROXIES: dict[str, Proxy] = {}
"""Every proxy by its name."""


def proxy(function: Proxy) -> Proxy:
    """Register a proxy by its function's name."""
    assert function.__name__ not in PROXIES, f"two proxies are named {function.__name__}"
    PROXIES[function.__name__] = function
    return function
