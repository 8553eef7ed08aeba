"""Samples as tensors for networks (`load`, `minibatch`). The file formats are read by `archir.data`."""

from archir.data.sources import origin
from archir.data.splits import record, verify
from archir_torch.data.loading import load, minibatch
from archir_torch.data.pixels import Pixels
from archir_torch.data.split import Data, Split, describe_data

__all__ = ["Data", "Pixels", "Split", "describe_data", "load", "minibatch", "origin", "record", "verify"]
