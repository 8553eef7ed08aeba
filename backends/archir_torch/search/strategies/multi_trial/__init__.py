"""Strategies that try architectures one by one, or many at once."""
