"""Spaces of architectures: counted, drawn from, compared."""
