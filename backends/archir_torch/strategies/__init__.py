"""Strategies, one a file, in a folder for each family of them."""

from archir.plugins.bundled import import_all


def load() -> None:
    """Register all of them: every module below this folder is read."""
    import_all(__name__)
