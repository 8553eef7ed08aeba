"""Base classes of operations: an operation is a frozen dataclass that defines everything about it but its
lowerings.

`infer`, `weights`, `macs` and the other rules are methods; backends add a lowering each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from math import prod
from typing import Any, ClassVar, Literal, NamedTuple, get_type_hints

from archir.diagnostics.errors import RuleError
from archir.diagrams.lifting import lift
from archir.diagrams.mdd import Value, support, value_at, varies
from archir.ir.types import TensorType
from archir.plugins.registry import Registry

OPS: Registry[str, type[Op]] = Registry("operation", "operations")
"""Registry of all operations by their name in `.arch` files."""

Init = Literal["zeros", "ones", "lecun", "fan_in", "token", "slope"]
"""Initialization of a weight.

`lecun` is normal with variance 1/fan_in, which preserves the variance of activations, so that networks
without normalization neither explode nor vanish; `fan_in` is uniform in +-1/sqrt(fan_in), torch's default;
`token` is normal with standard deviation 0.02, truncated at two standard deviations, as is usual for
embeddings; `slope` is the constant 0.25, for learned slopes (PReLU).
"""


Role = Literal["result", "operand", "leading", "centred"]
"""The role of an axis of a weight, which decides where the weight of a smaller architecture lies inside a
shared weight.

`result` and `operand` are the channels of the result and of the first operand; their positions follow from
how the channels are used (see `archir.passes.sharing`). On a `leading` axis the smaller weight is a prefix,
on a `centred` axis it is the centre crop.
"""
Port = int | None
"""A tensor of an operation: an operand by its position, or the result (None)."""


class AliasMap(NamedTuple):
    """Channel map: these tensors have the same channels, divided into `heads` heads."""

    tensors: tuple[Port, ...]
    heads: int = 1


class SplitMap(NamedTuple):
    """Channel map: the channels of `part` are one of `parts` equal slices of the channels of `source`."""

    source: Port
    part: Port
    parts: int


class ConcatMap(NamedTuple):
    """Channel map: the channels of the result are those of these operands, concatenated."""

    operands: tuple[int, ...]


class RepeatMap(NamedTuple):
    """Channel map: each channel of the operand becomes `factor` consecutive channels of the result."""

    operand: int
    factor: int


class GroupMap(NamedTuple):
    """Channel map: each `factor` consecutive channels of the operand become one channel of the result."""

    operand: int
    factor: int


class ShuffleMap(NamedTuple):
    """Channel map: the operand's channels, divided into `groups` groups and interleaved (channel shuffle)."""

    operand: int
    groups: int


ChannelMap = AliasMap | SplitMap | ConcatMap | RepeatMap | GroupMap | ShuffleMap
"""How the channels of the result relate to those of operands."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor that belongs to an operation: a parameter, or a `buffer`, which is not trained.

    `fan_in` is the number of inputs of one output, which the initialization uses.
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
    """Return an operation's name in `.arch` files from the name of its class: `GlobalAvgPool` ->
    `global_avg_pool`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


