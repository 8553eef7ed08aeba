"""Multi-trial search: strategies, surrogate models, executors, Pareto fronts, and adaptors for external
samplers."""
