"""Runs at a glance: where each is, what it was told, and what it came to."""
