"""Kernels for maps on CPUs that torch has none for: what stands between convolutions, in few passes over memory."""
