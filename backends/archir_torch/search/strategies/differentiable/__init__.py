"""Differentiable search: relaxed graphs and architecture parameters, whatever weighs the mixtures."""
