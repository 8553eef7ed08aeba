"""Labelled images from many sources, as arrays: raw pixels and labels, a reader per format.

`read` finds the format by a source's name; `selection` says which images are used, and for what, `splits` which ones
that came to. What networks see of them (float32, normalised, on a device) is made by whoever trains.
"""

from archir.data.sources import origin, read
from archir.data.splits import Rows, minibatch, selected

__all__ = ["Rows", "minibatch", "origin", "read", "selected"]
