"""Search spaces of architectures: counting, sampling, bounds on costs, derivation, optimisation and differences."""
