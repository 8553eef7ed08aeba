"""ONNX's operators as torch's functions: what they compute in evaluation. Shapes and axes are arrays, known before.

Importing this package registers those of all its files.
"""

from archir.plugins.bundled import import_all
from archir_torch.importing.calls.operators.registry import OPERATORS, takes_tensors

import_all(__name__)

__all__ = ["OPERATORS", "takes_tensors"]