@dataclass(frozen=True)
class Op:
    """An operation. A subclass's dataclass fields are its attributes; its name in snake case is its name in
    `.arch` files.

    Rules only see plain attributes and types; `archir.ir.typing` lifts them over values that depend on choices.
    Attributes have their declared types and operands are as many as declared (`archir.ir.attributes`); `infer` refuses
    what else is wrong, and the other rules are asked about operands that it accepts. Shapes have no batch axis.
    """

    name: ClassVar[str] = ""
    operands: ClassVar[tuple[str, ...]] = ("x",)
    """Names of the tensor operands; a single `*name` accepts any number."""
    optional: ClassVar[int] = 0
    """Number of operands, counted from the last, that may be omitted."""
    commutative: ClassVar[bool] = False
    """Whether the order of the operands does not matter."""
    linear: ClassVar[bool] = False
    """Whether the result is a linear function of the operands."""
    random: ClassVar[bool] = False
    """Whether it draws random numbers in training (dropout, for example)."""
    in_place: ClassVar[bool] = False
    """Whether a lowering may overwrite the operand with the result, element by element."""
    any_kind: ClassVar[bool] = False
    """Whether it accepts gates and kernels, which `infer` then checks; other operations accept only features."""
    any_element: ClassVar[bool] = False
    """Whether it accepts integer and boolean tensors, which `infer` then checks; other operations accept only
    floating point."""
    internal: ClassVar[bool] = False
    """Whether only the compiler creates it; `.arch` programs cannot call it."""

    def __init_subclass__(cls, abstract: bool = False) -> None:
        super().__init_subclass__()
        if abstract:
            return
        cls.name = op_name(cls.__name__)
        OPS.register(cls.name, cls)

    def infer(self, *operands: Any) -> TensorType:
        """Return the type of the result. Raises RuleError for invalid operands."""
        raise RuleError(f"`{self.name}` has no type rule")

    def weights(self, *operands: Any) -> dict[str, Weight]:
        """Return the operation's weights by name, for operands of these types."""
        return {}

    def roles(self, *operands: Any) -> dict[str, tuple[Role, ...]]:
        """Return the roles of the axes of each weight, by name. By default each weight has one axis: the channels of
        the result."""
        return dict.fromkeys(self.weights(*operands), ("result",))

    def ties(self, *operands: Any) -> tuple[ChannelMap, ...]:
        """Return how the channels of operands and result relate; by default all of them have the same channels."""
        return (AliasMap((*range(len(operands)), None)),)

    def macs(self, *operands: Any) -> int:
        """Return the multiply-accumulates for one sample: those of convolutions, linear maps and matrix products."""
        raise RuleError(f"the cost of `{self.name}` is not known")

    def kernels(self, *operands: Any) -> int:
        """Return the number of kernels that the torch backend launches in evaluation, for contiguous operands.

        Kernels that compute or move elements count; views, allocations and copies that make a tensor contiguous do
        not.
        """
        return 1

    def limits(self, *operands: Any) -> tuple[int | None, ...]:
        """Return, for each operand, the number that its integers must be below; None where there is no limit."""
        return (None,) * len(operands)

    def between(self, result: Any, *operands: Any) -> tuple[int, int] | None:
        """Return the least and the greatest integer in the result, given the types of the result and of the operands.

        None if the integers are moved from an operand, or come from outside.
        """
        return None

    def narrowed(self, part: int) -> Op:
        """Return the operation for one of `part` equal slices of the channels. Raises RuleError if its attributes do
        not divide."""
        return self

    @property
    def varying_attributes(self) -> dict[str, Value]:
        """Attributes whose values depend on choices, by name."""
        varying = {}
        for name in attribute_names(type(self)):
            value = getattr(self, name)
            if varies(value):
                varying[name] = value
        return varying

    def at(self, outcomes: Mapping[str, int]) -> Op:
        """Return the operation of one architecture, given as outcomes by the path of the choice."""
        varying = self.varying_attributes
        return (
            replace(self, **{name: value_at(value, outcomes) for name, value in varying.items()}) if varying else self
        )

    def restrict(self, under: Value) -> Op:
        """Return the operation with its attributes simplified under a condition that is known to hold."""
        return replace(
            self, **{name: lift(lambda leaf: leaf, v, under=under) for name, v in self.varying_attributes.items()}
        )

    @property
    def choices(self) -> set[str]:
        """Paths of the choices that attributes depend on."""
        return {choice.path for choice in support(*self.varying_attributes.values())}

    def attributes(self) -> dict[str, Value]:
        """Return the attribute values by name, in the order of declaration."""
        return {name: getattr(self, name) for name in attribute_names(type(self))}


class Composite(Op, abstract=True):
    """An operation that expands into simpler ones, which depend on its operands' types. Backends only see the
    simpler ones."""

    def expand(self, add: Callable[..., Any], operands: Sequence[Any], types: Sequence[TensorType]) -> Any:
        """Build the equivalent of this operation: `add(op, *operands)` creates a node of a simpler operation; return
        the result."""
        raise RuleError(f"`{self.name}` has no `expand` rule")

    def kernels(self, *operands: Any) -> int:
        """Return the kernels of the operations that it expands into."""
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
    """An operation without multiply-accumulates: activations, additions, data movement."""

    def macs(self, *operands: Any) -> int:
        """Return 0."""
        return 0


class View(Free, abstract=True):
    """An operation that computes nothing in evaluation: the result is the same elements under another shape or
    name."""

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
    """Clear the caches of attributes: a class that is defined again may have others."""
    _attribute_names.cache_clear()
    _attribute_types.cache_clear()
