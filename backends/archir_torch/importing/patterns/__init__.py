"""Fusion of patterns of torch operators that correspond to a single archir operation, such as a decomposed norm."""
