"""Timing and evaluation of networks with torch."""
