"""Lowering rules, one file per family of operations, as in `archir.ops`. Importing this package registers all
rules."""

from archir.plugins.bundled import import_all

import_all(__name__)
