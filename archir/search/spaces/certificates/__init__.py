"""Certificates of optima: what is proved, so that it can be proved again without the optimiser."""
