"""Compiled CPU kernels for the operations between convolutions, which need fewer passes over memory than torch's."""
