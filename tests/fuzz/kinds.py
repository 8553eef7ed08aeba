"""All kinds of fuzzed files and options; importing this module registers them."""

from __future__ import annotations

from tests.fuzz import commands, files, networks, options  # noqa: F401  (they register their kinds)
from tests.fuzz.registry import KINDS

__all__ = ["KINDS"]
