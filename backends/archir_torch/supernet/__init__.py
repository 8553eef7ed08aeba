"""Spaces as modules: supernets, whose architecture is an argument, and mixtures, whose weights are."""

from archir.recipes.supernet import Sharing
from archir_torch.supernet.network import SuperNetwork, extract

__all__ = ["Sharing", "SuperNetwork", "extract"]
