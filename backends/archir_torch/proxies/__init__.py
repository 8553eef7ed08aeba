"""Zero-cost proxies: scores of untrained networks on one minibatch; larger is better.

Names and definitions are those in Abdelfattah et al. 2021 ("Zero-Cost Proxies for Lightweight NAS", section 3.2) and
in the papers cited there. `@proxy` registers a function under its own name, in any module of this package or of a
plugin.
"""

from archir_torch.proxies.registry import PROXIES, Proxy, proxy
from archir_torch.proxies.untrained import Trial, make_trial, scored_weights

__all__ = ["PROXIES", "Proxy", "Trial", "make_trial", "proxy", "scored_weights"]
