"""Lowering rules, one module per operation family, as in `archir.ops`."""
