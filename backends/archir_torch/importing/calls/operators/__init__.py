"""Functions that compute ONNX operators with torch, as in evaluation mode.

Operands that give shapes or axes are constant arrays. Importing this package registers the functions of all its
modules.
"""

from archir.plugins.registry import import_all
from archir_torch.importing.calls.operators.registry import OPERATORS, takes_tensors

import_all(__name__)

__all__ = ["OPERATORS", "takes_tensors"]
