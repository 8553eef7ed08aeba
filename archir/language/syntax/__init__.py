"""Parsing: text to syntax tree."""
