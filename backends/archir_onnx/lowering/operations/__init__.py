"""Lowerings, one family a file, mirroring `archir.ops`. Importing this package registers those of all its files."""

from archir.plugins.bundled import import_all

import_all(__name__)
