"""Reuse of earlier training: recipes that derive smaller networks from trained ones, and tables of trials."""
