"""Labelled images from many sources, without torchvision: `load` and `minibatch`.

A file per source reads raw pixels and labels (`Source`); `choosing` says which of them are used, and for what; `Split`
and `Data` are what networks see.
"""

from archir_torch.data.loading import load, minibatch, origin
from archir_torch.data.pixels import Pixels
from archir_torch.data.split import Data, Split, about, record, verify

__all__ = ["Data", "Pixels", "Split", "about", "load", "minibatch", "origin", "record", "verify"]
