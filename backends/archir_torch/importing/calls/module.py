"""A list of calls as a torch module, which torch.export follows: a module for each call, where its path says."""

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
from archir.diagnostics.errors import ArchError, Diagnostic, RuleError, listed
from archir.ir.types import TensorType
from archir.language.decompiler.imported import Move
from archir_torch.importing.calls.operators import OPERATORS, takes_tensors
from archir_torch.importing.calls.static import FUNCTIONS, known
from archir_torch.importing.capture import quiet

Array = NDArray[Any]

DTYPES = {torch.float32: "f32", torch.int64: "i64", torch.int32: "i32"}
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
"""What the stored tensors are that operators read."""
STATISTICS = ("running_mean", "running_var")
NUMBERS = ("Add", "Sub", "Mul", "Div", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
"""Operators that read a constant of one number as that number."""
ATTRIBUTES = ("axes", "starts", "ends", "shape", "split", "pads")
"""Attributes that later versions made inputs: functions take them under a name of their own."""

MISFITS = (RuntimeError, ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError)
"""What torch and numpy raise for operands and attributes that an operator cannot compute with."""
SHOWN = 8
"""Numbers of a constant that messages show."""


class Step(nn.Module):
    """One call."""

    def __init__(self, call: Call, version: int, fixed: bool) -> None:
        super().__init__()
        self.call = call
        given = dict(call.attributes)
        for name in ATTRIBUTES:
            if (name in given and call.operator in ("Slice", "Squeeze", "Unsqueeze", "Reshape", "Split", "Pad")) or (
                name == "axes" and name in given
            ):
                given[f"given_{name}"] = given.pop(name)
        self.given: dict[str, Any] = {**given, "version": version, "fixed": fixed, "outputs": len(call.writes)}

    def forward(self, operands: list[Any], batch: int) -> Any:
        """What the call gives."""
        return OPERATORS[self.call.operator](*operands, named=self.call.operator, batch=batch, **self.given)


class Followed(nn.Module):
    """A network that calls are followed in. Stored tensors are parameters where they are learned."""

    def __init__(self, calls: Calls, fixed: bool) -> None:
        super().__init__()
        self.calls, self.fixed = calls, fixed
        self.constants: dict[str, Array] = {}
        self.literal: set[str] = set()
        """Tensors that the calls themselves say, and what is computed of these: they are not learned."""
        self.held: dict[str, str] = {}
        """Where stored tensors are, by their names."""
        self.sources: dict[str, str] = {}
        self.views: dict[str, tuple[str, Move]] = {}
        """Constants that are views of stored tensors, by name: the stored tensor, and where they lie in it."""
        self._steps: dict[int, str] = {}
        self.unknown: dict[str, Diagnostic] = {}
        """What is said of operators that nobody follows; their calls, and what needs them, are left out."""
        self._settle()

    def _settle(self) -> None:
        """Compute what is constant, hold what is learned, and make a module for every other call."""
        arrays: dict[str, Array] = dict(self.calls.tensors)
        problems: dict[str, list[Call]] = {}
        uses = Counter(name for call in self.calls.calls for name in call.reads)
        for index, call in enumerate(self.calls.calls):
            shared = call.operator == "Transpose" and uses[call.reads[0]] > 1 and call.reads[0] in self.calls.tensors
            constant = call.operator in FUNCTIONS and all(not name or name in arrays for name in call.reads)
            if constant and not shared:  # a transpose of weights that others read, too, is still these weights
                try:
                    made = known(call.operator, [arrays.get(name) for name in call.reads], call.attributes)
                except RuleError as error:
                    raise ArchError(Diagnostic("A3202", f"{call.named}: {error.message}")) from None
                except MISFITS:
                    operands = [arrays.get(name) for name in call.reads]
                    raise ArchError(Diagnostic("A0916", f"{call.named}: {_misfit(call, operands)}")) from None
                if made is not None:
                    arrays[call.writes[0]] = made
                    self._view(call, made)
                    if all(not name or name in self.literal for name in call.reads):
                        self.literal.add(call.writes[0])
                    continue
            if call.operator not in OPERATORS and call.operator != "Shape" and call.operator not in FUNCTIONS:
                problems.setdefault(call.operator, []).append(call)
                continue
            self._steps[index] = self._placed(call)
            for position, name in enumerate(call.reads):
                if name in arrays:
                    self._hold(call, index, position, name, arrays[name])
        self.unknown = {name: self.calls.refused.get(name) or _lacking(some) for name, some in problems.items()}
        self.constants = {name: array for name, array in arrays.items() if name not in self.held}

    def _view(self, call: Call, made: Array) -> None:
        """Note of which stored tensor a constant is a view, if it is."""
        name = call.reads[0] if call.reads else ""
        root = self.views[name][0] if name in self.views else name
        whole = self.calls.tensors.get(root)
        if whole is not None and whole.flags.c_contiguous and made.size and np.may_share_memory(made, whole):
            start = made.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
            steps = (step // made.itemsize for step in made.strides)
            self.views[call.writes[0]] = root, Move("strided", (start // made.itemsize, *made.shape, *steps))

    def _placed(self, call: Call) -> str:
        place = _free(self, call.place)
        _put(self, place, Step(call, self.calls.version, self.fixed))
        return place

    def _hold(self, call: Call, index: int, position: int, name: str, array: Array) -> None:
        """Make a stored tensor of floating-point numbers a parameter or a buffer."""
        roles = ROLES.get(call.operator, ())
        role = roles[position] if position < len(roles) else ""
        told = name in self.literal and not role
        learned = bool(role) or (call.operator == "Gather" and position == 0) or array.size > 1
        learned = learned or (array.ndim > 1 and name in self.calls.tensors)
        sized = call.operator in ("Reshape", "Resize", "Upsample", "Pad", "Clip", "Pow", "Expand", "Slice", "Tile")
        if name in self.held or not learned or (sized and position) or not np.issubdtype(array.dtype, np.floating):
            return
        place = self._steps[index]
        dotted = re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+", name)
        role = role or "value"
        if dotted and name.rpartition(".")[2] in ("weight", "bias", *STATISTICS):
            place, _, role = name.rpartition(".")
        owner = _owner(self, place)
        while hasattr(owner, role):
            role += "_"
        with np.errstate(all="ignore"):
            plain = np.array(array, np.float32) if not array.flags.writeable or array.dtype != np.float32 else array
        tensor = torch.from_numpy(plain)
        if told or role.rstrip("_") in STATISTICS:
            owner.register_buffer(role, tensor)
        else:
            owner.register_parameter(role, nn.Parameter(tensor, requires_grad=True))
        self.held[name] = f"{place}.{role}"
        self.sources[f"{place}.{role}"] = name

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        """All outputs by label, of samples."""
        env = self._run(inputs, None)
        return {label: _tensor(env[name]) for label, name in self.calls.outputs.items()}

    def problems(self, inputs: Mapping[str, Tensor]) -> tuple[dict[str, Diagnostic], dict[str, TensorType]]:
        """What archir has no words for, and what does not fit: found without computing anything.

        By the first value that each of the calls would give; and the types of all that are given.
        """
        found: dict[str, Diagnostic] = {}
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), quiet():
            made = self._run({name: torch.empty(x.shape, dtype=x.dtype) for name, x in inputs.items()}, found)
        samples = {len(x) for x in inputs.values()}
        types = {
            name: TensorType(tuple(x.shape[1:]), DTYPES[x.dtype])
            for name, x in made.items()
            if isinstance(x, Tensor) and x.dtype in DTYPES and {*x.shape[:1]} == samples
        }
        left = (call for call in self.calls.calls if call.operator in self.unknown)
        return {call.writes[0]: self.unknown[call.operator] for call in left} | found, types

    def place_of(self, call: Call) -> str:
        """The path of the module that a call is followed by; empty if it computes what is constant."""
        return next((self._steps.get(i, "") for i, one in enumerate(self.calls.calls) if one is call), "")

    def _run(self, inputs: Mapping[str, Tensor], problems: dict[str, Diagnostic] | None) -> dict[str, Any]:
        """All values by name. What cannot be is told in `problems`, and what needs it is left out."""
        batch = next(iter(inputs.values())).shape[0]
        state: dict[str, Any] = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        env: dict[str, Any] = {**self.constants, **{name: state[path] for name, path in self.held.items()}}
        env |= dict(zip(self.calls.inputs, inputs.values(), strict=True))
        for index, call in enumerate(self.calls.calls):
            if (call.writes[0] in env and index not in self._steps) or any(n and n not in env for n in call.reads):
                continue
            if call.operator in self.unknown:
                continue
            try:
                made = self._called(index, call, [env[name] if name else None for name in call.reads], batch)
            except RuleError as error:
                if problems is None:
                    raise ArchError(Diagnostic("A3202", f"{call.named}: {error.message}")) from None
                problems[call.writes[0]] = Diagnostic("A3202", f"{call.named}: {error.message}")
                continue
            results = made if isinstance(made, tuple | list) else (made,)
            env |= {name: value for name, value in zip(call.writes, results, strict=False) if name}
        return env

    def _called(self, index: int, call: Call, operands: list[Any], batch: int) -> Any:
        """What a call gives. RuleError if it cannot be."""
        if call.operator == "Shape":
            shape = np.array(operands[0].shape if isinstance(operands[0], Tensor) else np.shape(operands[0]))
            return shape[call.attributes.get("start", 0) : call.attributes.get("end")]
        try:
            if not any(isinstance(one, Tensor) for one in operands):
                found = known(call.operator, operands, call.attributes)
                if found is not None:
                    return found
            if call.operator not in OPERATORS:
                raise RuleError("archir has no such operation")
            return self.get_submodule(self._steps[index])(self._given(call, operands), batch)
        except MISFITS:
            raise RuleError(_misfit(call, operands, batch)) from None

    def _given(self, call: Call, operands: list[Any]) -> list[Any]:
        """Operands, with constants as tensors where the operator's function takes tensors, or as numbers."""
        takes = takes_tensors(call.operator, len(operands))
        return [
            _number(one, call.operator) if tensor and isinstance(one, np.ndarray | np.generic) else one
            for one, tensor in zip(operands, takes, strict=True)
        ]


def _misfit(call: Call, operands: Sequence[Any], batch: int = 0) -> str:
    """The operands and attributes of a call that cannot be computed: sizes [N, ...] of `batch` samples, or numbers."""
    shown = []
    for name, one in zip(call.reads, operands, strict=True):
        sizes = [*one.shape] if isinstance(one, Tensor) else [*np.shape(one)]
        few = not isinstance(one, Tensor) and np.size(one) <= SHOWN
        text = str(np.asarray(one).tolist() if few else sizes)
        shown += [f"`{name}` {text.replace(f'[{batch},', '[N,')}"] if one is not None else []
    shown += [f"{name}={value}" for name, value in call.attributes.items()]
    return f"operands and attributes that do not fit: {', '.join(shown)[:300]}"


def _lacking(calls: Sequence[Call]) -> Diagnostic:
    """That archir has no such operation, and where it would be needed."""
    names = listed([call.named.partition(" ")[2].strip("`") for call in calls], 3)
    where = f"{len(calls)} times: {names}" if len(calls) > 1 else names
    return Diagnostic("A3202", f"{calls[0].operator} ({where}): archir has no such operation")


def _number(array: Any, operator: str) -> Any:
    """A constant: a number, if it is one and that is all the same."""
    if np.size(array) == 1 and operator in NUMBERS:
        return np.asarray(array).reshape(-1)[0].item()
    return _tensor(array)


def _tensor(value: Any) -> Tensor:
    """A tensor as it is, a constant as one; numbers with a point have 32 bits."""
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value)
    whole = np.issubdtype(array.dtype, np.integer) or array.dtype == np.bool_
    return torch.from_numpy(np.array(array, array.dtype if whole else np.float32))


def _owner(root: nn.Module, path: str) -> nn.Module:
    """The module at a path, made if it is new."""
    for part in path.split("."):
        if part not in root._modules:
            root.add_module(part, nn.Module())
        found = root._modules[part]
        assert found is not None
        root = found
    return root


def _free(root: nn.Module, path: str) -> str:
    """A path that nothing is at."""
    taken: Mapping[str, nn.Module] = dict(root.named_modules())
    made, number = path, 1
    while made in taken or hasattr(nn.Module, made.split(".")[-1]):
        number += 1
        made = f"{path}_{number}"
    return made


def _put(root: nn.Module, path: str, step: Step) -> None:
    above, _, last = path.rpartition(".")
    home = _owner(root, above) if above else root
    home.add_module(last, step)
