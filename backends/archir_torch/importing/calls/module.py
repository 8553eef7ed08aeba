"""Conversion of a list of operator calls to a torch module that `torch.export` can trace.

Each call becomes a submodule at the path (scope) of the call.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from archir.backends.calls import Call, Calls
from archir.diagnostics.errors import ArchError, Diagnostic, RuleError, join_names
from archir.ir.types import TensorType
from archir.language.decompiler.imported import Move
from archir_torch.importing.calls.constant_folding import FUNCTIONS, fold_operator
from archir_torch.importing.calls.operators import OPERATORS, takes_tensors
from archir_torch.importing.capture import quiet

Array = NDArray[Any]
"""Numpy array."""

DTYPES = {torch.float32: "f32", torch.int64: "i64", torch.int32: "i32"}
"""archir's element type by torch dtype."""
ROLES: dict[str, tuple[str, ...]] = {
    "Conv": ("", "weight", "bias"),
    "ConvTranspose": ("", "weight", "bias"),
    "Gemm": ("", "weight", "bias"),
    "MatMul": ("", "weight"),
    "Linear": ("", "weight", "bias"),
    "BatchNormalization": ("", "weight", "bias", "running_mean", "running_var"),
    "InstanceNormalization": ("", "weight", "bias"),
    "LayerNormalization": ("", "weight", "bias"),
    "GroupNormalization": ("", "weight", "bias"),
    "RMSNormalization": ("", "weight"),
    "PRelu": ("", "weight"),
}
"""Role of each operand that is a stored tensor, by operator; "" for operands that are not weights."""
STATISTICS = ("running_mean", "running_var")
"""Roles of tensors that are buffers and not trained."""
SCALAR_OPERATORS = ("Add", "Sub", "Mul", "Div", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
"""Operators to which one-element constants are passed as Python numbers."""
FORMER_ATTRIBUTES = ("axes", "starts", "ends", "shape", "split", "pads")
"""Attributes that became operands in later ONNX versions; operator functions receive them as `given_NAME`."""

OPERAND_ERRORS = (RuntimeError, ValueError, TypeError, LookupError, OverflowError, ZeroDivisionError)
"""Exceptions by which torch and numpy reject operands and attributes."""
MAX_SHOWN = 8
"""Maximum number of elements of a constant that messages show."""


class CallModule(nn.Module):
    """Module that computes a single operator call."""

    def __init__(self, call: Call, version: int, fixed: bool) -> None:
        super().__init__()
        self.call = call
        keywords = dict(call.attributes)
        for name in FORMER_ATTRIBUTES:
            if (name in keywords and call.operator in ("Slice", "Squeeze", "Unsqueeze", "Reshape", "Split", "Pad")) or (
                name == "axes" and name in keywords
            ):
                keywords[f"given_{name}"] = keywords.pop(name)
        self.keywords: dict[str, Any] = {**keywords, "version": version, "fixed": fixed, "outputs": len(call.writes)}

    def forward(self, operands: list[Any], batch: int) -> Any:
        """Compute the results of the call."""
        return OPERATORS[self.call.operator](*operands, named=self.call.operator, batch=batch, **self.keywords)


class CallsModule(nn.Module):
    """Module that computes a list of calls. Stored tensors become parameters if they are trained, otherwise buffers."""

    def __init__(self, calls: Calls, fixed: bool) -> None:
        super().__init__()
        self.calls, self.fixed = calls, fixed
        self.constants: dict[str, Array] = {}
        self.literals: set[str] = set()
        """Names of untrained tensors: those stored in attributes of calls, and tensors computed from these."""
        self.parameter_paths: dict[str, str] = {}
        """Path of the parameter or buffer by name of the stored tensor."""
        self.tensor_names: dict[str, str] = {}
        self.views: dict[str, tuple[str, Move]] = {}
        """Constants that are views of stored tensors, by name: the tensor's name, and the view's position in it."""
        self._paths: dict[int, str] = {}
        self.unsupported: dict[str, Diagnostic] = {}
        """Diagnostic by unsupported operator. Calls of these operators, and all calls that depend on them, are left
        out."""
        self._build()

    def _build(self) -> None:
        """Fold constants, register stored tensors, and create a submodule for every remaining call.

        Raises ArchError (A0916, A3202) if a constant cannot be computed.
        """
        arrays: dict[str, Array] = dict(self.calls.tensors)
        problems: dict[str, list[Call]] = {}
        uses = Counter(name for call in self.calls.calls for name in call.reads)
        for index, call in enumerate(self.calls.calls):
            is_shared = call.operator == "Transpose" and uses[call.reads[0]] > 1 and call.reads[0] in self.calls.tensors
            is_constant = call.operator in FUNCTIONS and all(not name or name in arrays for name in call.reads)
            if is_constant and not is_shared:  # a transpose of shared weights must stay recognisable as these weights
                try:
                    folded = fold_operator(call.operator, [arrays.get(name) for name in call.reads], call.attributes)
                except RuleError as error:
                    raise ArchError(Diagnostic("A3202", f"{call.display_name}: {error.message}")) from None
                except OPERAND_ERRORS:
                    operands = [arrays.get(name) for name in call.reads]
                    raise ArchError(
                        Diagnostic("A0916", f"{call.display_name}: {_operand_message(call, operands)}")
                    ) from None
                if folded is not None:
                    arrays[call.writes[0]] = folded
                    self._record_view(call, folded)
                    if all(not name or name in self.literals for name in call.reads):
                        self.literals.add(call.writes[0])
                    continue
            if call.operator not in OPERATORS and call.operator != "Shape" and call.operator not in FUNCTIONS:
                problems.setdefault(call.operator, []).append(call)
                continue
            self._paths[index] = self._add_module_of(call)
            for position, name in enumerate(call.reads):
                if name in arrays:
                    self._register_tensor(call, index, position, name, arrays[name])
        self.unsupported = {
            name: self.calls.refused.get(name) or _unsupported_operator(calls) for name, calls in problems.items()
        }
        self.constants = {name: array for name, array in arrays.items() if name not in self.parameter_paths}

    def _record_view(self, call: Call, array: Array) -> None:
        """If a folded constant is a view of a stored tensor, record the tensor and the view's position in it."""
        name = call.reads[0] if call.reads else ""
        root = self.views[name][0] if name in self.views else name
        stored = self.calls.tensors.get(root)
        if stored is not None and stored.flags.c_contiguous and array.size and np.may_share_memory(array, stored):
            start = array.__array_interface__["data"][0] - stored.__array_interface__["data"][0]
            steps = (step // array.itemsize for step in array.strides)
            self.views[call.writes[0]] = root, Move("strided", (start // array.itemsize, *array.shape, *steps))

    def _add_module_of(self, call: Call) -> str:
        """Add the submodule for a call and return its path."""
        parent_path, _, last = call.place.rpartition(".")
        parent, parent_path = _module_at(self, parent_path) if parent_path else (self, "")
        name, number = last, 1
        while hasattr(parent, name):
            number += 1
            name = f"{last}_{number}"
        parent.add_module(name, CallModule(call, self.calls.version, self.fixed))
        return f"{parent_path}.{name}" if parent_path else name

    def _register_tensor(self, call: Call, index: int, position: int, name: str, array: Array) -> None:
        """Register a stored floating-point tensor as a parameter or buffer.

        Tensors whose values an operator needs at trace time are skipped.
        """
        roles = ROLES.get(call.operator, ())
        role = roles[position] if position < len(roles) else ""
        is_literal = name in self.literals and not role
        learned = bool(role) or (call.operator == "Gather" and position == 0) or array.size > 1
        learned = learned or (array.ndim > 1 and name in self.calls.tensors)
        takes_numbers = call.operator in (
            "Reshape",
            "Resize",
            "Upsample",
            "Pad",
            "Clip",
            "Pow",
            "Expand",
            "Slice",
            "Tile",
        )
        if (
            name in self.parameter_paths
            or not learned
            or (takes_numbers and position)
            or not np.issubdtype(array.dtype, np.floating)
        ):
            return
        path = self._paths[index]
        dotted = re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+", name)
        role = role or "value"
        if dotted and name.rpartition(".")[2] in ("weight", "bias", *STATISTICS):
            path, _, role = name.rpartition(".")
        owner, path = _module_at(self, path)
        while hasattr(owner, role):
            role += "_"
        with np.errstate(all="ignore"):
            data = np.array(array, np.float32) if not array.flags.writeable or array.dtype != np.float32 else array
        tensor = torch.from_numpy(data)
        if is_literal or role.rstrip("_") in STATISTICS:
            owner.register_buffer(role, tensor)
        else:
            owner.register_parameter(role, nn.Parameter(tensor, requires_grad=True))
        self.parameter_paths[name] = f"{path}.{role}"
        self.tensor_names[f"{path}.{role}"] = name

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        """Compute all outputs, by label."""
        env = self._run(inputs, None)
        return {label: _tensor(env[name]) for label, name in self.calls.outputs.items()}

    def problems(self, inputs: Mapping[str, Tensor]) -> tuple[dict[str, Diagnostic], dict[str, TensorType]]:
        """Find unsupported operators and invalid operands by running all calls on fake tensors.

        Returns a diagnostic for each failing call, by the name of its first result, and the types of all values that
        can be computed.
        """
        diagnostics: dict[str, Diagnostic] = {}
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), quiet():
            values = self._run({name: torch.empty(x.shape, dtype=x.dtype) for name, x in inputs.items()}, diagnostics)
        samples = {len(x) for x in inputs.values()}
        types = {
            name: TensorType(tuple(x.shape[1:]), DTYPES[x.dtype])
            for name, x in values.items()
            if isinstance(x, Tensor) and x.dtype in DTYPES and {*x.shape[:1]} == samples
        }
        unsupported_calls = (call for call in self.calls.calls if call.operator in self.unsupported)
        return {call.writes[0]: self.unsupported[call.operator] for call in unsupported_calls} | diagnostics, types

    def path_of(self, call: Call) -> str:
        """Return the path of a call's submodule, or "" if the call was folded to a constant."""
        return next((self._paths.get(i, "") for i, other in enumerate(self.calls.calls) if other is call), "")

    def _run(self, inputs: Mapping[str, Tensor], problems: dict[str, Diagnostic] | None) -> dict[str, Any]:
        """Compute all values by name.

        A call that cannot be computed is recorded in `problems`, if given, and left out, as are all calls that depend
        on its results. Without `problems`, such a call raises ArchError (A3202).
        """
        batch = next(iter(inputs.values())).shape[0]
        state: dict[str, Any] = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        env: dict[str, Any] = {**self.constants, **{name: state[path] for name, path in self.parameter_paths.items()}}
        env |= dict(zip(self.calls.inputs, inputs.values(), strict=True))
        for index, call in enumerate(self.calls.calls):
            if (call.writes[0] in env and index not in self._paths) or any(n and n not in env for n in call.reads):
                continue
            if call.operator in self.unsupported:
                continue
            try:
                computed = self._compute(index, call, [env[name] if name else None for name in call.reads], batch)
            except RuleError as error:
                if problems is None:
                    raise ArchError(Diagnostic("A3202", f"{call.display_name}: {error.message}")) from None
                problems[call.writes[0]] = Diagnostic("A3202", f"{call.display_name}: {error.message}")
                continue
            results = computed if isinstance(computed, tuple | list) else (computed,)
            env |= {name: value for name, value in zip(call.writes, results, strict=False) if name}
        return env

    def _compute(self, index: int, call: Call, operands: list[Any], batch: int) -> Any:
        """Compute the results of one call. Raises RuleError if the call cannot be computed."""
        if call.operator == "Shape":
            shape = np.array(operands[0].shape if isinstance(operands[0], Tensor) else np.shape(operands[0]))
            return shape[call.attributes.get("start", 0) : call.attributes.get("end")]
        try:
            if not any(isinstance(operand, Tensor) for operand in operands):
                folded = fold_operator(call.operator, operands, call.attributes)
                if folded is not None:
                    return folded
            if call.operator not in OPERATORS:
                raise RuleError("archir has no such operation")
            return self.get_submodule(self._paths[index])(self._operands_of(call, operands), batch)
        except OPERAND_ERRORS:
            raise RuleError(_operand_message(call, operands, batch)) from None

    def _operands_of(self, call: Call, operands: list[Any]) -> list[Any]:
        """Return a call's operands.

        Constants are converted to tensors or numbers where the operator's function takes a tensor.
        """
        as_tensors = takes_tensors(call.operator, len(operands))
        return [
            _scalar_or_tensor(operand, call.operator)
            if tensor and isinstance(operand, np.ndarray | np.generic)
            else operand
            for operand, tensor in zip(operands, as_tensors, strict=True)
        ]


def _operand_message(call: Call, operands: Sequence[Any], batch: int = 0) -> str:
    """Return an error message with the operands and attributes of a call that cannot be computed.

    Batch sizes equal to `batch` are shown as N: [N, ...]. Small constants are shown with their values.
    """
    shown = []
    for name, operand in zip(call.reads, operands, strict=True):
        sizes = [*operand.shape] if isinstance(operand, Tensor) else [*np.shape(operand)]
        is_small = not isinstance(operand, Tensor) and np.size(operand) <= MAX_SHOWN
        text = str(np.asarray(operand).tolist() if is_small else sizes)
        shown += [f"`{name}` {text.replace(f'[{batch},', '[N,')}"] if operand is not None else []
    shown += [f"{name}={value}" for name, value in call.attributes.items()]
    return f"operands and attributes that do not fit: {', '.join(shown)[:300]}"


def _unsupported_operator(calls: Sequence[Call]) -> Diagnostic:
    """Return the diagnostic (A3202) for an operator that is not supported, with the calls that use it."""
    names = join_names([call.display_name.partition(" ")[2].strip("`") for call in calls], 3)
    uses = f"{len(calls)} times: {names}" if len(calls) > 1 else names
    return Diagnostic("A3202", f"{calls[0].operator} ({uses}): archir has no such operation")


def _scalar_or_tensor(array: Any, operator: str) -> Any:
    """Convert a constant to a number if it has one element and the operator takes numbers, otherwise to a tensor."""
    if np.size(array) == 1 and operator in SCALAR_OPERATORS:
        return np.asarray(array).reshape(-1)[0].item()
    return _tensor(array)


def _tensor(value: Any) -> Tensor:
    """Convert a value to a tensor; floating-point constants become float32."""
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value)
    keeps_type = np.issubdtype(array.dtype, np.integer) or array.dtype == np.bool_
    return torch.from_numpy(np.array(array, array.dtype if keeps_type else np.float32))


def _module_at(root: nn.Module, path: str) -> tuple[nn.Module, str]:
    """Return the submodule at a path, creating missing submodules, together with its actual path.

    Path components that are names of other attributes get the suffix `_`.
    """
    parts = []
    for part in path.split("."):
        while part not in root._modules and hasattr(root, part):
            part += "_"
        if part not in root._modules:
            root.add_module(part, nn.Module())
        child = root._modules[part]
        assert child is not None
        root = child
        parts.append(part)
    return root, ".".join(parts)
