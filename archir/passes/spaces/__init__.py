"""Passes that make, merge or move choices."""
