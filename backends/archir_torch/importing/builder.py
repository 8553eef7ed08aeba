"""Builder of the graph that an import creates: adds nodes, finds scopes and weights, and converts layouts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
import torch

from archir.diagnostics.errors import RuleError
from archir.ir.graph import Graph, Node, NodeId, state_name
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.language.decompiler.imported import Array, Source, digest
from archir.ops.arithmetic import Concat
from archir.ops.constant import Constant as Numbers
from archir.ops.pool import GlobalAvgPool, GlobalMaxPool
from archir.ops.shape import ChannelShuffle, Flatten, Parameter, Reshape, Slice, ToMap, ToTokens, Transpose
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Atom, Axes, Axis, Unsupported, Value, base_without_batch, sizes

Weights = Mapping[str, Constant]
"""Weights of an operation by role, such as "weight" or "bias"."""
MAX_LITERALS = 1024
"""Maximum number of elements of a constant that is emitted as literal numbers in the graph."""
MAX_COPIES = 64
"""Maximum number of copies of a tensor that are materialised by concatenation."""


class Builder:
    """Builds the graph of an import; the import functions of torch operators add nodes through it.

    `module` is the path of the torch module whose operator is currently imported; `leaf` is True if that module is
    one of torch's own layers. `batch` is the atom of the batch axis (see `layout`).
    """

    def __init__(self, name: str, batch: int) -> None:
        self.graph = Graph(name)
        self.batch = Atom(batch)
        self.types: dict[NodeId, TensorType] = {}
        self.weights: dict[str, Array] = {}
        self.sources: dict[str, Source] = {}
        self.module = ""
        self.leaf = False
        self._scopes: dict[str, object] = {}
        self._layers: dict[object, str] = {}
        self._parameters: dict[object, NodeId] = {}
        self._keyed_constants: list[Constant] = []
        """Constants whose ids are used in keys. They are kept alive, since a new tensor could get the id of a freed
        one."""
        self._zero_nodes: dict[tuple[int, ...], NodeId] = {}
        self._concats: dict[tuple[int, ...], NodeId] = {}

    # nodes

    def add(self, op: Op, *operands: NodeId, scope: str | None = None) -> NodeId:
        """Add a node in the current module's scope and return it.

        Raises Unsupported if the operation rejects the operands.
        """
        op = _shorten_numbers(op)
        try:
            type_ = op.infer(*(self.types[operand] for operand in operands))
        except RuleError as error:
            raise Unsupported(f"{op.name}: {error.message}") from None
        number = self.graph.add(Node(op, scope=self._new_scope(op) if scope is None else scope), *operands)
        self.types[number] = type_
        return number

    def add_layer(self, op: Op, weights: Weights, *operands: NodeId) -> NodeId:
        """Add a node with weights. Nodes with the same weights get the same scope, even if their operations differ."""
        constants = dict(weights.items())
        self._keyed_constants += constants.values()
        key = tuple((name, weight.key) for name, weight in sorted(constants.items()))
        if key not in self._layers:
            self._layers[key] = scope = self._reserve_scope(self._weights_scope(constants, op), key)
            for name, weight in constants.items():
                self._store_weight(state_name(scope, name), weight)
        return self.add(op, *operands, scope=self._layers[key])

    def has_layer(self, weights: Weights) -> bool:
        """Return whether a node with exactly these weights has been added."""
        return tuple((name, weight.key) for name, weight in sorted(weights.items())) in self._layers

    def _store_weight(self, name: str, weight: Constant) -> None:
        """Store the array of a weight, and record its source in the imported module."""
        self.weights[name] = array = weight.tensor.detach().numpy()
        origin = weight.origin
        if origin is not None and origin.in_state_dict and not weight.computed:
            self.sources[name] = Source(origin.name, origin.shape, weight.moves, "", origin.aliases)
            return
        reason = weight.computed or "a constant"
        if origin is not None and not origin.in_state_dict:
            reason = f"{origin.name}, which state dicts lack"
        self.sources[name] = Source("", array.shape, computed=reason, digest=digest(array))

    def _weights_scope(self, weights: Weights, op: Op) -> str:
        """Return the scope for weights according to their source names.

        `layer1.0.conv1.weight` is in the scope `layer1[0].conv1`.
        """
        for role, weight in weights.items():
            if weight.origin is not None:
                name = weight.origin.name
                last = name.rpartition(".")[2]
                is_usual = last in ("weight", "bias", "running_mean", "running_var", role)
                return scope_of(name.rpartition(".")[0] if is_usual else name.removesuffix("_weight"))
        return f"{scope_of(self.module)}.{op.name}".lstrip(".")

    def _new_scope(self, op: Op) -> str:
        """Reserve and return a new scope for a node without weights."""
        path = scope_of(self.module)
        base = path if self.leaf and path else f"{path}.{op.name}".lstrip(".")
        return self._reserve_scope(base, None)

    def _reserve_scope(self, base: str, owner: object) -> str:
        """Reserve and return an unused scope: `base` itself, or `base` followed by a number."""
        scope, count = base or "net", 1
        while scope in self._scopes:
            count += 1
            scope = f"{base}_{count}"
        self._scopes[scope] = owner
        return scope

    def concat(self, nodes: Sequence[NodeId], axis: int) -> NodeId:
        """Concatenate nodes along an axis, reusing the concatenation of the longest prefix of the nodes.

        Dense blocks concatenate growing lists of nodes, so each concatenation can be computed from the previous one and
        a new tensor.
        """
        prefix = next((k for k in range(len(nodes), 1, -1) if (axis, *nodes[:k]) in self._concats), 0)
        parts = (self._concats[axis, *nodes[:prefix]], *nodes[prefix:]) if prefix else tuple(nodes)
        if len(parts) == 1:
            return parts[0]
        channels = self.types[nodes[0]].channel_axis
        node = self.add(Concat(None if axis == channels else axis), *parts)
        return self._concats.setdefault((axis, *nodes), node)

    # layouts

    def node(self, value: Value) -> NodeId:
        """Return the node of a value.

        A constant becomes a parameter node. It becomes literal numbers if it is small, and either consists of integers
        or is untrained and zero.
        """
        if not isinstance(value.node, Constant):
            return value.node
        constant = value.node
        if not constant.trained and 1 < constant.tensor.numel() <= MAX_LITERALS and uniform_value(constant) == 0:
            return self._zeros(tuple(constant.tensor.shape))
        key = (*constant.key, *constant.tensor.shape)
        self._keyed_constants.append(constant)
        if key not in self._parameters:
            if constant.tensor.dtype == torch.int64 and constant.tensor.numel() <= MAX_LITERALS:
                reference = next(iter(self.graph.inputs.values()))
                literals = self.add(Numbers(tuple(constant.tensor.flatten().tolist())), reference)
                self._parameters[key] = self._reshape(literals, tuple(constant.tensor.shape) or (1,))
                return self._parameters[key]
            if not constant.tensor.is_floating_point():
                raise Unsupported("large constants that are not floating-point numbers")
            shape = tuple(constant.tensor.shape)
            if not shape:
                constant, shape = constant.reshaped((1,)), (1,)
            op = Parameter(shape, trained=constant.trained)
            self._parameters[key] = self.add_layer(op, {"value": constant})
        return self._parameters[key]

    def _zeros(self, shape: tuple[int, ...]) -> NodeId:
        """Return a node of untrained zeros, such as the initial state of a recurrent layer."""
        if shape not in self._zero_nodes:
            reference = next(iter(self.graph.inputs.values()))
            literals = self.add(Numbers((0,) * prod(shape), "f32"), reference)
            self._zero_nodes[shape] = self._reshape(literals, shape)
        return self._zero_nodes[shape]

    def with_base(self, value: Value, base: Axes) -> Value:
        """Return the value with another base, which must consist of the same atoms.

        Raises Unsupported if the value cannot be converted. The base of a value is the layout of its node in archir
        (see `layout`).
        """
        if value.base == base:
            return value
        value = self._materialize(value, [atom for atom in _flat(base) if atom not in value.atoms])
        if value.base == base:
            return value
        if sorted(map(id, value.atoms)) != sorted(map(id, _flat(base))):
            raise Unsupported("an expansion of another axis than the batch")
        if isinstance(value.node, Constant):
            return replace(value, node=_rearrange_constant(value.node, value.base, base), base=base)
        return replace(value, node=self._rearrange(value.node, value.base, base), base=base)

    def _materialize(self, value: Value, atoms: Sequence[Atom]) -> Value:
        """Materialise the copies of an expanded value along the given atoms by concatenation.

        Raises Unsupported if there are too many copies.
        """
        for atom in atoms:
            if atom is self.batch or atom.size > MAX_COPIES:
                raise Unsupported("an expansion of another axis than the batch")
            shape = (1, *sizes(value.base))
            if isinstance(value.node, Constant):
                part = self.node(replace(value, node=value.node.reshaped(shape)))
            else:
                part = self._reshape(value.node, shape)
            value = replace(value, node=self.concat([part] * atom.size, 0), base=((atom,), *value.base))
        return value

    def _rearrange(self, node: NodeId, old: Axes, new: Axes) -> NodeId:
        """Convert a node from one base (layout) to another with as few operations as possible."""
        if self.types[node].shape == sizes(new) and _flat(old) == _flat(new):
            return node
        pool = self.graph[node].op
        if isinstance(pool, GlobalAvgPool | GlobalMaxPool) and not pool.keep and new[1:] in (((), ()), ((), (), ())):
            operand = self.graph.operands(node)[0]
            if self.types[operand].rank == len(new) and new[0] == old[0]:
                return self.add(type(pool)(keep=True), operand, scope=self.graph[node].scope)
        if _flat(old) == _flat(new):
            return self._reshape(node, sizes(new))
        if len(old) == 3 and len(new) == 2 and new == (old[1] + old[2], old[0]):
            return self.add(ToTokens(), node)
        if len(old) == 2 and len(new) == 3 and old == (new[1] + new[2], new[0]):
            height, width = sizes(new[1:])
            return self.add(ToMap(None if height == width else height), node)
        if len(old) == len(new) and (order := _permutation(old, new)) is not None:
            return self._transpose(node, order)
        if (
            len(old) == len(new) == 3
            and old[1:] == new[1:]
            and (shuffle := _adjacent_runs([*old[0]], [*new[0]]))[2:] == []
        ):
            return self.add(ChannelShuffle(_size(shuffle[0])), node)
        runs = _adjacent_runs(_flat(old), _flat(new))
        node = self._reshape(node, tuple(_size(run) for run in runs))
        order = tuple(sorted(range(len(runs)), key=lambda i: _flat(new).index(runs[i][0])))
        return self._reshape(self._transpose(node, order), sizes(new))

    def _transpose(self, node: NodeId, order: tuple[int, ...]) -> NodeId:
        """Add a permutation of a node's axes, unless it is the identity."""
        if order == tuple(range(len(order))):
            return node
        usual = Transpose().order(len(order)) == order
        return self.add(Transpose(None if usual else order), node)

    def _reshape(self, node: NodeId, shape: tuple[int, ...]) -> NodeId:
        """Add a reshape of a node, unless the shape stays the same; consecutive reshapes are merged."""
        if isinstance(self.graph[node].op, Reshape):
            (node,) = self.graph.operands(node)
        if self.types[node].shape == shape:
            return node
        return self.add(Flatten() if len(shape) == 1 else Reshape(shape), node)

    def with_torch_base(self, value: Value) -> Value:
        """Return the value laid out like the torch tensor without its batch axis.

        Raises Unsupported if axes other than the batch are expanded.
        """
        return self.with_base(value, base_without_batch(value.axes, self.batch))

    def as_tokens(self, value: Value) -> Value:
        """Return the value with a base of one or two axes, of which the last one is torch's last axis.

        The axis of tokens is kept even if there is only one token.
        """
        last = value.axes[-1]
        is_plain = base_without_batch(value.axes, self.batch) == value.base
        if len(value.base) in (1, 2) and value.base[-1] == last and (is_plain or all(value.base[:-1])):
            return value
        other_atoms = self._other_atoms(value, last)
        if not other_atoms:
            return self.with_base(value, (last,))
        return self.with_base(value, (tuple(other_atoms), last))

    def _other_atoms(self, value: Value, axis: Axis) -> list[Atom]:
        """Return the base's atoms that are not in the given axis.

        They have the order of the base if the axis is an axis of the base, otherwise torch's order.
        """
        if any(axis == other for other in value.base):
            return [atom for other in value.base if other != axis for atom in other]
        return [atom for other in value.axes for atom in other if atom is not self.batch and atom not in axis]

    def as_map(self, value: Value, spatial: int = 2) -> Value:
        """Return the value of a torch tensor [B, C, H, W] with the base [C, H, W].

        `spatial` is the number of spatial axes. Raises Unsupported for tensors of other ranks.
        """
        if len(value.axes) != spatial + 2 or value.axes[0] not in ((self.batch,), ()):
            raise Unsupported(f"a tensor {list(value.shape)}, not [batch, channels] and {spatial} spatial axes")
        return self.with_base(value, value.axes[1:])

    def isolate_axis(self, value: Value, axis: int) -> tuple[Value, int]:
        """Return the value with a base in which the given torch axis is an axis of its own, and its position there."""
        atoms = value.axes[axis]
        if self.batch in atoms:
            raise Unsupported("an operation along the batch")
        if atoms in value.base and atoms:
            return value, value.base.index(atoms)
        for i, candidate in enumerate(value.base):
            for start in range(len(candidate) - len(atoms) + 1):
                if atoms and candidate[start : start + len(atoms)] == atoms:
                    parts = [part for part in (candidate[:start], atoms, candidate[start + len(atoms) :]) if part]
                    base = (*value.base[:i], *parts, *value.base[i + 1 :])
                    return self.with_base(value, base), i + parts.index(atoms)
        base = base_without_batch(value.axes, self.batch)
        skipped = sum(candidate == (self.batch,) for candidate in value.axes[:axis])
        return self.with_base(value, base), axis - skipped

    def slice_axis(self, value: Value, axis: int, start: int, stop: int) -> Value:
        """Take the positions from `start` to `stop` of a torch axis. Raises Unsupported for the batch axis."""
        size = value.shape[axis]
        if (start, stop) == (0, size):
            return value
        if self.batch in value.axes[axis]:
            raise Unsupported("a slice of the batch")
        if not set(value.axes[axis]) & set(value.atoms):  # the axis has only copies
            copies: Axis = (Atom(stop - start),) if stop - start > 1 else ()
            return replace(value, axes=(*value.axes[:axis], copies, *value.axes[axis + 1 :]))
        value, position, inner = self._with_leading_axis(value, axis)
        sliced_axis: Axis = (Atom(stop - start),) if stop - start > 1 else ()
        minor = value.base[position][len(value.axes[axis]) :]
        start, stop = start * inner, stop * inner
        if isinstance(value.node, Constant):
            node: NodeId | Constant = value.node.sliced(position, start, stop)
        else:
            type_ = self.types[value.node]
            end = None if stop == type_.shape[position] else stop
            node = self.add(Slice(start, end, None if position == type_.channel_axis else position), value.node)
        base = (*value.base[:position], sliced_axis + minor, *value.base[position + 1 :])
        return replace(value, node=node, base=base, axes=(*value.axes[:axis], sliced_axis, *value.axes[axis + 1 :]))

    def _with_leading_axis(self, value: Value, axis: int) -> tuple[Value, int, int]:
        """Return the value with a base in which the given torch axis is an axis, or the major part of one.

        Also returns the position of that base axis, and the size of its minor part.
        """
        atoms = value.axes[axis]
        for i, candidate in enumerate(value.base):
            if candidate[: len(atoms)] == atoms:
                return value, i, _size(candidate[len(atoms) :])
        value, position = self.isolate_axis(value, axis)
        return value, position, 1


