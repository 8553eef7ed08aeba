"""Several objectives at once: Pareto fronts, as tables and pictures."""
