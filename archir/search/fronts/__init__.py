"""Pareto fronts as tables, and number formats for scores."""
