"""The channels of a trained network by how important they are: in another order, it computes the same."""

from archir_torch.search.ordering.measures import IMPORTANCES, Trained, importance

__all__ = ["IMPORTANCES", "Trained", "importance"]