def _shorten_numbers(op: Op) -> Op:
    """Return the operation with its floats rounded to the fewest digits that identify them in 32 bits."""
    numbers = {name: value for name, value in op.attributes().items() if isinstance(value, float)}
    short = {name: float(str(np.float32(value))) for name, value in numbers.items()}
    return replace(op, **short) if short != numbers else op


def scope_of(path: str) -> str:
    """Convert the path of a module to a scope: `layers.0.attn` becomes `layers[0].attn`."""
    parts = [re.sub(r"\W", "_", part) for part in path.split(".") if part]
    scope = ""
    for part in parts:
        scope += f"[{part}]" if part.isdigit() and scope else f".{part}" if scope else part
    return scope


def _size(axis: Iterable[Atom]) -> int:
    """Return the product of the sizes of atoms."""
    size = 1
    for atom in axis:
        size *= atom.size
    return size


def _flat(axes: Axes) -> list[Atom]:
    """Return the atoms of all axes in order."""
    return [atom for axis in axes for atom in axis]


def _permutation(old: Axes, new: Axes) -> tuple[int, ...] | None:
    """Return the permutation that reorders the axes `old` to `new`; None if no permutation does."""
    remaining = list(range(len(old)))
    order = []
    for axis in new:
        position = next((i for i in remaining if old[i] == axis), None)
        if position is None:
            return None
        remaining.remove(position)
        order.append(position)
    return tuple(order)


