"""How the axes of a torch tensor lie in a tensor of archir, which has no batch axis and few layouts.

An axis is a product of atoms, the major one first; an axis of size 1 has none. A torch tensor [B, heads, N, d] that is
a view of tokens f32[N, heads * d] has the axes (batch)(heads)(N)(d), and its base is (N)(heads d). Reshapes,
permutations, squeezes and expansions regroup atoms and compute nothing; operations ask for the base that they work on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from archir.ir.graph import NodeId
from archir_torch.importing.constants import Constant


class Unsupported(Exception):  # noqa: N818  (it says what, as archir's other refusals do)
    """What archir has no words for; the message says what."""


class Atom:
    """A part of an axis that stays together. Two of equal size are two."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def __repr__(self) -> str:
        return str(self.size)


Axis = tuple[Atom, ...]
Axes = tuple[Axis, ...]


@dataclass(frozen=True)
class Value:
    """A torch tensor: a node (or a constant) whose axes are `base`, seen as a tensor of `axes`.

    Atoms that `axes` has and `base` has not are copies: the batch is always one of them.
    """

    node: NodeId | Constant
    base: Axes
    axes: Axes
    dtype: str = "f32"

    @property
    def shape(self) -> tuple[int, ...]:
        """As torch has it."""
        return sizes(self.axes)

    @property
    def atoms(self) -> list[Atom]:
        """Those of the base."""
        return [atom for axis in self.base for atom in axis]


def sizes(axes: Axes) -> tuple[int, ...]:
    """The size of each axis."""
    return tuple(prod(atom.size for atom in axis) for axis in axes)


def fresh(shape: Iterable[int]) -> Axes:
    """Axes of new atoms."""
    return tuple((Atom(size),) if size != 1 else () for size in shape)


def substituted(value: Value, parts: Mapping[Atom, Axis]) -> Value:
    """With each of some atoms as others."""

    def of(axes: Axes) -> Axes:
        return tuple(tuple(new for atom in axis for new in parts.get(atom, (atom,))) for axis in axes)

    return replace(value, base=of(value.base), axes=of(value.axes))


def renewed(value: Value, batch: Atom) -> Value:
    """With atoms of its own, but for the batch."""
    old = {atom for axes in (value.base, value.axes) for axis in axes for atom in axis} - {batch}
    return substituted(value, {atom: (Atom(atom.size),) for atom in old})


def coalesced(value: Value, batch: Atom) -> Value:
    """With atoms that always follow each other as one."""
    while True:
        after: dict[Atom, set[Atom | None]] = {}
        before: dict[Atom, set[Atom | None]] = {}
        for axis in (*value.base, *value.axes):
            for one, other in zip((None, *axis), (*axis, None), strict=True):
                if one is not None:
                    after.setdefault(one, set()).add(other)
                if other is not None:
                    before.setdefault(other, set()).add(one)
        held = set(value.atoms)
        for atom, following in after.items():
            (other, *more) = following
            if more or other is None or batch in (atom, other) or before[other] != {atom}:
                continue
            if (atom in held) == (other in held):
                value = substituted(value, {atom: (Atom(atom.size * other.size),), other: ()})
                break
        else:
            return value


def regrouped(value: Value, shape: Sequence[int], batch: Atom) -> Value:
    """A reshape. Raises Unsupported where atoms do not divide so."""
    left = [atom for axis in value.axes for atom in axis]
    left.reverse()
    parts: dict[Atom, list[Atom]] = {}
    axes: list[Axis] = []
    for size in shape:
        axis: list[Atom] = []
        while size > 1:
            if not left:
                raise Unsupported("a reshape of other numbers")
            atom = left.pop()
            if size % atom.size == 0:
                axis.append(atom)
                size //= atom.size
            elif atom.size % size == 0 and atom is not batch:
                first, rest = Atom(size), Atom(atom.size // size)
                whole = next((known for known, made in parts.items() if atom in made), atom)
                made = parts.setdefault(whole, [whole])
                at = made.index(atom)
                made[at : at + 1] = [first, rest]
                axis.append(first)
                left.append(rest)
                size = 1
            else:
                raise Unsupported("a reshape that takes the batch, or other axes, apart")
        axes.append(tuple(axis))
    if left:
        raise Unsupported("a reshape of other numbers")
    table = {atom: tuple(made) for atom, made in parts.items()}
    return replace(substituted(value, table), axes=tuple(axes))


def plain(axes: Axes, batch: Atom) -> Axes:
    """The base that torch's axes are without the batch."""
    return tuple(tuple(atom for atom in axis if atom is not batch) for axis in axes if axis != (batch,))


def matched(one: Axis, other: Axis) -> tuple[dict[Atom, Axis], dict[Atom, Axis]]:
    """Atoms of two axes of a size, taken apart so that they are the same. Raises Unsupported where they cannot be."""
    mine: dict[Atom, list[Atom]] = {atom: [] for atom in one}
    theirs: dict[Atom, list[Atom]] = {atom: [] for atom in other}
    i = j = 0
    a = b = 1
    while i < len(one) or j < len(other):
        if a == 1 and i < len(one):
            a = one[i].size
        if b == 1 and j < len(other):
            b = other[j].size
        if a == b:
            size = a
        elif a % b == 0:
            size = b
        elif b % a == 0:
            size = a
        else:
            raise Unsupported("axes that are taken apart differently")
        atom = one[i] if size == one[i].size and not mine[one[i]] else Atom(size)
        mine[one[i]].append(atom)
        theirs[other[j]].append(atom)
        a, b = a // size, b // size
        i, j = i + (a == 1), j + (b == 1)
    return {k: tuple(v) for k, v in mine.items()}, {k: tuple(v) for k, v in theirs.items()}
