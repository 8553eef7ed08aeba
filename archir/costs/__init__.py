"""Costs of all architectures of a space without building any of them: sums of tables over a few choices each."""
