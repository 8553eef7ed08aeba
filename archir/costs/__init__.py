"""Costs of all architectures of a space, as sums of tables over a few choices each.

No network is built.
"""
