"""Reuse of earlier training: weights of other runs and files, and networks extracted from one supernet."""
