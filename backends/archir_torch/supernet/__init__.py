"""Spaces as torch modules: supernets (the architecture is an argument) and mixtures (their weights are an
argument)."""

from archir.recipes.supernet import Sharing
from archir_torch.supernet.network import SuperNetwork, extract

__all__ = ["Sharing", "SuperNetwork", "extract"]
