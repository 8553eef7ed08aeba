"""Base classes of operations: frozen dataclasses that define everything about an operation except its lowerings.

The rules (`infer`, `weights`, `macs` and so on) are methods. Each backend adds its own lowering.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from math import prod
from types import UnionType
from typing import Any, ClassVar, Literal, NamedTuple, get_args, get_origin, get_type_hints

from archir.diagnostics.errors import RuleError
from archir.diagrams.diagram import Value, support, value_at, varies
from archir.diagrams.lifting import lift
from archir.ir.types import TensorType
from archir.plugins.registry import Registry

OPS: Registry[str, type[Op]] = Registry("operation", "operations")
"""Registry of all operations by their name in `.arch` files."""

Init = Literal["zeros", "ones", "lecun", "fan_in", "token", "slope"]
"""Initialization of a weight.

`lecun` is normal with variance 1/fan_in, which preserves the variance of activations, so that they neither explode nor
vanish in networks without normalization. `fan_in` is uniform in +-1/sqrt(fan_in), torch's default. `token` is normal
with standard deviation 0.02, truncated at two standard deviations, as is usual for embeddings. `slope` is the constant
0.25, for learned slopes (PReLU).
"""


Role = Literal["result", "operand", "leading", "centred"]
"""Role of a weight's axis: decides which part of a shared weight a smaller architecture uses along it.

`result` and `operand`: the axis holds the channels of the result or of the first operand. The channels in use follow
from how channels are used elsewhere in the network (see `archir.passes.sharing`). `leading`: a prefix is used.
`centred`: the centre crop is used.
"""
Port = int | None
"""A tensor that an operation reads or writes: the position of an operand, or None for the result."""


class AliasMap(NamedTuple):
    """Channel map: these tensors have the same channels, divided into `heads` heads."""

    tensors: tuple[Port, ...]
    heads: int = 1


class SplitMap(NamedTuple):
    """Channel map: the channels of `part` are one of `parts` equal, consecutive slices of the channels of `source`."""

    source: Port
    part: Port
    parts: int


class ConcatMap(NamedTuple):
    """Channel map: the channels of the result are those of these operands, concatenated in this order."""

    operands: tuple[int, ...]


class RepeatMap(NamedTuple):
    """Channel map: each channel of the operand becomes `factor` consecutive channels of the result."""

    operand: int
    factor: int


class GroupMap(NamedTuple):
    """Channel map: every `factor` consecutive channels of the operand become one channel of the result."""

    operand: int
    factor: int


class ShuffleMap(NamedTuple):
    """Channel map: channel shuffle; the operand's channels are divided into `groups` groups and interleaved."""

    operand: int
    groups: int


ChannelMap = AliasMap | SplitMap | ConcatMap | RepeatMap | GroupMap | ShuffleMap
"""How the channels of an operation's tensors (operands and result) are related."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor that an operation owns: a parameter, or a `buffer`, which is not trained.

    `fan_in` is the number of inputs that each output is computed from; the initialization depends on it.
    """

    shape: tuple[int, ...]
    init: Init = "fan_in"
    fan_in: int = 1
    buffer: bool = False

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)


