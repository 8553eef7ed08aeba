"""Samplers of other libraries, which decide the choices of spaces."""
