"""Compiled CPU kernels that replace torch's operations between convolutions with fewer passes over memory."""
