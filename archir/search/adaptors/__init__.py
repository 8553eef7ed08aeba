"""Adaptors for samplers of other libraries, which decide the choices of a space."""