def op_name(name: str) -> str:
    """Return an operation's name in `.arch` files for the name of its class: `GlobalAvgPool` -> `global_avg_pool`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


@dataclass(frozen=True)
class Op:
    """An operation; a subclass's dataclass fields are its attributes.

    Its name in `.arch` files is the name of the class in snake case. Rules are only called with plain attributes and
    types; `archir.ir.typing` lifts them over values that depend on choices. Shapes have no batch axis.
    """

    name: ClassVar[str] = ""
    operands: ClassVar[tuple[str, ...]] = ("x",)
    """Names of the tensor operands; a single `*name` stands for any number of operands."""
    optional: ClassVar[int] = 0
    """Number of trailing operands that may be omitted."""
    commutative: ClassVar[bool] = False
    """Whether the order of the operands does not matter."""
    linear: ClassVar[bool] = False
    """Whether the result is a linear function of the operands."""
    in_place: ClassVar[bool] = False
    """Whether a lowering may write each element of the result over the corresponding element of the operand."""
    any_kind: ClassVar[bool] = False
    """Whether operands may also be gates and kernels, not only features.

    `infer` then has to check their kinds.
    """
    any_element: ClassVar[bool] = False
    """Whether operands may also be integer or boolean, not only floating point.

    `infer` then has to check their element types.
    """
    constant: ClassVar[bool] = False
    """Whether the result depends only on the shape of the operands, not on their values."""
    internal: ClassVar[bool] = False
    """Whether only the compiler may create the operation; `.arch` programs cannot call it."""

    def __init_subclass__(cls, abstract: bool = False) -> None:
        super().__init_subclass__()
        if abstract:
            return
        cls.name = op_name(cls.__name__)
        OPS.register(cls.name, cls)

    def infer(self, *operands: Any) -> TensorType:
        """Return the type of the result. Raises RuleError for invalid operands."""
        raise RuleError(f"`{self.name}` has no type rule")

    @property
    def random(self) -> bool:
        """Whether the operation samples random numbers in training, as dropout does."""
        return False

    def weights(self, *operands: Any) -> dict[str, Weight]:
        """Return the weights that the operation owns, by name, for operands of these types."""
        return {}

    def roles(self, *operands: Any) -> dict[str, tuple[Role, ...]]:
        """Return the role of each axis of each weight, by the weight's name.

        By default, each weight has one axis, which holds the channels of the result.
        """
        return dict.fromkeys(self.weights(*operands), ("result",))

    def ties(self, *operands: Any) -> tuple[ChannelMap, ...]:
        """Return the channel maps between operands and result; by default, these all have the same channels."""
        return (AliasMap((*range(len(operands)), None)),)

    def macs(self, *operands: Any) -> int:
        """Return the number of multiply-accumulates for one sample, in convolutions, linear maps and matrix
        products."""
        raise RuleError(f"the cost of `{self.name}` is not known")

    def kernels(self, *operands: Any) -> int:
        """Return the number of kernels that the torch backend launches in evaluation, for contiguous operands.

        Kernels that compute or move elements are counted; views, allocations, and copies that make a tensor contiguous
        are not.
        """
        return 1

    def limits(self, *operands: Any) -> tuple[int | None, ...]:
        """Return, for each operand, the exclusive upper bound of its integers; None for an operand without a bound."""
        return (None,) * len(operands)

    def between(self, result: Any, *operands: Any) -> tuple[int, int] | None:
        """Return the smallest and the largest integer that the result may contain.

        The arguments are the types of the result and of the operands. Returns None if the operation sets no bounds,
        because the integers are copied from an operand or come from a network input.
        """
        return None

    def narrowed(self, part: int) -> Op:
        """Return this operation for 1 / `part` of the channels.

        Raises RuleError if some attribute is not divisible by `part`.
        """
        return self

    @property
    def varying_attributes(self) -> dict[str, Value]:
        """Attributes whose values depend on choices (are diagrams), by name."""
        varying = {}
        for name in attribute_names(type(self)):
            value = getattr(self, name)
            if varies(value):
                varying[name] = value
        return varying

    def at(self, outcomes: Mapping[str, int]) -> Op:
        """Return the operation as it is in one architecture, which is given as outcomes by the paths of choices."""
        varying = self.varying_attributes
        return (
            replace(self, **{name: value_at(value, outcomes) for name, value in varying.items()}) if varying else self
        )

    def restrict(self, under: Value) -> Op:
        """Return the operation with its attributes simplified under the assumption that the condition `under` holds."""
        return replace(
            self, **{name: lift(lambda leaf: leaf, v, under=under) for name, v in self.varying_attributes.items()}
        )

    @property
    def choices(self) -> set[str]:
        """Paths of the choices that the attributes depend on."""
        return {choice.path for choice in support(*self.varying_attributes.values())}

    def attributes(self) -> dict[str, Value]:
        """Return the attribute values by name, in the order of declaration."""
        return {name: getattr(self, name) for name in attribute_names(type(self))}


class Composite(Op, abstract=True):
    """An operation that is replaced by simpler operations, which depend on the types of its operands.

    Backends only have to implement the simpler operations.
    """

    def expand(self, add: Callable[..., Any], operands: Sequence[Any], types: Sequence[TensorType]) -> Any:
        """Build the equivalent of this operation from simpler operations, and return the node of the result.

        `add(op, *operands)` creates a node and returns it.
        """
        raise RuleError(f"`{self.name}` has no `expand` rule")

    def kernels(self, *operands: Any) -> int:
        """Return the total number of kernels launched by the operations that the composite expands into."""
        node_types: list[TensorType] = list(operands)
        total = 0

        def add(op: Op, *operands: int) -> int:
            nonlocal total
            types = [node_types[operand] for operand in operands]
            total += op.kernels(*types)
            node_types.append(op.infer(*types))
            return len(node_types) - 1

        self.expand(add, range(len(operands)), operands)
        return total


class Free(Op, abstract=True):
    """An operation without multiply-accumulates, such as an activation, an addition or a movement of data."""

    def macs(self, *operands: Any) -> int:
        """Return 0."""
        return 0


class View(Free, abstract=True):
    """An operation that computes nothing in evaluation.

    Its result is the operand's elements under another shape or name.
    """

    def kernels(self, *operands: Any) -> int:
        """Return 0."""
        return 0


def attribute_names(op: type[Op]) -> tuple[str, ...]:
    """Return the names of an operation's attributes, in the order of declaration."""
    return _attribute_names(op.name)[0]


def required_attributes(op: type[Op]) -> tuple[str, ...]:
    """Return the names of an operation's attributes that have no default."""
    return _attribute_names(op.name)[1]


@cache
def _attribute_names(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    declared = fields(OPS[name])
    return tuple(f.name for f in declared), tuple(f.name for f in declared if f.default is MISSING)


@cache
def _attribute_types(name: str) -> dict[str, Any]:
    hints = get_type_hints(OPS[name])
    return {f.name: hints[f.name] for f in fields(OPS[name])}


def attribute_types(op: type[Op]) -> dict[str, Any]:
    """Return the declared types of an operation's attributes, by name."""
    return _attribute_types(op.name)


@OPS.subscribe
def _clear_caches(name: str, op: type[Op]) -> None:
    """Clear the caches of attribute names and types.

    A class that is registered again may have other attributes.
    """
    _attribute_names.cache_clear()
    _attribute_types.cache_clear()


_TYPE_WORDS = {int: "an integer", float: "a number", bool: "true or false", str: "a string", type(None): "none"}
"""Names of Python types in error messages."""


def type_phrase(type_: Any) -> str:
    """Return the declared type of an attribute as in messages: "an integer or none"."""
    if isinstance(type_, UnionType):
        return " or ".join(type_phrase(option) for option in get_args(type_))
    if get_origin(type_) is Literal:
        return " or ".join(f'"{name}"' for name in get_args(type_))
    if get_origin(type_) is tuple:
        return "a list of integers" if get_args(type_)[0] is int else "a list of numbers"
    return _TYPE_WORDS.get(type_, "a list of integers")
