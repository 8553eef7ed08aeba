"""Spaces of architectures, and strategies that search them."""
