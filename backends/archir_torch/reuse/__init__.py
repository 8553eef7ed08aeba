"""Reuse of trained weights: channels are reordered by importance without changing what the network computes."""

from archir_torch.reuse.measures import IMPORTANCES, Trained, importance

__all__ = ["IMPORTANCES", "Trained", "importance"]
