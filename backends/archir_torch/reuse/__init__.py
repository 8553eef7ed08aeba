"""The channels of a trained network by how important they are: in another order, it computes the same."""

from archir_torch.reuse.measures import IMPORTANCES, Trained, importance
from archir_torch.reuse.merging import Merging

__all__ = ["IMPORTANCES", "Merging", "Trained", "importance"]
