"""Lowering rules, one module per operation family, mirroring `archir.ops`. Importing this package registers all of
them."""

from archir.plugins.bundled import import_all

import_all(__name__)
