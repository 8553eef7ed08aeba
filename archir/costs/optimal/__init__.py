"""Provably optimal architectures under bounds on sums of costs."""
