"""Readers of data sources, one module per format."""
