"""Optimizers, and how fast they learn."""
