"""Elaboration: syntax tree to graph. Resolves names, computes static values, expands blocks and checks shapes."""
