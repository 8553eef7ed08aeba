"""What an operation is: one frozen class that holds all that is true of it, whatever the backend."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from math import prod
from typing import Any, ClassVar, Literal, NamedTuple, get_type_hints

from archir.diagnostics.errors import RuleError, total
from archir.diagrams.cases import Value, at, same, support, varies
from archir.diagrams.lifting import lift
from archir.ir.types import TensorType
from archir.plugins.registry import Registry

OPS: Registry[str, type[Op]] = Registry("operation", "operations")
"""Every operation by its name in `.arch` files."""

Init = Literal["zeros", "ones", "lecun", "fan_in", "token", "slope"]
"""How a weight starts.

`lecun` is normal of variance 1/fan_in, which keeps the variance of what passes through, so that networks without
normalisation neither explode nor fade; `fan_in` is uniform within 1/sqrt(fan_in), torch's default; `token` a normal of
standard deviation 0.02 cut at two deviations, the custom for embeddings; `slope` is 0.25, that of learned slopes.
"""


Role = Literal["result", "operand", "leading", "centred"]
"""What an axis of a weight is, which says where a smaller weight lies inside a larger one.

`result` and `operand` are the channels of the result and of the first operand; where these lie depends on what they are
used for (see `archir.passes.sharing`). Of the others a smaller weight has the first positions, or those in the
middle.
"""
Member = int | None
"""An operand by its position, or the result (None)."""


class Tied(NamedTuple):
    """Operands and the result whose channels are the same ones, in so many heads."""

    members: tuple[Member, ...]
    heads: int = 1


class Piece(NamedTuple):
    """The channels of `piece` are one of so many equal parts of those of `whole`."""

    whole: Member
    piece: Member
    parts: int


class Beside(NamedTuple):
    """The channels of the result are those of these operands, one after another."""

    members: tuple[int, ...]


class Spread(NamedTuple):
    """Each channel of an operand is so many channels of the result, one after another."""

    operand: int
    times: int


class Gathered(NamedTuple):
    """So many channels of an operand, one after another, are one of the result."""

    operand: int
    times: int


class Dealt(NamedTuple):
    """The channels of the result are those of an operand, dealt out of so many groups of it in turn."""

    operand: int
    groups: int


Tie = Tied | Piece | Beside | Spread | Gathered | Dealt
"""What the channels of some operands and of the result have to do with each other."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor that belongs to an operation. `fan_in` counts the inputs of one output; a buffer is not trained."""

    shape: tuple[int, ...]
    init: Init = "fan_in"
    fan_in: int = 1
    buffer: bool = False

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)


