"""Utilities without dependencies on the rest of archir: files, settings, TOML, data frames, seeds, sampling."""
