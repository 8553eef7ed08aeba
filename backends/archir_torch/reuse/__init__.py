"""Reuse of trained weights: channels are reordered by importance without changing what the network computes."""

from archir_torch.reuse.measures import IMPORTANCES, Trained, importance
from archir_torch.reuse.merging import Merging

__all__ = ["IMPORTANCES", "Merging", "Trained", "importance"]
