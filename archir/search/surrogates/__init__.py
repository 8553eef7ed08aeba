"""Surrogate models: encoding of architectures, models of their scores, acquisition functions, and the candidate
pool."""
