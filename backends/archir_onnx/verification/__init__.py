"""Verification that a model computes the same as its network: when it is written, and later against its certificate."""
