"""Zero-cost proxies: scores of untrained networks on one minibatch; more is better.

Names and definitions are those of Abdelfattah et al. 2021 ("Zero-Cost Proxies for Lightweight NAS", section 3.2) and of
the papers that each names. A function under `@proxy` is a proxy of its name, in any file of this folder or in anybody
else's.
"""

from importlib import import_module
from pkgutil import iter_modules

from archir_torch.search.proxies.registry import PROXIES, Proxy, proxy
from archir_torch.search.proxies.untrained import Trial, trial, weighing

__all__ = ["PROXIES", "Proxy", "Trial", "proxy", "trial", "weighing"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
