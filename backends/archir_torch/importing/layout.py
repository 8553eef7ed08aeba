"""Symbolic layouts of torch tensors: how their axes map to the axes of archir tensors.

archir tensors have no batch axis and few possible layouts. Each axis is a product of atoms, the major one first; an
axis of size 1 has no atoms. For example, a torch tensor [B, heads, N, d] that is a view of tokens f32[N, heads * d]
has the axes (batch)(heads)(N)(d), and its base, the layout of the archir tensor, is (N)(heads d). Reshapes,
permutations, squeezes and expansions only regroup atoms and add no operation; other operators request the base that
they need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from archir.ir.graph import NodeId
from archir_torch.importing.constants import Constant


class Unsupported(Exception):  # noqa: N818  (its name is an adjective, unlike those of errors)
    """Raised for an operation that archir does not support; the message describes the operation."""


class Atom:
    """Indivisible factor of an axis. Atoms are compared by identity: two atoms of equal size are different."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def __repr__(self) -> str:
        return str(self.size)


Axis = tuple[Atom, ...]
"""Atoms of one axis, the major one first."""
Axes = tuple[Axis, ...]
"""All axes of a tensor, in order."""


@dataclass(frozen=True)
class Value:
    """Torch tensor with the given `axes`, whose data is an archir node or constant with the axes `base`.

    Along atoms that are in `axes` but not in `base`, all slices of the torch tensor are equal copies of the data. The
    batch is always such an atom.
    """

    node: NodeId | Constant
    base: Axes
    axes: Axes
    dtype: str = "f32"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the torch tensor, including the batch axis."""
        return sizes(self.axes)

    @property
    def atoms(self) -> list[Atom]:
        """Atoms of the base, in order."""
        return [atom for axis in self.base for atom in axis]


def sizes(axes: Axes) -> tuple[int, ...]:
    """Return the size of each axis, which is the product of its atoms' sizes."""
    return tuple(prod(atom.size for atom in axis) for axis in axes)


def new_axes(shape: Iterable[int]) -> Axes:
    """Return axes of these sizes, each with a new atom, or without atoms if its size is 1."""
    return tuple((Atom(size),) if size != 1 else () for size in shape)


def replace_atoms(value: Value, parts: Mapping[Atom, Axis]) -> Value:
    """Return the value with some atoms replaced by sequences of atoms, in both `axes` and `base`."""

    def of(axes: Axes) -> Axes:
        return tuple(tuple(new for atom in axis for new in parts.get(atom, (atom,))) for axis in axes)

    return replace(value, base=of(value.base), axes=of(value.axes))


def with_new_atoms(value: Value, batch: Atom) -> Value:
    """Return the value with every atom except the batch replaced by a new one."""
    old = {atom for axes in (value.base, value.axes) for axis in axes for atom in axis} - {batch}
    return replace_atoms(value, {atom: (Atom(atom.size),) for atom in old})


def merge_atoms(value: Value, batch: Atom) -> Value:
    """Return the value with two atoms merged into one if they always occur directly after each other."""
    while True:
        after: dict[Atom, set[Atom | None]] = {}
        before: dict[Atom, set[Atom | None]] = {}
        for axis in (*value.base, *value.axes):
            for current, following_atom in zip((None, *axis), (*axis, None), strict=True):
                if current is not None:
                    after.setdefault(current, set()).add(following_atom)
                if following_atom is not None:
                    before.setdefault(following_atom, set()).add(current)
        base_atoms = set(value.atoms)
        for atom, following in after.items():
            (following_atom, *others) = following
            if others or following_atom is None or batch in (atom, following_atom) or before[following_atom] != {atom}:
                continue
            if (atom in base_atoms) == (following_atom in base_atoms):
                value = replace_atoms(value, {atom: (Atom(atom.size * following_atom.size),), following_atom: ()})
                break
        else:
            return value


def regroup(value: Value, shape: Sequence[int], batch: Atom) -> Value:
    """Reshape a value by regrouping and splitting its atoms.

    Raises Unsupported if the atoms do not divide into the new sizes.
    """
    remaining = [atom for axis in value.axes for atom in axis]
    remaining.reverse()
    parts: dict[Atom, list[Atom]] = {}
    axes: list[Axis] = []
    for size in shape:
        axis: list[Atom] = []
        while size > 1:
            if not remaining:
                raise Unsupported("a reshape to another number of elements")
            atom = remaining.pop()
            if size % atom.size == 0:
                axis.append(atom)
                size //= atom.size
            elif atom.size % size == 0 and atom is not batch:
                major, minor = Atom(size), Atom(atom.size // size)
                original = next((source for source, pieces in parts.items() if atom in pieces), atom)
                pieces = parts.setdefault(original, [original])
                at = pieces.index(atom)
                pieces[at : at + 1] = [major, minor]
                axis.append(major)
                remaining.append(minor)
                size = 1
            else:
                raise Unsupported("a reshape that splits the batch, or axes at other places than before")
        axes.append(tuple(axis))
    if remaining:
        raise Unsupported("a reshape to another number of elements")
    table = {atom: tuple(pieces) for atom, pieces in parts.items()}
    return replace(replace_atoms(value, table), axes=tuple(axes))


def base_without_batch(axes: Axes, batch: Atom) -> Axes:
    """Return torch's axes without the batch, for use as a base with the same layout."""
    return tuple(tuple(atom for atom in axis if atom is not batch) for axis in axes if axis != (batch,))


def match_atoms(first: Axis, second: Axis) -> tuple[dict[Atom, Axis], dict[Atom, Axis]]:
    """Split the atoms of two axes of equal size so that the axes consist of corresponding atoms.

    Returns, for each axis, the parts of each of its atoms. Raises Unsupported if the sizes do not divide each other.
    """
    first_parts: dict[Atom, list[Atom]] = {atom: [] for atom in first}
    second_parts: dict[Atom, list[Atom]] = {atom: [] for atom in second}
    i = j = 0
    a = b = 1
    while i < len(first) or j < len(second):
        if a == 1 and i < len(first):
            a = first[i].size
        if b == 1 and j < len(second):
            b = second[j].size
        if a == b:
            size = a
        elif a % b == 0:
            size = b
        elif b % a == 0:
            size = a
        else:
            raise Unsupported("tensors whose axes are split differently")
        atom = first[i] if size == first[i].size and not first_parts[first[i]] else Atom(size)
        first_parts[first[i]].append(atom)
        second_parts[second[j]].append(atom)
        a, b = a // size, b // size
        i, j = i + (a == 1), j + (b == 1)
    return {k: tuple(v) for k, v in first_parts.items()}, {k: tuple(v) for k, v in second_parts.items()}
