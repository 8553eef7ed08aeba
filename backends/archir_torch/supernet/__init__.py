"""Spaces as modules: supernets, whose architecture is an argument, and mixtures, whose weights are."""

from archir_torch.supernet.network import Sharing, SuperNetwork, extract

__all__ = ["Sharing", "SuperNetwork", "extract"]
