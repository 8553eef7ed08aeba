"""Searches that train: relaxed graphs, architecture parameters, strategies, recipes."""
