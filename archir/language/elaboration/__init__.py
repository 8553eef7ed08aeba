"""Elaboration of syntax trees to graphs: resolves names, computes static values, expands blocks and checks
shapes."""
