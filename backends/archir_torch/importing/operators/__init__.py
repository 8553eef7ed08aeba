"""Import functions of torch operators, one family per module. Importing this package registers all of them."""

from archir.plugins.bundled import import_all

import_all(__name__)
