"""Readers of sources, a format a file: raw images and labels as arrays."""
