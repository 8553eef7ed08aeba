"""Multi-trial search: strategies, surrogate models, executors, Pareto fronts and samplers of other libraries."""
