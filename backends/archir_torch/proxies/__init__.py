"""Zero-cost proxies: scores of untrained networks on one minibatch; more is better.

Names and definitions are those of Abdelfattah et al. 2021 ("Zero-Cost Proxies for Lightweight NAS", section 3.2) and of
the papers that each names. A function under `@proxy` is a proxy of its name, in any file of this folder or in anybody
else's.
"""

from archir.plugins.bundled import import_all
from archir_torch.proxies.registry import PROXIES, Proxy, proxy
from archir_torch.proxies.untrained import Trial, trial, weighing

__all__ = ["PROXIES", "Proxy", "Trial", "proxy", "trial", "weighing"]

import_all(__name__)
