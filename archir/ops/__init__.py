"""The operations, one family a file. Importing this package declares those of all its files."""

from archir.plugins.bundled import import_all

import_all(__name__)
