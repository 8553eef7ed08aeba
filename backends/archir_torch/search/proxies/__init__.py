"""Zero-cost proxies: scores of untrained networks on one minibatch."""

from archir_torch.search.proxies.scores import PROXIES, Proxy, proxy
from archir_torch.search.proxies.untrained import Trial, trial, weighing

__all__ = ["PROXIES", "Proxy", "Trial", "proxy", "trial", "weighing"]
