"""Diagnostics: errors with a place in a source, their rendering, their pages, and the budget of work."""
