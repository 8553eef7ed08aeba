"""Equivalence of networks: canonical forms that are equal for networks that compute the same."""
