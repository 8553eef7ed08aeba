"""Spaces as torch modules: supernets and mixtures.

Supernets take the architecture as an argument; mixtures take the mixture weights as an argument.
"""

from archir.recipes.job import SharedChannels
from archir_torch.supernet.network import SuperNetwork, extract

__all__ = ["SharedChannels", "SuperNetwork", "extract"]
