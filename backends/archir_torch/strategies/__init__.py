"""Strategies for recipe phases, one per module."""
