"""Number of architectures at each cost, by dynamic programming over the choices of a space."""
