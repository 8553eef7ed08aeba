"""Patterns of several torch operators that are one operation of archir, such as a decomposed norm, and their fusion."""
