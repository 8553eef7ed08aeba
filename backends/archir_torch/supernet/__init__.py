"""Spaces as torch modules: supernets take an architecture as an argument, mixtures take weights of alternatives."""

from archir.recipes.supernet import Sharing
from archir_torch.supernet.network import SuperNetwork, extract

__all__ = ["Sharing", "SuperNetwork", "extract"]
