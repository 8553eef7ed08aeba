"""ONNX operators as functions of torch that compute the same in evaluation. Shapes and axes are constant arrays.

Importing this package registers the functions of all its files.
"""

from archir.plugins.bundled import import_all
from archir_torch.importing.calls.operators.registry import OPERATORS, takes_tensors

import_all(__name__)

__all__ = ["OPERATORS", "takes_tensors"]
