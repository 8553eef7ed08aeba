"""Verification that a model computes the same as its network, on export and later by its certificate."""
