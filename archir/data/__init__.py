"""Data sets as arrays of raw inputs and targets, with one reader per file format.

`read` selects the reader by the source's name. `splits` decides which samples serve for training, for model selection
and for the final test. Conversion to network inputs
(float32, normalised, on a device) is left to the training backend.
"""

from archir.data.sources import origin, read
from archir.data.splits import Rows, minibatch, selected

__all__ = ["Rows", "minibatch", "origin", "read", "selected"]
