"""The operations of the language, one family per file. Importing this package registers all of them."""

from archir.plugins.registry import import_all

import_all(__name__)
