"""Equivalence of networks: canonical forms, which are equal only for networks that compute the same function."""
