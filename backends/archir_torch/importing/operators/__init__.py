"""Import functions of torch operators, one family per module. Importing this package registers all of them."""

from archir.plugins.registry import import_all

import_all(__name__)
