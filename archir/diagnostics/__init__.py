"""Diagnostics: errors with source locations, their rendering, their explanation pages, and the work budget."""