def op_name(name: str) -> str:
    """The name in `.arch` files of the operation of a class."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


_RULES = {"infer", "weights", "roles", "ties", "macs", "kernels", "limits", "narrowed", "expand"}


@dataclass(frozen=True)
class Op:
    """An operation. A subclass's fields are its attributes; its snake_case name is its name in `.arch` files.

    Rules see plain attributes and plain types only; what depends on choices is lifted over them by `archir.ir.typing`.
    Element types in `infer` are those of the operands; shapes are without the batch axis.
    """

    name: ClassVar[str] = ""
    operands: ClassVar[tuple[str, ...]] = ("x",)
    """Names of the tensor operands; `*name` takes any number."""
    optional: ClassVar[int] = 0
    """How many operands, from the last, may be left out."""
    commutative: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    random: ClassVar[bool] = False
    """Draws random numbers in training."""
    in_place: ClassVar[bool] = False
    """May write its result, number by number, over its operand."""
    any_kind: ClassVar[bool] = False
    """Takes gates and kernels too, and says in `infer` which fit; all others take features alone."""
    any_element: ClassVar[bool] = False
    """Takes integers and truth values too, and says in `infer` which fit; all others take floating-point numbers."""
    later: ClassVar[tuple[str, ...]] = ()
    """Attributes that the operation did not have at first. What is kept of graphs leaves them out where they have their
    default, so that hashes, files and tables of then are those of now."""
    internal: ClassVar[bool] = False
    """Made by the compiler; cannot be called in a `.arch` file."""

    def __init_subclass__(cls, abstract: bool = False) -> None:
        super().__init_subclass__()
        for name in _RULES & vars(cls).keys():
            setattr(cls, name, total(getattr(cls, name)))
        if abstract:
            return
        cls.name = op_name(cls.__name__)
        OPS.register(cls.name, cls)

    def infer(self, *operands: Any) -> TensorType:
        """The type of the result. Raises RuleError for operands that do not fit."""
        raise RuleError(f"`{self.name}` has no type rule")

    def weights(self, *operands: Any) -> dict[str, Weight]:
        """The operation's weights by name, for operands of these types."""
        return {}

    def roles(self, *operands: Any) -> dict[str, tuple[Role, ...]]:
        """What the axes of each weight are. Most weights have one: the channels of the result."""
        return dict.fromkeys(self.weights(*operands), ("result",))

    def ties(self, *operands: Any) -> tuple[Tie, ...]:
        """Which channels are the same; by default those of all operands and of the result."""
        return (Tied((*range(len(operands)), None)),)

    def macs(self, *operands: Any) -> int:
        """Multiply-accumulates of one sample: those of convolutions, linear maps and matrix products."""
        raise RuleError(f"the cost of `{self.name}` is not known")

    def kernels(self, *operands: Any) -> int:
        """Kernels that the torch backend launches in evaluation, of operands that lie in memory in order.

        What computes or moves numbers counts; views, allocations, and copies into order do not.
        """
        return 1

    def limits(self, *operands: Any) -> tuple[int | None, ...]:
        """What the integers of each operand must be below; None where there is no limit."""
        return (None,) * len(operands)

    def between(self, result: Any, *operands: Any) -> tuple[int, int] | None:
        """The least and the greatest of the integers that it makes, of the types of its result and of its operands;
        None if they are moved, or come from outside."""
        return None

    def narrowed(self, part: int) -> Op:
        """The same for one in `part` of the channels. RuleError if these do not divide."""
        return self

    @property
    def varied(self) -> dict[str, Value]:
        """The attributes that depend on choices."""
        found = {}
        for name in attribute_names(type(self)):
            value = getattr(self, name)
            if varies(value):
                found[name] = value
        return found

    def at(self, outcomes: Mapping[str, int]) -> Op:
        """The operation under outcomes of its choices."""
        varied = self.varied
        return replace(self, **{name: at(value, outcomes) for name, value in varied.items()}) if varied else self

    def restrict(self, under: Value) -> Op:
        """The operation with attributes simplified by what is known to hold."""
        return replace(self, **{name: lift(lambda leaf: leaf, v, under=under) for name, v in self.varied.items()})

    @property
    def choices(self) -> set[str]:
        """Paths of the choices the attributes depend on."""
        return {choice.path for choice in support(*self.varied.values())}

    def attributes(self) -> dict[str, Value]:
        """Attribute values by name, in declaration order."""
        return {name: getattr(self, name) for name in attribute_names(type(self))}

    def kept_attributes(self) -> dict[str, Value]:
        """Those that hashes, files and tables tell: all but later ones that have their default."""
        usual = {f.name: f.default for f in fields(self) if f.name in self.later}
        return {n: v for n, v in self.attributes().items() if n not in usual or not same(v, usual[n])}


class Composite(Op, abstract=True):
    """An operation that stands for several others, which depend on what it is given. Backends see those."""

    def expand(self, add: Callable[..., Any], operands: Sequence[Any], types: Sequence[TensorType]) -> Any:
        """The node that stands for it: `add(op, *operands)` makes the node of a simpler operation."""
        raise RuleError(f"`{self.name}` cannot be written out")

    def kernels(self, *operands: Any) -> int:
        """Those of the operations it stands for."""
        known: list[TensorType] = list(operands)
        total = 0

        def add(op: Op, *read: int) -> int:
            nonlocal total
            types = [known[operand] for operand in read]
            total += op.kernels(*types)
            known.append(op.infer(*types))
            return len(known) - 1

        self.expand(add, range(len(operands)), operands)
        return total


class Free(Op, abstract=True):
    """An operation that multiplies and accumulates nothing (activations, additions, data movement)."""

    def macs(self, *operands: Any) -> int:
        """None."""
        return 0


class View(Free, abstract=True):
    """An operation that computes nothing in evaluation: the same numbers under another shape or name."""

    def kernels(self, *operands: Any) -> int:
        """None."""
        return 0


def attribute_names(op: type[Op]) -> tuple[str, ...]:
    """The names of an operation's attributes, in declaration order."""
    return _names(op.name)[0]


def needed_attributes(op: type[Op]) -> tuple[str, ...]:
    """The names of those that have no default."""
    return _names(op.name)[1]


@cache
def _names(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = fields(OPS[name])
    return tuple(f.name for f in found), tuple(f.name for f in found if f.default is MISSING)


@cache
def _declared(name: str) -> dict[str, Any]:
    hints = get_type_hints(OPS[name])
    return {f.name: hints[f.name] for f in fields(OPS[name])}


def attribute_types(op: type[Op]) -> dict[str, Any]:
    """The declared types of an operation's attributes."""
    return _declared(op.name)


@OPS.each
def _forget(name: str, op: type[Op]) -> None:
    """A class that is defined again may have other attributes."""
    _names.cache_clear()
    _declared.cache_clear()
