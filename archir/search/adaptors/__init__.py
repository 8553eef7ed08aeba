"""Adaptors that let samplers of other libraries make the choices of a space."""
