"""Exact optimisation: the best architectures of a space within bounds, with a proof, or the bounds that contradict each
other."""