def _adjacent_runs(old: list[Atom], new: list[Atom]) -> list[list[Atom]]:
    """Split the atoms of `old` into maximal runs that are also adjacent, in the same order, in `new`."""
    successors = dict(itertools.pairwise(new))
    runs: list[list[Atom]] = []
    for atom in old:
        if runs and successors.get(runs[-1][-1]) is atom:
            runs[-1].append(atom)
        else:
            runs.append([atom])
    return runs


def _rearrange_constant(constant: Constant, old: Axes, new: Axes) -> Constant:
    """Convert a constant from one base (layout) to another."""
    if len(old) == len(new) and (order := _permutation(old, new)) is not None:
        return constant.permuted(order)
    if _flat(old) == _flat(new):
        return constant.reshaped(sizes(new))
    runs = _adjacent_runs(_flat(old), _flat(new))
    constant = constant.reshaped(tuple(_size(run) for run in runs))
    order = tuple(sorted(range(len(runs)), key=lambda i: _flat(new).index(runs[i][0])))
    return constant.permuted(order).reshaped(sizes(new))


def uniform_value(constant: Constant) -> float | None:
    """Return the number that all elements of an untrained constant equal.

    Returns None if they differ or the constant is trained.
    """
    tensor = constant.tensor
    if constant.trained or not tensor.numel() or tensor.dtype == torch.bool:
        return None
    first = tensor.reshape(-1)[0]
    return float(first) if bool((tensor == first).all()) else None
