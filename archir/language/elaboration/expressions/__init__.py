"""Expressions: their values, calls, choices."""
