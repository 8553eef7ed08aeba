"""Utilities that do not depend on archir's compiler: files, settings, TOML, data frames, seeds, sampling."""
