"""Functions of torch operators, one family per file. Importing this package registers all of them."""

from archir.plugins.bundled import import_all

import_all(__name__)
