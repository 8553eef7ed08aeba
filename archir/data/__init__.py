"""Data sets as arrays of raw inputs and targets, with one reader for each file format.

`read` picks the reader by the source's name. `selection` decides which samples are used for training, for choosing and
for the final test; `splits` applies that to a source. Conversion to what a network takes (float32, normalised, on a
device) is left to the backend that trains.
"""

from archir.data.sources import origin, read
from archir.data.splits import Rows, minibatch, selected

__all__ = ["Rows", "minibatch", "origin", "read", "selected"]
