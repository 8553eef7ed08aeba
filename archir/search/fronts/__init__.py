"""Pareto fronts as tables, and the formats of scores."""
