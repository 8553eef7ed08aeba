"""Labelled images as networks see them (see `archir.data` for where they come from): `load` and `minibatch`."""

from archir.data.sources import origin
from archir.data.splits import record, verify
from archir_torch.data.loading import load, minibatch
from archir_torch.data.pixels import Pixels
from archir_torch.data.split import Data, Split, about

__all__ = ["Data", "Pixels", "Split", "about", "load", "minibatch", "origin", "record", "verify"]
