"""Which opset has the operators of a model in the types that it computes in."""

from __future__ import annotations

import onnx
from onnx import defs

from archir_onnx.lowering.form import OPSETS


def narrow(model: onnx.ModelProto, kind: str = "tensor(bfloat16)") -> tuple[int, list[str]]:
    """The lowest opset at which all operators of a model take a type, and those that do not at the model's own.

    Of operators that take float32 alone at every opset nothing is said: 0 and no operators if there is nothing to say.
    """
    own = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    first = {
        name: next((opset for opset in OPSETS if opset >= own and _takes(name, opset, kind)), own)
        for name in sorted({node.op_type for node in model.graph.node if node.domain in ("", "ai.onnx")})
    }
    late = [name for name, opset in first.items() if opset > own]
    return max((first[name] for name in late), default=0), late


def _takes(operator: str, opset: int, kind: str) -> bool:
    """Whether an operator takes a type wherever it takes float32."""
    try:
        constraints = defs.get_schema(operator, opset, "").type_constraints
    except defs.SchemaError:
        return False
    return all(kind in one.allowed_type_strs for one in constraints if "tensor(float)" in one.allowed_type_strs)
