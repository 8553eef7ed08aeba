"""Exact optimisation within bounds: the best architectures of a space with a proof, or contradictory bounds."""
