"""Strategies for recipe phases, one per module."""

from archir.plugins.bundled import import_all


def load() -> None:
    """Register all strategies by importing every module of this package."""
    import_all(__name__)
