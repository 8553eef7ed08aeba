"""Readers of data sources, one module for each file format."""
